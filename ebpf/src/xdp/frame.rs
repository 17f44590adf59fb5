//! A frame as it lies in memory: every read is checked against its end first, which is what the verifier wants to see.

use aya_ebpf::programs::XdpContext;
use weir_common::Address;

pub const ETHERNET_HEADER: usize = 14;
const VLAN_TAG: usize = 4;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_VLAN: u16 = 0x8100;
const ETHERTYPE_PROVIDER_VLAN: u16 = 0x88a8;

/// The first buffer of a frame; headers never lie behind it.
#[derive(Clone, Copy)]
pub struct Frame {
    start: usize,
    end: usize,
}

/// What Ethernet, and at most two VLAN tags, carry.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

impl Frame {
    #[inline(always)]
    pub fn of(context: &XdpContext) -> Self {
        Self {
            start: context.data(),
            end: context.data_end(),
        }
    }

    /// Whose header it has and where; None if it has none, or not the whole of it.
    #[inline(always)]
    pub fn network(self) -> Option<(Family, usize)> {
        let mut at = ETHERNET_HEADER;
        let mut ethertype = self.ethertype_before(at)?;
        for _ in 0..2 {
            if matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_PROVIDER_VLAN) {
                at += VLAN_TAG;
                ethertype = self.ethertype_before(at)?;
            }
        }
        let family = match ethertype {
            ETHERTYPE_IPV4 => self.at::<Ipv4Header>(at).map(|_| Family::V4),
            ETHERTYPE_IPV6 => self.at::<Ipv6Header>(at).map(|_| Family::V6),
            _ => None,
        };
        family.map(|family| (family, at))
    }

    #[inline(always)]
    fn ethertype_before(self, at: usize) -> Option<u16> {
        self.load(at - 2).map(u16::from_be)
    }

    /// The header at an offset; None if the frame ends before it does.
    #[inline(always)]
    pub fn load<H: Header>(self, at: usize) -> Option<H> {
        let header = self.at::<H>(at)?;
        // SAFETY: all its bytes lie before the end of the frame; any bytes are a header.
        Some(unsafe { header.read_unaligned() })
    }

    /// Where the header at an offset lies, all of it; None if the frame ends before it does.
    #[inline(always)]
    pub fn at<H: Header>(self, at: usize) -> Option<*mut H> {
        let from = self.start + at;
        let mut to = from;
        // Written out, since the compiler would rather go backwards from the end, which the verifier does not follow.
        // SAFETY: an addition.
        unsafe {
            core::arch::asm!(
                "{0} += {1}",
                inout(reg) to,
                const size_of::<H>(),
                options(pure, nomem, nostack, preserves_flags)
            );
        }
        match to > self.end {
            true => None,
            false => Some(from as *mut H),
        }
    }
}

/// A header as it lies in the frame: numbers in network byte order.
///
/// # Safety
/// The type is `repr(C)`, made of plain integers and has no implicit padding, so that any bytes are one.
pub unsafe trait Header: Copy {}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ipv4Header {
    pub version_and_length: u8,
    pub service: u8,
    pub length: u16,
    pub identification: u16,
    pub fragment: u16,
    pub time_to_live: u8,
    pub protocol: u8,
    pub checksum: u16,
    pub source: u32,
    pub destination: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ipv6Header {
    pub version: [u8; 4],
    pub length: u16,
    pub next: u8,
    pub hop_limit: u8,
    pub source: Address,
    pub destination: Address,
}

/// An address of Ethernet, in words, so that programs move words and not bytes.
pub type LinkAddress = [u16; 3];

#[repr(C)]
#[derive(Clone, Copy)]
pub struct EthernetHeader {
    pub destination: LinkAddress,
    pub source: LinkAddress,
    pub ethertype: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct TcpHeader {
    pub source: u16,
    pub destination: u16,
    pub sequence: u32,
    pub acknowledgment: u32,
    pub length: u8,
    pub flags: u8,
    pub window: u16,
    pub checksum: u16,
    pub urgent: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct UdpHeader {
    pub source: u16,
    pub destination: u16,
    pub length: u16,
    pub checksum: u16,
}

/// How TCP and UDP begin.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ports {
    pub source: u16,
    pub destination: u16,
}

/// Of ICMP and ICMPv6 errors.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct IcmpHeader {
    pub kind: u8,
    pub code: u8,
    pub checksum: u16,
    pub rest: u32,
}

impl Ipv4Header {
    /// With options, in bytes; None for a header that is none.
    #[inline(always)]
    pub fn header_length(&self) -> Option<usize> {
        let length = ((self.version_and_length & 0x0f) * 4) as usize;
        (self.version_and_length >> 4 == 4 && length >= size_of::<Self>()).then_some(length)
    }
}

const _: () = assert!(size_of::<EthernetHeader>() == 14);
const _: () = assert!(size_of::<Ports>() == 4);
const _: () = assert!(size_of::<IcmpHeader>() == 8);
const _: () = assert!(size_of::<TcpHeader>() == 20);
const _: () = assert!(size_of::<UdpHeader>() == 8);
const _: () = assert!(size_of::<Ipv4Header>() == 20);
const _: () = assert!(size_of::<Ipv6Header>() == 40);

// SAFETY: an integer.
unsafe impl Header for u16 {}
// SAFETY: an integer.
unsafe impl Header for u32 {}
// SAFETY: its fields fill the 14 bytes asserted above.
unsafe impl Header for EthernetHeader {}
// SAFETY: its fields fill the 4 bytes asserted above.
unsafe impl Header for Ports {}
// SAFETY: its fields fill the 8 bytes asserted above.
unsafe impl Header for IcmpHeader {}
// SAFETY: its fields fill the 20 bytes asserted above.
unsafe impl Header for TcpHeader {}
// SAFETY: its fields fill the 8 bytes asserted above.
unsafe impl Header for UdpHeader {}
// SAFETY: its fields fill the 20 bytes asserted above.
unsafe impl Header for Ipv4Header {}
// SAFETY: its fields fill the 40 bytes asserted above.
unsafe impl Header for Ipv6Header {}

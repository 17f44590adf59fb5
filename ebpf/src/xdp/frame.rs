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
pub enum Network {
    V4(Ipv4Header),
    V6(Ipv6Header),
}

impl Frame {
    #[inline(always)]
    pub fn of(context: &XdpContext) -> Self {
        Self {
            start: context.data(),
            end: context.data_end(),
        }
    }

    /// The IP header and where it lies; None if the frame has none, or not the whole of it.
    #[inline(always)]
    pub fn network(self) -> Option<(Network, usize)> {
        let mut at = ETHERNET_HEADER;
        let mut ethertype = self.ethertype_before(at)?;
        for _ in 0..2 {
            if matches!(ethertype, ETHERTYPE_VLAN | ETHERTYPE_PROVIDER_VLAN) {
                at += VLAN_TAG;
                ethertype = self.ethertype_before(at)?;
            }
        }
        let network = match ethertype {
            ETHERTYPE_IPV4 => Network::V4(self.load(at)?),
            ETHERTYPE_IPV6 => Network::V6(self.load(at)?),
            _ => return None,
        };
        Some((network, at))
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
        match from + size_of::<H>() > self.end {
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

const _: () = assert!(size_of::<EthernetHeader>() == 14);
const _: () = assert!(size_of::<TcpHeader>() == 20);
const _: () = assert!(size_of::<UdpHeader>() == 8);
const _: () = assert!(size_of::<Ipv4Header>() == 20);
const _: () = assert!(size_of::<Ipv6Header>() == 40);

// SAFETY: an integer.
unsafe impl Header for u16 {}
// SAFETY: its fields fill the 14 bytes asserted above.
unsafe impl Header for EthernetHeader {}
// SAFETY: its fields fill the 20 bytes asserted above.
unsafe impl Header for TcpHeader {}
// SAFETY: its fields fill the 8 bytes asserted above.
unsafe impl Header for UdpHeader {}
// SAFETY: its fields fill the 20 bytes asserted above.
unsafe impl Header for Ipv4Header {}
// SAFETY: its fields fill the 40 bytes asserted above.
unsafe impl Header for Ipv6Header {}

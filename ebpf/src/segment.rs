//! Reads a packet: what TCP says in it, and between whom. What is not TCP in a single packet of IPv4 or IPv6 is none of
//! ours. Lengths are those of the IP header: a short frame is padded on the wire.

use core::mem::MaybeUninit;

use aya_ebpf::bindings::bpf_hdr_start_off::BPF_HDR_START_NET;
use aya_ebpf::helpers::generated::{bpf_skb_load_bytes, bpf_skb_load_bytes_relative};
use aya_ebpf::programs::TcContext;
use weir_common::{Address, FlowKey, Reason};

/// Where a packet is seen decides which of its ends is ours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    Egress,
    Ingress,
}

/// One TCP segment, or the many that segmentation offload keeps together.
pub struct Segment {
    pub key: FlowKey,
    pub sequence: u32,
    pub acknowledgment: u32,
    /// Bytes of payload.
    pub payload: u32,
    flags: u8,
}

const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

impl Segment {
    #[inline(always)]
    pub fn read(context: &TcContext, direction: Direction) -> Result<Self, Reason> {
        let ip = match u16::from_be(context.skb.protocol() as u16) {
            ETHERTYPE_IPV4 => read_ipv4(context)?,
            ETHERTYPE_IPV6 => read_ipv6(context)?,
            _ => return Err(Reason::NotMeasured),
        };
        let tcp: TcpHeader = load(context, ip.header)?;
        let header = (tcp.length >> 4) as u32 * 4;
        let headers = ip.header + header;
        if header < 20 || ip.length < headers || ip.length > context.len() {
            return Err(Reason::NotMeasured);
        }
        let key = match direction {
            Direction::Egress => FlowKey {
                local: ip.source,
                remote: ip.destination,
                local_port: tcp.source,
                remote_port: tcp.destination,
            },
            Direction::Ingress => FlowKey {
                local: ip.destination,
                remote: ip.source,
                local_port: tcp.destination,
                remote_port: tcp.source,
            },
        };
        Ok(Self {
            key,
            sequence: u32::from_be(tcp.sequence),
            acknowledgment: u32::from_be(tcp.acknowledgment),
            payload: ip.length - headers,
            flags: tcp.flags,
        })
    }

    /// Opens a connection.
    #[inline(always)]
    pub fn is_syn(&self) -> bool {
        self.flags & (SYN | ACK) == SYN
    }

    /// Accepts one.
    #[inline(always)]
    pub fn is_syn_ack(&self) -> bool {
        self.flags & (SYN | ACK) == SYN | ACK
    }

    #[inline(always)]
    pub fn is_reset(&self) -> bool {
        self.flags & RST != 0
    }

    /// Ends its side of the connection, in order or not.
    #[inline(always)]
    pub fn is_end(&self) -> bool {
        self.flags & (FIN | RST) != 0
    }

    /// Sequence number just behind the payload.
    #[inline(always)]
    pub fn end(&self) -> u32 {
        self.sequence.wrapping_add(self.payload)
    }
}

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const TCP: u8 = 6;

/// What an IP header says. Lengths are in bytes from its start.
struct Ip {
    source: Address,
    destination: Address,
    /// Where TCP begins.
    header: u32,
    /// The whole packet.
    length: u32,
}

#[inline(always)]
fn read_ipv4(context: &TcContext) -> Result<Ip, Reason> {
    let ip: Ipv4Header = load(context, 0)?;
    let header = (ip.version_and_length & 0x0f) as u32 * 4;
    if ip.protocol != TCP || ip.version_and_length >> 4 != 4 || header < 20 {
        return Err(Reason::NotMeasured);
    }
    // More fragments to come, or an offset (RFC 791 section 3.1).
    if u16::from_be(ip.fragment) & 0x3fff != 0 {
        return Err(Reason::Unwalked);
    }
    Ok(Ip {
        source: mapped(ip.source),
        destination: mapped(ip.destination),
        header,
        length: whole(context, u16::from_be(ip.length), 0),
    })
}

#[inline(always)]
fn mapped(v4: u32) -> Address {
    [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), v4]
}

#[inline(always)]
fn read_ipv6(context: &TcContext) -> Result<Ip, Reason> {
    let ip: Ipv6Header = load(context, 0)?;
    let (header, length) = match ip.next {
        TCP => {
            let length = whole(context, u16::from_be(ip.length), IPV6_HEADER);
            (IPV6_HEADER, length)
        }
        HOP_BY_HOP if ip.length == 0 => (IPV6_HEADER + 8, read_jumbo(context)?),
        // Hop-by-hop options, routing, fragment, authentication, destination options, mobility, HIP, shim6: TCP may
        // follow behind them.
        HOP_BY_HOP | 43 | 44 | 51 | 60 | 135 | 139 | 140 => return Err(Reason::Unwalked),
        _ => return Err(Reason::NotMeasured),
    };
    Ok(Ip {
        source: ip.source,
        destination: ip.destination,
        header,
        length,
    })
}

const IPV6_HEADER: u32 = size_of::<Ipv6Header>() as u32;
const HOP_BY_HOP: u8 = 0;

/// What segmentation offload keeps together beyond 64 KiB, Linux sends through its own stack - loopback does it by
/// default - with a hop-by-hop header that holds nothing but the length (RFC 2675 section 2). It never leaves the host.
#[inline(always)]
fn read_jumbo(context: &TcContext) -> Result<u32, Reason> {
    let jumbo: JumboHeader = load(context, IPV6_HEADER)?;
    if jumbo.next != TCP || jumbo.length != 0 || jumbo.option != [0xc2, 4] {
        return Err(Reason::Unwalked);
    }
    Ok(u32::from_be(jumbo.payload).wrapping_add(IPV6_HEADER))
}

/// Length of the packet whose header says `length`, not counting `uncounted` bytes. It says zero where the packet is
/// larger than the field can tell, which segmentation offload makes possible.
#[inline(always)]
fn whole(context: &TcContext, length: u16, uncounted: u32) -> u32 {
    if length == 0 {
        return context.len().wrapping_sub(link_header(context));
    }
    length as u32 + uncounted
}

const ETHERNET_HEADER: u32 = 14;

/// Length of the link header: tunnels have none. Where the protocol stands as it does in Ethernet, it is Ethernet.
#[inline(always)]
fn link_header(context: &TcContext) -> u32 {
    let protocol = context.load::<u16>(ETHERNET_HEADER as usize - 2);
    if protocol == Ok(context.skb.protocol() as u16) {
        ETHERNET_HEADER
    } else {
        0
    }
}

/// A header as it lies in the packet: numbers in network byte order.
///
/// # Safety
/// The type is `repr(C)`, made of plain integers and has no implicit padding, so that any bytes are one.
unsafe trait Header: Copy {}

#[repr(C)]
#[derive(Clone, Copy)]
struct Ipv4Header {
    version_and_length: u8,
    service: u8,
    length: u16,
    identification: u16,
    fragment: u16,
    time_to_live: u8,
    protocol: u8,
    checksum: u16,
    source: u32,
    destination: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Ipv6Header {
    version: [u8; 4],
    length: u16,
    next: u8,
    hop_limit: u8,
    source: Address,
    destination: Address,
}

/// A hop-by-hop options header that holds nothing but a jumbo payload option.
#[repr(C)]
#[derive(Clone, Copy)]
struct JumboHeader {
    next: u8,
    length: u8,
    option: [u8; 2],
    payload: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct TcpHeader {
    source: u16,
    destination: u16,
    sequence: u32,
    acknowledgment: u32,
    length: u8,
    flags: u8,
    window: u16,
    checksum: u16,
    urgent: u16,
}

const _: () = assert!(size_of::<Ipv4Header>() == 20);
const _: () = assert!(size_of::<Ipv6Header>() == 40);
const _: () = assert!(size_of::<JumboHeader>() == 8);
const _: () = assert!(size_of::<TcpHeader>() == 20);

// SAFETY: its fields fill the 20 bytes asserted above.
unsafe impl Header for Ipv4Header {}
// SAFETY: its fields fill the 40 bytes asserted above.
unsafe impl Header for Ipv6Header {}
// SAFETY: its fields fill the 8 bytes asserted above.
unsafe impl Header for JumboHeader {}
// SAFETY: its fields fill the 20 bytes asserted above.
unsafe impl Header for TcpHeader {}

/// The header at an offset from the IP header.
#[inline(always)]
fn load<H: Header>(context: &TcContext, offset: u32) -> Result<H, Reason> {
    let skb = context.skb.skb.cast();
    let length = size_of::<H>() as u32;
    let mut header = MaybeUninit::<H>::uninit();
    let to = header.as_mut_ptr().cast();
    // SAFETY: `skb` is the context of this program, and `to` points to the `length` bytes the helper may write.
    let linear = unsafe { bpf_skb_load_bytes_relative(skb, offset, to, length, BPF_HDR_START_NET) };
    if linear != 0 {
        // That helper does not look beyond the linear part, where a driver may have left the header; this one does.
        let offset = offset + link_header(context);
        // SAFETY: as above.
        let anywhere = unsafe { bpf_skb_load_bytes(skb, offset, to, length) };
        if anywhere != 0 {
            return Err(Reason::NotMeasured);
        }
    }
    // SAFETY: one of the helpers has succeeded, so it wrote all the bytes, and any bytes are a header.
    Ok(unsafe { header.assume_init() })
}

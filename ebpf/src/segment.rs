//! Reads a packet: what TCP says in it, and between whom. What is not TCP in a single packet of IPv4 or IPv6 is none of
//! ours. Lengths are those of the IP header: a short frame is padded on the wire.

use core::mem::MaybeUninit;

use aya_ebpf::bindings::bpf_hdr_start_off::BPF_HDR_START_NET;
use aya_ebpf::helpers::generated::{bpf_skb_load_bytes, bpf_skb_load_bytes_relative};
use aya_ebpf::programs::TcContext;
use weir_common::{FlowKey, Reason};

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
        let mut key = FlowKey {
            local: [0; 16],
            remote: [0; 16],
            local_port: 0,
            remote_port: 0,
        };
        let ip = match u16::from_be(context.skb.protocol() as u16) {
            ETHERTYPE_IPV4 => read_ipv4(context, direction, &mut key)?,
            ETHERTYPE_IPV6 => read_ipv6(context, direction, &mut key)?,
            _ => return Err(Reason::NotMeasured),
        };

        let tcp: [u8; 20] = load(context, ip.header)?;
        let header = ip.header + (tcp[12] >> 4) as u32 * 4;
        if header < ip.header + 20 || ip.length < header || ip.length > context.len() {
            return Err(Reason::NotMeasured);
        }
        let source_port = u16::from_ne_bytes([tcp[0], tcp[1]]);
        let destination_port = u16::from_ne_bytes([tcp[2], tcp[3]]);
        (key.local_port, key.remote_port) = match direction {
            Direction::Egress => (source_port, destination_port),
            Direction::Ingress => (destination_port, source_port),
        };
        Ok(Self {
            key,
            sequence: u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]),
            acknowledgment: u32::from_be_bytes([tcp[8], tcp[9], tcp[10], tcp[11]]),
            payload: ip.length - header,
            flags: tcp[13],
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

/// What an IP header says, in bytes from its start.
struct Ip {
    /// Its own length: where TCP begins.
    header: u32,
    /// The whole packet.
    length: u32,
}

#[inline(always)]
fn read_ipv4(context: &TcContext, direction: Direction, key: &mut FlowKey) -> Result<Ip, Reason> {
    let ip: [u8; 20] = load(context, 0)?;
    let header = (ip[0] & 0x0f) as u32 * 4;
    if ip[9] != TCP || ip[0] >> 4 != 4 || header < 20 {
        return Err(Reason::NotMeasured);
    }
    // More fragments to come, or an offset (RFC 791 section 3.1).
    if u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0 {
        return Err(Reason::Unwalked);
    }
    let (source, destination) = match direction {
        Direction::Egress => (&mut key.local, &mut key.remote),
        Direction::Ingress => (&mut key.remote, &mut key.local),
    };
    *source = mapped([ip[12], ip[13], ip[14], ip[15]]);
    *destination = mapped([ip[16], ip[17], ip[18], ip[19]]);
    let length = u16::from_be_bytes([ip[2], ip[3]]) as u32;
    Ok(Ip {
        header,
        length: whole(context, length, 0),
    })
}

#[inline(always)]
fn mapped(v4: [u8; 4]) -> [u8; 16] {
    let [a, b, c, d] = v4;
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, a, b, c, d]
}

#[inline(always)]
fn read_ipv6(context: &TcContext, direction: Direction, key: &mut FlowKey) -> Result<Ip, Reason> {
    let ip: [u8; 8] = load(context, 0)?;
    let length = u16::from_be_bytes([ip[4], ip[5]]) as u32;
    let ip = match ip[6] {
        TCP => Ip {
            header: IPV6_HEADER,
            length: whole(context, length, IPV6_HEADER),
        },
        HOP_BY_HOP if length == 0 => read_jumbo(context)?,
        // Hop-by-hop options, routing, fragment, authentication, destination options, mobility, HIP, shim6: TCP may
        // follow behind them.
        HOP_BY_HOP | 43 | 44 | 51 | 60 | 135 | 139 | 140 => return Err(Reason::Unwalked),
        _ => return Err(Reason::NotMeasured),
    };
    let (source, destination) = match direction {
        Direction::Egress => (&mut key.local, &mut key.remote),
        Direction::Ingress => (&mut key.remote, &mut key.local),
    };
    *source = load(context, 8)?;
    *destination = load(context, 24)?;
    Ok(ip)
}

const IPV6_HEADER: u32 = 40;
const HOP_BY_HOP: u8 = 0;

/// What segmentation offload keeps together beyond 64 KiB, Linux sends through its own stack - loopback does it by
/// default - with a hop-by-hop header that holds nothing but the length (RFC 2675 section 2). It never leaves the host.
#[inline(always)]
fn read_jumbo(context: &TcContext) -> Result<Ip, Reason> {
    const JUMBO_ALONE: [u8; 4] = [TCP, 0, 0xc2, 4];
    let [a, b, c, d, length @ ..]: [u8; 8] = load(context, IPV6_HEADER)?;
    if [a, b, c, d] != JUMBO_ALONE {
        return Err(Reason::Unwalked);
    }
    Ok(Ip {
        header: IPV6_HEADER + 8,
        length: u32::from_be_bytes(length).wrapping_add(IPV6_HEADER),
    })
}

/// Length of the packet whose header says `length`, not counting `uncounted` bytes. It says zero where the packet is
/// larger than the field can tell, which segmentation offload makes possible.
#[inline(always)]
fn whole(context: &TcContext, length: u32, uncounted: u32) -> u32 {
    if length == 0 {
        return context.len().wrapping_sub(link_header(context));
    }
    length + uncounted
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

/// Bytes of the packet at an offset from its IP header.
#[inline(always)]
fn load<const N: usize>(context: &TcContext, offset: u32) -> Result<[u8; N], Reason> {
    let skb = context.skb.skb.cast();
    let mut bytes = MaybeUninit::<[u8; N]>::uninit();
    let to = bytes.as_mut_ptr().cast();
    // SAFETY: `skb` is the context of this program and `to` points to the `N` bytes the helper may write.
    let linear =
        unsafe { bpf_skb_load_bytes_relative(skb, offset, to, N as u32, BPF_HDR_START_NET) };
    if linear != 0 {
        // That helper does not look beyond the linear part, where a driver may have left the TCP header; this one does.
        let offset = offset + link_header(context);
        // SAFETY: as above.
        let anywhere = unsafe { bpf_skb_load_bytes(skb, offset, to, N as u32) };
        if anywhere != 0 {
            return Err(Reason::NotMeasured);
        }
    }
    // SAFETY: one of the helpers has succeeded, which means that it wrote all `N` bytes.
    Ok(unsafe { bytes.assume_init() })
}

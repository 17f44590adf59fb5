//! A packet of TCP or UDP on its way to a service or back: between whom, and where its parts lie. Untagged Ethernet, a
//! whole packet of IPv4 or IPv6 without extension headers; everything else is told by why it is not read.

use weir_common::{Address, ConnectionKey, TCP, UDP};

use super::frame::{ETHERNET_HEADER, Family, Frame, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};

pub struct Packet {
    pub key: ConnectionKey,
    pub family: Family,
    /// Of the IP packet, in bytes.
    pub length: u16,
    /// Where TCP or UDP begins, in bytes from the start of the frame.
    pub transport: usize,
    /// Of TCP; 0 for UDP.
    pub flags: u8,
    /// How many more it may live.
    pub hops: u8,
}

/// Why a packet is not read. Each with where it was going, as far as an IP header says.
pub enum Unread {
    /// Neither TCP nor UDP, or no IP at all.
    NotOurs,
    Fragment(Address),
    /// A header that ends before it should, or contradicts itself.
    Malformed(Address),
}

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

impl Packet {
    #[inline(always)]
    pub fn read(frame: Frame, family: Family) -> Result<Self, Unread> {
        match family {
            Family::V4 => Self::read_v4(frame),
            Family::V6 => Self::read_v6(frame),
        }
    }

    #[inline(always)]
    fn read_v4(frame: Frame) -> Result<Self, Unread> {
        let Some(ip) = frame.load::<Ipv4Header>(ETHERNET_HEADER) else {
            return Err(Unread::NotOurs);
        };
        let destination = mapped(ip.destination);
        let malformed = Unread::Malformed(destination);
        let Some(header) = ip.header_length() else {
            return Err(malformed);
        };
        if is_fragment(&ip) {
            return Err(Unread::Fragment(destination));
        }
        let length = u16::from_be(ip.length);
        let key = ConnectionKey {
            source: mapped(ip.source),
            destination,
            protocol: ip.protocol,
            ..EMPTY
        };
        Self {
            key,
            family: Family::V4,
            length,
            transport: ETHERNET_HEADER + header,
            flags: 0,
            hops: ip.time_to_live,
        }
        .with_transport(frame, length as usize - header.min(length as usize))
    }

    #[inline(always)]
    fn read_v6(frame: Frame) -> Result<Self, Unread> {
        /// Of the fragment header (RFC 8200 section 4.5).
        const FRAGMENT: u8 = 44;
        let Some(ip) = frame.load::<Ipv6Header>(ETHERNET_HEADER) else {
            return Err(Unread::NotOurs);
        };
        if ip.next == FRAGMENT {
            return Err(Unread::Fragment(ip.destination));
        }
        let payload = u16::from_be(ip.length);
        let key = ConnectionKey {
            source: ip.source,
            destination: ip.destination,
            protocol: ip.next,
            ..EMPTY
        };
        Self {
            key,
            family: Family::V6,
            length: payload.saturating_add(size_of::<Ipv6Header>() as u16),
            transport: ETHERNET_HEADER + size_of::<Ipv6Header>(),
            flags: 0,
            hops: ip.hop_limit,
        }
        .with_transport(frame, payload as usize)
    }

    /// `payload` is what the IP header says there is of TCP or UDP.
    #[inline(always)]
    fn with_transport(mut self, frame: Frame, payload: usize) -> Result<Self, Unread> {
        let malformed = Unread::Malformed(self.key.destination);
        match self.key.protocol {
            TCP => {
                let Some(tcp) = frame.load::<TcpHeader>(self.transport) else {
                    return Err(malformed);
                };
                let header = (tcp.length >> 4) as usize * 4;
                if header < size_of::<TcpHeader>() || payload < header || is_senseless(tcp.flags) {
                    return Err(malformed);
                }
                self.key.source_port = tcp.source;
                self.key.destination_port = tcp.destination;
                self.flags = tcp.flags;
            }
            UDP => {
                let Some(udp) = frame.load::<UdpHeader>(self.transport) else {
                    return Err(malformed);
                };
                let length = u16::from_be(udp.length) as usize;
                if length < size_of::<UdpHeader>() || payload < length {
                    return Err(malformed);
                }
                self.key.source_port = udp.source;
                self.key.destination_port = udp.destination;
            }
            _ => return Err(Unread::NotOurs),
        }
        Ok(self)
    }

    /// Opens a connection of TCP.
    #[inline(always)]
    pub fn is_syn(&self) -> bool {
        self.flags & (SYN | ACK) == SYN
    }

    /// Accepts one.
    #[inline(always)]
    pub fn is_syn_ack(&self) -> bool {
        self.flags & (SYN | ACK) == SYN | ACK
    }
}

/// More fragments to come, or an offset (RFC 791 section 3.1).
#[inline(always)]
pub fn is_fragment(ip: &Ipv4Header) -> bool {
    u16::from_be(ip.fragment) & 0x3fff != 0
}

/// No stack sends these together, nor none of all; scanners do.
#[inline(always)]
fn is_senseless(flags: u8) -> bool {
    let (has_syn, has_end) = (flags & SYN != 0, flags & (FIN | RST) != 0);
    (has_syn && has_end) || flags & (SYN | FIN | RST | ACK) == 0
}

const EMPTY: ConnectionKey = ConnectionKey {
    source: [0; 4],
    destination: [0; 4],
    source_port: 0,
    destination_port: 0,
    protocol: 0,
    padding: [0; 3],
};

#[inline(always)]
pub fn mapped(v4: u32) -> Address {
    [0, 0, u32::from_ne_bytes([0, 0, 0xff, 0xff]), v4]
}

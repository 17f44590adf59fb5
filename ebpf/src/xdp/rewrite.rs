//! Gives a packet other ends: addresses, ports, the link's addresses, one hop less to live, and checksums that follow by
//! what has changed (RFC 1624).

use weir_common::{Connection, TCP};

use super::frame::{EthernetHeader, Frame, Ipv4Header, Ipv6Header, TcpHeader, UdpHeader};
use super::packet::{Family, Packet};
use super::route::Route;

/// A sum of 16-bit words in ones' complement, in the making. The order of bytes does not matter to it.
#[derive(Clone, Copy)]
struct Difference(u64);

impl Difference {
    const NONE: Self = Self(0);

    /// A 32-bit word, or a 16-bit one, in the place of another.
    #[inline(always)]
    fn replace(self, old: u32, new: u32) -> Self {
        Self(self.0 + !old as u64 + new as u64)
    }

    /// The checksum after all replacements.
    #[inline(always)]
    fn apply(self, checksum: u16) -> u16 {
        let mut sum = self.0 + !checksum as u64;
        sum = (sum & 0xffff_ffff) + (sum >> 32);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        sum = (sum & 0xffff) + (sum >> 16);
        !(sum as u16)
    }
}

/// Rewrites the packet in place. None if a header is not where it was read, which the verifier alone can imagine.
#[inline(always)]
pub fn rewrite(frame: Frame, packet: &Packet, to: &Connection, route: &Route) -> Option<()> {
    let addresses = match packet.family {
        Family::V4 => rewrite_v4(frame, to)?,
        Family::V6 => rewrite_v6(frame, packet, to)?,
    };
    let ports = addresses
        .replace(packet.key.source_port as u32, to.source_port as u32)
        .replace(
            packet.key.destination_port as u32,
            to.destination_port as u32,
        );
    if packet.key.protocol == TCP {
        let tcp = frame.at::<TcpHeader>(packet.transport)?;
        // SAFETY: `at` has checked that the header lies within the frame.
        let mut header = unsafe { tcp.read_unaligned() };
        header.source = to.source_port;
        header.destination = to.destination_port;
        header.checksum = ports.apply(header.checksum);
        // SAFETY: as above.
        unsafe { tcp.write_unaligned(header) };
    } else {
        let udp = frame.at::<UdpHeader>(packet.transport)?;
        // SAFETY: `at` has checked that the header lies within the frame.
        let mut header = unsafe { udp.read_unaligned() };
        header.source = to.source_port;
        header.destination = to.destination_port;
        // Zero says that there is none, and all ones is zero's other name (RFC 768).
        if header.checksum != 0 {
            header.checksum = match ports.apply(header.checksum) {
                0 => 0xffff,
                checksum => checksum,
            };
        }
        // SAFETY: as above.
        unsafe { udp.write_unaligned(header) };
    }
    let ethernet = frame.at::<EthernetHeader>(0)?;
    // SAFETY: `at` has checked that the header lies within the frame.
    let mut header = unsafe { ethernet.read_unaligned() };
    header.destination = route.destination;
    header.source = route.source;
    // SAFETY: as above.
    unsafe { ethernet.write_unaligned(header) };
    Some(())
}

#[inline(always)]
fn rewrite_v4(frame: Frame, to: &Connection) -> Option<Difference> {
    let ip = frame.at::<Ipv4Header>(super::frame::ETHERNET_HEADER)?;
    // SAFETY: `at` has checked that the header lies within the frame.
    let mut header = unsafe { ip.read_unaligned() };
    let addresses = Difference::NONE
        .replace(header.source, to.source[3])
        .replace(header.destination, to.destination[3]);
    let hops =
        |header: &Ipv4Header| u16::from_ne_bytes([header.time_to_live, header.protocol]) as u32;
    let before = hops(&header);
    header.source = to.source[3];
    header.destination = to.destination[3];
    header.time_to_live = header.time_to_live.wrapping_sub(1);
    header.checksum = addresses
        .replace(before, hops(&header))
        .apply(header.checksum);
    // SAFETY: as above.
    unsafe { ip.write_unaligned(header) };
    Some(addresses)
}

#[inline(always)]
fn rewrite_v6(frame: Frame, packet: &Packet, to: &Connection) -> Option<Difference> {
    let ip = frame.at::<Ipv6Header>(super::frame::ETHERNET_HEADER)?;
    let mut addresses = Difference::NONE;
    for word in 0..4 {
        addresses = addresses
            .replace(packet.key.source[word], to.source[word])
            .replace(packet.key.destination[word], to.destination[word]);
    }
    // SAFETY: `at` has checked that the header lies within the frame.
    let mut header = unsafe { ip.read_unaligned() };
    header.source = to.source;
    header.destination = to.destination;
    header.hop_limit = header.hop_limit.wrapping_sub(1);
    // SAFETY: as above.
    unsafe { ip.write_unaligned(header) };
    Some(addresses)
}

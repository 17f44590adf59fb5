//! Gives a packet other ends: addresses, ports, the link's addresses, one hop less to live, and checksums that follow by
//! what has changed (RFC 1624). Words are changed where they lie: headers are too large for the stack.

use core::mem::offset_of;

use weir_common::{Address, Connection, TCP};

use super::frame::{
    ETHERNET_HEADER, EthernetHeader, Family, Frame, Header, Ipv4Header, Ipv6Header, Ports,
    TcpHeader, UdpHeader,
};
use super::packet::Packet;
use super::route::Route;

/// A sum of 16-bit words in ones' complement, in the making. The order of bytes does not matter to it.
#[derive(Clone, Copy)]
pub struct Difference(u64);

impl Difference {
    pub const NONE: Self = Self(0);

    /// A word in the place of another.
    #[inline(always)]
    pub fn between(old: impl Into<u32>, new: impl Into<u32>) -> Self {
        Self(!old.into() as u64 + new.into() as u64)
    }

    /// Both.
    #[inline(always)]
    pub fn and(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }

    /// The checksum after all replacements.
    #[inline(always)]
    pub fn apply(self, checksum: u16) -> u16 {
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
    let addresses = pass_on(frame, packet.family, to)?;
    let ports = put_ports(
        frame,
        packet.transport,
        Ports {
            source: to.source_port,
            destination: to.destination_port,
        },
    )?;
    let changed = addresses.and(ports);
    if packet.key.protocol == TCP {
        let at = packet.transport + offset_of!(TcpHeader, checksum);
        reseal(frame, at, changed)?;
    } else {
        let at = packet.transport + offset_of!(UdpHeader, checksum);
        let checksum: u16 = frame.load(at)?;
        // Zero says that there is none, and all ones is zero's other name (RFC 768).
        if checksum != 0 {
            let checksum = match changed.apply(checksum) {
                0 => 0xffff,
                checksum => checksum,
            };
            put(frame, at, checksum)?;
        }
    }
    relink(frame, route)
}

/// Addresses of the link it leaves by.
#[inline(always)]
pub fn relink(frame: Frame, route: &Route) -> Option<()> {
    let ethernet = frame.at::<EthernetHeader>(0)?;
    // SAFETY: `at` has checked that the header lies within the frame.
    let mut header = unsafe { ethernet.read_unaligned() };
    header.destination = route.destination;
    header.source = route.source;
    // SAFETY: as above.
    unsafe { ethernet.write_unaligned(header) };
    Some(())
}

/// The packet's own IP header. Returns what checksums over the addresses change by.
#[inline(always)]
pub fn pass_on(frame: Frame, family: Family, to: &Connection) -> Option<Difference> {
    const AT: usize = ETHERNET_HEADER;
    match family {
        Family::V4 => {
            let addresses = put_v4(frame, AT, to.source[3], to.destination[3])?;
            // The first byte of the two, whatever the order of bytes.
            let at = AT + offset_of!(Ipv4Header, time_to_live);
            let [hops, protocol] = frame.load::<u16>(at)?.to_ne_bytes();
            let hop = put(
                frame,
                at,
                u16::from_ne_bytes([hops.wrapping_sub(1), protocol]),
            )?;
            reseal(
                frame,
                AT + offset_of!(Ipv4Header, checksum),
                addresses.and(hop),
            )?;
            Some(addresses)
        }
        Family::V6 => {
            let addresses = put_v6(frame, AT, &to.source, &to.destination)?;
            let at = AT + offset_of!(Ipv6Header, next);
            let [next, hops] = frame.load::<u16>(at)?.to_ne_bytes();
            put(frame, at, u16::from_ne_bytes([next, hops.wrapping_sub(1)]))?;
            Some(addresses)
        }
    }
}

#[inline(always)]
pub fn put_v4(frame: Frame, at: usize, source: u32, destination: u32) -> Option<Difference> {
    let source = put(frame, at + offset_of!(Ipv4Header, source), source)?;
    let at = at + offset_of!(Ipv4Header, destination);
    Some(source.and(put(frame, at, destination)?))
}

#[inline(always)]
pub fn put_v6(
    frame: Frame,
    at: usize,
    source: &Address,
    destination: &Address,
) -> Option<Difference> {
    let mut changed = Difference::NONE;
    for word in 0..4 {
        let at = at + offset_of!(Ipv6Header, source) + 4 * word;
        let source = put(frame, at, source[word])?;
        let destination = put(frame, at + size_of::<Address>(), destination[word])?;
        changed = changed.and(source).and(destination);
    }
    Some(changed)
}

#[inline(always)]
pub fn put_ports(frame: Frame, at: usize, ports: Ports) -> Option<Difference> {
    let source = put(frame, at + offset_of!(Ports, source), ports.source)?;
    let at = at + offset_of!(Ports, destination);
    Some(source.and(put(frame, at, ports.destination)?))
}

/// A checksum follows what it is of. Returns what that changes itself.
#[inline(always)]
pub fn reseal(frame: Frame, at: usize, changed: Difference) -> Option<Difference> {
    let checksum = changed.apply(frame.load(at)?);
    put(frame, at, checksum)
}

/// A word in the place of what lies there.
#[inline(always)]
fn put<W: Header + Into<u32>>(frame: Frame, at: usize, new: W) -> Option<Difference> {
    let place = frame.at::<W>(at)?;
    // SAFETY: `at` has checked that it lies within the frame; any bytes are a word.
    let old = unsafe { place.read_unaligned() };
    // SAFETY: as above.
    unsafe { place.write_unaligned(new) };
    Some(Difference::between(old, new))
}

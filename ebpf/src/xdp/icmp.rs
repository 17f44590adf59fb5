//! ICMP errors about packets that were sent on: they go to whoever sent the packet, and quote it as it was then. Without
//! them nobody would learn how large a packet may be on the whole way.
//!
//! ```text
//! router ──(router, ours: about ours → endpoint)──► us ──(VIP, client: about client → VIP)──► client
//! ```

use core::mem::offset_of;

use aya_ebpf::programs::XdpContext;
use weir_common::{Connection, ConnectionKey, Reason, TCP, UDP};

use super::frame::{
    ETHERNET_HEADER, Family, Frame, IcmpHeader, Ipv4Header, Ipv6Header, Ports, TcpHeader, UdpHeader,
};
use super::packet::{is_fragment, mapped};
use super::rewrite::{Difference, pass_on, put_ports, put_v4, put_v6, relink, reseal};
use super::route::{Route, Way};
use super::scratch;
use super::{Verdict, service};
use crate::tables::CONNECTION;

const ICMP_V4: u8 = 1;
const ICMP_V6: u8 = 58;

/// Where headers lie. Those of IPv4 are without options: places known beforehand take no room on the stack.
struct Places {
    icmp: usize,
    quoted: usize,
    quoted_transport: usize,
}

impl Places {
    #[inline(always)]
    const fn of(family: Family) -> Self {
        let header = match family {
            Family::V4 => size_of::<Ipv4Header>(),
            Family::V6 => size_of::<Ipv6Header>(),
        };
        let icmp = ETHERNET_HEADER + header;
        let quoted = icmp + size_of::<IcmpHeader>();
        Self {
            icmp,
            quoted,
            quoted_transport: quoted + header,
        }
    }
}

const V4: Places = Places::of(Family::V4);
const V6: Places = Places::of(Family::V6);

#[inline(always)]
pub fn is_icmp(frame: Frame, family: Family) -> bool {
    match family {
        Family::V4 => frame
            .load::<Ipv4Header>(ETHERNET_HEADER)
            .is_some_and(|ip| ip.protocol == ICMP_V4),
        Family::V6 => frame
            .load::<Ipv6Header>(ETHERNET_HEADER)
            .is_some_and(|ip| ip.next == ICMP_V6),
    }
}

/// None if it is none of ours: the host's.
#[inline(always)]
pub fn serve(context: &XdpContext, frame: Frame, family: Family) -> Option<Verdict> {
    // What answers to the quoted packet come in with leads to its sender.
    let key = scratch::key().ok()?;
    let length = match family {
        Family::V4 => read_v4(frame, key)?,
        Family::V6 => read_v6(frame, key)?,
    };
    let to = CONNECTION.get_ptr(&*key)?;
    // SAFETY: elements of the table stay in place while a program runs, and ends are never rewritten.
    let to = unsafe { &*to };
    let way = Way {
        family,
        protocol: key.protocol,
        length,
    };
    let route = match Route::find(context, way, to) {
        Ok(route) => route,
        Err(reason) => return Some(service::dropped(reason)),
    };
    match family {
        Family::V4 => rewrite_v4(frame, key.protocol, to)?,
        Family::V6 => rewrite_v6(frame, key.protocol, to)?,
    }
    relink(frame, &route)?;
    Some(service::leave(context, &route, Reason::IcmpTranslated))
}

/// Returns the length of the error.
#[inline(always)]
fn read_v4(frame: Frame, key: &mut ConnectionKey) -> Option<u16> {
    /// Version 4, five words long.
    const PLAIN: u8 = 0x45;
    let ip: Ipv4Header = frame.load(ETHERNET_HEADER)?;
    let inner: Ipv4Header = frame.load(V4.quoted)?;
    let are_plain = ip.version_and_length == PLAIN && inner.version_and_length == PLAIN;
    // Later fragments begin with no ports.
    let is_first = u16::from_be(inner.fragment) & 0x1fff == 0;
    if !are_plain || !is_first || is_fragment(&ip) || ip.time_to_live <= 1 {
        return None;
    }
    // Destination unreachable, time exceeded, parameter problem (RFC 792).
    let is_error = matches!(frame.load::<IcmpHeader>(V4.icmp)?.kind, 3 | 11 | 12);
    if !is_error || inner.source != ip.destination {
        return None;
    }
    let ports = ports(frame, V4.quoted_transport, inner.protocol)?;
    *key = ConnectionKey {
        source: mapped(inner.destination),
        destination: mapped(inner.source),
        source_port: ports.destination,
        destination_port: ports.source,
        protocol: inner.protocol,
        padding: [0; 3],
    };
    Some(u16::from_be(ip.length))
}

/// Returns the length of the error.
#[inline(always)]
fn read_v6(frame: Frame, key: &mut ConnectionKey) -> Option<u16> {
    let ip: Ipv6Header = frame.load(ETHERNET_HEADER)?;
    let inner: Ipv6Header = frame.load(V6.quoted)?;
    // Unreachable, too big, time exceeded, parameter problem (RFC 4443).
    let is_error = matches!(frame.load::<IcmpHeader>(V6.icmp)?.kind, 1..=4);
    if !is_error || inner.source != ip.destination || ip.hop_limit <= 1 {
        return None;
    }
    let ports = ports(frame, V6.quoted_transport, inner.next)?;
    *key = ConnectionKey {
        source: inner.destination,
        destination: inner.source,
        source_port: ports.destination,
        destination_port: ports.source,
        protocol: inner.next,
        padding: [0; 3],
    };
    Some(u16::from_be(ip.length).saturating_add(size_of::<Ipv6Header>() as u16))
}

#[inline(always)]
fn ports(frame: Frame, at: usize, protocol: u8) -> Option<Ports> {
    match protocol {
        TCP | UDP => frame.load(at),
        _ => None,
    }
}

/// Turned round, the ends that answers go out with are those the quoted packet was sent with.
#[inline(always)]
fn rewrite_v4(frame: Frame, protocol: u8, to: &Connection) -> Option<()> {
    pass_on(frame, Family::V4, to)?;
    let addresses = put_v4(frame, V4.quoted, to.destination[3], to.source[3])?;
    let at = V4.quoted + offset_of!(Ipv4Header, checksum);
    let checksum = reseal(frame, at, addresses)?;
    let changed = addresses.and(checksum);
    requote(frame, V4, protocol, to, addresses, changed)
}

#[inline(always)]
fn rewrite_v6(frame: Frame, protocol: u8, to: &Connection) -> Option<()> {
    // The checksum of ICMPv6 is over the outer addresses, too (RFC 4443 section 2.3).
    let outer = pass_on(frame, Family::V6, to)?;
    let addresses = put_v6(frame, V6.quoted, &to.destination, &to.source)?;
    requote(frame, V6, protocol, to, addresses, outer.and(addresses))
}

/// The quoted ports, and the checksums of what is quoted and of the error. `changed` is what has for the latter.
#[inline(always)]
fn requote(
    frame: Frame,
    places: Places,
    protocol: u8,
    to: &Connection,
    addresses: Difference,
    changed: Difference,
) -> Option<()> {
    let ports = Ports {
        source: to.destination_port,
        destination: to.source_port,
    };
    let ports = put_ports(frame, places.quoted_transport, ports)?;
    let mut changed = changed.and(ports);
    let at = match protocol {
        TCP => places.quoted_transport + offset_of!(TcpHeader, checksum),
        _ => places.quoted_transport + offset_of!(UdpHeader, checksum),
    };
    // Not all of a segment is quoted, and not every datagram has one.
    if frame.load::<u16>(at).is_some_and(|checksum| checksum != 0) {
        changed = changed.and(reseal(frame, at, addresses.and(ports))?);
    }
    reseal(
        frame,
        places.icmp + offset_of!(IcmpHeader, checksum),
        changed,
    )?;
    Some(())
}

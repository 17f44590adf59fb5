//! L4 services: a packet to a VIP goes to an endpoint, under an address of ours, and the answer comes back the same way.
//! A connection stays where it is for as long as the table knows it.
//!
//! ```text
//! client ──(client, VIP)──► pick, allocate a port ──(ours, endpoint)──► endpoint
//!        ◄─(VIP, client)──                         ◄─(endpoint, ours)──
//! ```

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS, XDP_TX};
use aya_ebpf::helpers::generated::bpf_redirect;
use aya_ebpf::programs::XdpContext;
use weir_common::{Address, Connection, Reason, ServiceEndpoint, ServiceKey, TCP, UDP};

use super::frame::{Family, Frame};
use super::packet::{Packet, Unread};
use super::rewrite::rewrite;
use super::route::{Route, Way};
use super::{PASSED, Verdict, connection, pick, scratch};
use crate::tables::{CONNECTION, SERVICE};

#[inline(always)]
pub fn serve(context: &XdpContext, frame: Frame, family: Family) -> Verdict {
    match Packet::read(frame, family) {
        Ok(packet) if packet.hops > 1 => forward(context, frame, &packet),
        // It may go no further: the host takes it as its own, for the address is.
        Ok(_) => PASSED,
        Err(unread) => refuse(unread),
    }
}

#[inline(always)]
pub fn dropped(reason: Reason) -> Verdict {
    (XDP_DROP, reason)
}

#[inline(always)]
fn forward(context: &XdpContext, frame: Frame, packet: &Packet) -> Verdict {
    let Some(element) = CONNECTION.get_ptr_mut(&packet.key) else {
        return open(context, frame, packet);
    };
    // SAFETY: elements of the table stay in place while a program runs; of one that stands, others write only how far it
    // has come, of which any value will do.
    let to = unsafe { &*element };
    if packet.is_syn() && connection::is_over(to) {
        // Should the host get the new one, what is left of the old must not take its packets.
        let _ = CONNECTION.remove(&packet.key);
        return open(context, frame, packet);
    }
    let route = Route::find(context, Way::of(packet), to);
    // An answer is one also if it cannot go on to the client; what does not reach the endpoint tells nothing of it.
    if packet.key.protocol == TCP && (route.is_ok() || !connection::is_to_endpoint(to)) {
        connection::follow(element, to, packet);
    }
    let route = match route {
        Ok(route) => route,
        Err(reason) => return dropped(reason),
    };
    connection::touch(element, to);
    send(context, frame, packet, to, &route, Reason::Forwarded)
}

/// The first packet of a connection. Whatever is in the way of an endpoint, the host gets the packet as it is.
#[inline(always)]
fn open(context: &XdpContext, frame: Frame, packet: &Packet) -> Verdict {
    let key = ServiceKey {
        address: packet.key.destination,
        port: packet.key.destination_port,
        protocol: packet.key.protocol,
        padding: 0,
    };
    let Some(service) = SERVICE.get_ptr(&key) else {
        return PASSED;
    };
    if packet.key.protocol == TCP && !packet.is_syn() {
        return (XDP_PASS, Reason::NoConnection);
    }
    // SAFETY: elements of the table stay readable while a program runs; user space replaces them whole.
    let Some(endpoint) = pick::pick(unsafe { *service }) else {
        return (XDP_PASS, Reason::NoEndpoint);
    };
    match connect(context, packet, endpoint) {
        Ok((to, route)) => send(context, frame, packet, to, &route, Reason::Opened),
        // Who sends datagrams tries again, but not after an answer of the host's that nobody listens.
        Err(reason @ Reason::NoNeighbour) if packet.key.protocol == UDP => dropped(reason),
        Err(reason) => (XDP_PASS, reason),
    }
}

#[inline(always)]
fn connect(
    context: &XdpContext,
    packet: &Packet,
    endpoint: &ServiceEndpoint,
) -> Result<(&'static Connection, Route), Reason> {
    let to = scratch::to_endpoint()?;
    connection::aim(to, endpoint);
    let route = Route::find(context, Way::of(packet), to)?;
    connection::open(packet, to)?;
    Ok((to, route))
}

#[inline(always)]
fn send(
    context: &XdpContext,
    frame: Frame,
    packet: &Packet,
    to: &Connection,
    route: &Route,
    reason: Reason,
) -> Verdict {
    if rewrite(frame, packet, to, route).is_none() {
        return dropped(Reason::Malformed);
    }
    leave(context, route, reason)
}

/// By the interface it came by, or by another.
#[inline(always)]
pub fn leave(context: &XdpContext, route: &Route, reason: Reason) -> Verdict {
    if route.interface == context.ingress_ifindex() as u32 {
        return (XDP_TX, reason);
    }
    // SAFETY: the helper takes numbers.
    (unsafe { bpf_redirect(route.interface, 0) } as u32, reason)
}

/// Fragments are the host's business; what cannot be read is nobody's, if it was for a VIP.
#[inline(always)]
fn refuse(unread: Unread) -> Verdict {
    match unread {
        Unread::Malformed(address) if is_vip(address) => dropped(Reason::Malformed),
        Unread::Fragment(address) if is_vip(address) => (XDP_PASS, Reason::Fragment),
        _ => PASSED,
    }
}

#[inline(always)]
fn is_vip(address: Address) -> bool {
    let key = ServiceKey {
        address,
        port: 0,
        protocol: 0,
        padding: 0,
    };
    SERVICE.get_ptr(&key).is_some()
}

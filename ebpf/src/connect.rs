//! The handshake with an endpoint: from the SYN out to its answer, whoever makes the connection. Workers register
//! connections that are made; until then they are told by their destination.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use aya_ebpf::programs::TcContext;
use aya_log_ebpf::debug;
use weir_common::{EndpointId, Reason};

use crate::count::Wire;
use crate::segment::Segment;
use crate::tables::{CONNECTING, Connecting, ENDPOINT_ID};

const TCP: u8 = 6;

#[inline(always)]
pub fn on_syn(context: &TcContext, segment: &Segment) -> Result<Reason, Reason> {
    let id = EndpointId {
        address: segment.key.remote,
        port: segment.key.remote_port,
        protocol: TCP,
        padding: 0,
    };
    let endpoint = ENDPOINT_ID.get_ptr(&id).ok_or(Reason::Unregistered)?;
    // SAFETY: elements of the table stay readable while a program runs; user space replaces them whole.
    let endpoint = unsafe { *endpoint };
    if is_sent_again(segment) {
        return Ok(Reason::Measured);
    }
    let connecting = Connecting {
        // SAFETY: the helper takes nothing.
        sent_ns: unsafe { bpf_ktime_get_ns() },
        generation: endpoint.generation,
        endpoint: endpoint.endpoint,
        sequence: segment.sequence,
    };
    if let Err(code) = CONNECTING.insert(&segment.key, &connecting, 0) {
        debug!(context, "a handshake goes untimed: no room, error {}", code);
        return Err(Reason::ConnectTableFull);
    }
    Ok(Reason::Measured)
}

/// A lost SYN is sent again with the same sequence number: waiting for it is part of the connect time. Another number
/// is another connection that has the port now.
#[inline(always)]
fn is_sent_again(segment: &Segment) -> bool {
    match CONNECTING.get_ptr(&segment.key) {
        // SAFETY: elements of the table stay readable while a program runs.
        Some(connecting) => unsafe { (*connecting).sequence == segment.sequence },
        None => false,
    }
}

#[inline(always)]
pub fn on_syn_ack(segment: &Segment) -> Result<Reason, Reason> {
    let connecting = answered(segment)?;
    // SAFETY: the helper takes nothing.
    let now = unsafe { bpf_ktime_get_ns() };
    let wire = Wire::of(connecting.endpoint, connecting.generation)?;
    wire.opened(1);
    wire.connect_ns_sum(now.saturating_sub(connecting.sent_ns));
    wire.connect_count(1);
    Ok(Reason::Measured)
}

/// The endpoint refuses.
#[inline(always)]
pub fn on_reset(segment: &Segment) -> Result<Reason, Reason> {
    let connecting = answered(segment)?;
    Wire::of(connecting.endpoint, connecting.generation)?.resets(1);
    Ok(Reason::Measured)
}

/// The handshake this segment is the first answer to; further ones find nothing.
#[inline(always)]
fn answered(segment: &Segment) -> Result<Connecting, Reason> {
    let connecting = CONNECTING
        .get_ptr(&segment.key)
        .ok_or(Reason::Unregistered)?;
    // SAFETY: elements of the table stay readable while a program runs.
    let connecting = unsafe { *connecting };
    // An answer to an earlier connection of this port acknowledges another number (RFC 9293 section 3.10.7.3).
    if segment.acknowledgment != connecting.sequence.wrapping_add(1) {
        return Err(Reason::Unregistered);
    }
    // Only an answer on another CPU can have been faster: then there is nothing left to remove.
    let _ = CONNECTING.remove(&segment.key);
    Ok(connecting)
}

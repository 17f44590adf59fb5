//! The first byte of a response, on a connection a worker has registered:
//!
//! ```text
//!                new payload out: stamp, started + 1
//!        idle ------------------------------------------> outstanding --.
//!          ^                                                |  ^        | new payload out: stamp again
//!          '------------------------------------------------'  '--------'
//!            new payload in: sample = now - stamp, finished + 1
//! ```
//!
//! New is what lies behind the highest byte seen in that direction: what is sent again neither stamps nor answers.

use aya_ebpf::helpers::generated::bpf_ktime_get_ns;
use weir_common::{Flow, Reason};

use crate::count::{Wire, count};
use crate::segment::Segment;
use crate::tables::{FLOW, FLOW_SAMPLE};

#[inline(always)]
pub fn on_sent(segment: &Segment) -> Result<Reason, Reason> {
    let (flow, wire) = find(segment)?;
    if segment.payload > 0 {
        let new = behind(flow.out_known, flow.next_out, segment);
        if new < segment.payload {
            wire.retransmits(1);
        }
        if new > 0 {
            flow.next_out = segment.end();
            flow.out_known = 1;
            wire.bytes_out(new as u64);
            // Volatile, so that the stamp is written before what makes another CPU read it.
            // SAFETY: a field of the element, borrowed just now.
            unsafe { (&raw mut flow.last_out_ns).write_volatile(bpf_ktime_get_ns()) };
            if flow.outstanding == 0 {
                wire.started(1);
                // SAFETY: as above.
                unsafe { (&raw mut flow.outstanding).write_volatile(1) };
            }
        }
    }
    on_end(flow, wire, segment);
    Ok(Reason::Measured)
}

#[inline(always)]
pub fn on_received(segment: &Segment) -> Result<Reason, Reason> {
    let (flow, wire) = find(segment)?;
    if segment.payload > 0 {
        wire.bytes_in(segment.payload as u64);
        if behind(flow.in_known, flow.next_in, segment) > 0 {
            flow.next_in = segment.end();
            flow.in_known = 1;
            if flow.outstanding == 1 {
                flow.outstanding = 0;
                on_first_byte(flow, wire);
            }
        }
    }
    if segment.is_reset() {
        wire.resets(1);
    }
    on_end(flow, wire, segment);
    Ok(Reason::Measured)
}

#[inline(always)]
fn find(segment: &Segment) -> Result<(&'static mut Flow, Wire), Reason> {
    let flow = FLOW.get_ptr_mut(&segment.key).ok_or(Reason::Unregistered)?;
    // SAFETY: elements of the table stay in place while a program runs. A program that handles the other direction at
    // the same moment writes other fields, but for `outstanding` and `closed`, where the last one wins and may.
    let flow = unsafe { &mut *flow };
    let wire = Wire::of(flow.endpoint, flow.generation)?;
    Ok((flow, wire))
}

/// How many bytes of the payload lie behind those seen so far.
#[inline(always)]
fn behind(known: u8, next: u32, segment: &Segment) -> u32 {
    if known == 0 {
        return segment.payload;
    }
    // Sequence numbers wrap around: half of them lie behind any given one.
    let distance = segment.end().wrapping_sub(next);
    if distance == 0 || distance > i32::MAX as u32 {
        return 0;
    }
    distance.min(segment.payload)
}

#[inline(always)]
fn on_first_byte(flow: &mut Flow, wire: Wire) {
    // SAFETY: the helper takes nothing.
    let now = unsafe { bpf_ktime_get_ns() };
    let first_byte_ns = now.saturating_sub(flow.last_out_ns);
    flow.exchanges = flow.exchanges.wrapping_add(1);
    wire.finished(1);
    wire.first_byte_ns_sum(first_byte_ns);
    wire.first_byte_count(1);
    let Some(sample) = FLOW_SAMPLE.get_ptr_mut(flow.slot) else {
        count(Reason::OutOfRange);
        return;
    };
    // SAFETY: rows live as long as the table.
    let (value, exchange) = unsafe {
        (
            &raw mut (*sample).first_byte_ns,
            &raw mut (*sample).exchange,
        )
    };
    // Who finds the number finds its sample.
    // SAFETY: an aligned u64 of the row.
    unsafe { value.write_volatile(first_byte_ns) };
    // SAFETY: as above.
    unsafe { exchange.write_volatile(flow.exchanges) };
}

/// Either side's end is the connection's, once.
#[inline(always)]
fn on_end(flow: &mut Flow, wire: Wire, segment: &Segment) {
    if segment.is_end() && flow.closed == 0 {
        flow.closed = 1;
        wire.closed(1);
    }
}

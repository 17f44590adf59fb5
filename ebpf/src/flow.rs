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
    let flow = Registered::find(segment)?;
    let wire = Wire::of(flow.endpoint(), flow.generation())?;
    if segment.payload > 0 {
        let new = behind(flow.out_known(), flow.next_out(), segment);
        if new < segment.payload {
            wire.retransmits(1);
        }
        if new > 0 {
            flow.set_next_out(segment.end());
            flow.set_out_known(1);
            wire.bytes_out(new as u64);
            // Before `outstanding`, which makes another CPU read it.
            // SAFETY: the helper takes nothing.
            flow.set_last_out_ns(unsafe { bpf_ktime_get_ns() });
            if flow.outstanding() == 0 {
                wire.started(1);
                flow.set_outstanding(1);
            }
        }
    }
    on_end(flow, wire, segment);
    Ok(Reason::Measured)
}

#[inline(always)]
pub fn on_received(segment: &Segment) -> Result<Reason, Reason> {
    let flow = Registered::find(segment)?;
    let wire = Wire::of(flow.endpoint(), flow.generation())?;
    if segment.payload > 0 {
        wire.bytes_in(segment.payload as u64);
        if behind(flow.in_known(), flow.next_in(), segment) > 0 {
            flow.set_next_in(segment.end());
            flow.set_in_known(1);
            if flow.outstanding() == 1 {
                flow.set_outstanding(0);
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
fn on_first_byte(flow: Registered, wire: Wire) {
    // SAFETY: the helper takes nothing.
    let now = unsafe { bpf_ktime_get_ns() };
    let first_byte_ns = now.saturating_sub(flow.last_out_ns());
    let exchange = flow.exchanges().wrapping_add(1);
    flow.set_exchanges(exchange);
    wire.finished(1);
    wire.first_byte_ns_sum(first_byte_ns);
    wire.first_byte_count(1);
    let Some(sample) = FLOW_SAMPLE.get_ptr_mut(flow.slot()) else {
        count(Reason::OutOfRange);
        return;
    };
    // Volatile and in this order: who finds the number finds its sample.
    // SAFETY: the pointer comes from the table's lookup, and rows live as long as the table.
    let value = unsafe { &raw mut (*sample).first_byte_ns };
    // SAFETY: as above; the field is an aligned u64.
    unsafe { value.write_volatile(first_byte_ns) };
    // SAFETY: as above.
    let number = unsafe { &raw mut (*sample).exchange };
    // SAFETY: as above; the field is an aligned u64.
    unsafe { number.write_volatile(exchange) };
}

/// Either side's end is the connection's, once.
#[inline(always)]
fn on_end(flow: Registered, wire: Wire, segment: &Segment) {
    if segment.is_end() && flow.closed() == 0 {
        flow.set_closed(1);
        wire.closed(1);
    }
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

/// An element of `FLOW`. The program of the other direction may hold it at the same moment on another CPU, so fields
/// are read and written one by one, and nothing is borrowed. Each direction has its own; of `outstanding` and `closed`
/// the last writer wins, and may.
#[derive(Clone, Copy)]
struct Registered(*mut Flow);

macro_rules! field {
    ($name:ident: $type:ty) => {
        #[inline(always)]
        fn $name(self) -> $type {
            // SAFETY: the pointer comes from the table's lookup, and elements stay in place while a program runs.
            let field = unsafe { &raw const (*self.0).$name };
            // SAFETY: as above; the field is aligned, and any value is one of its type.
            unsafe { field.read_volatile() }
        }
    };
    ($name:ident, $set:ident: $type:ty) => {
        field!($name: $type);

        #[inline(always)]
        fn $set(self, value: $type) {
            // SAFETY: the pointer comes from the table's lookup, and elements stay in place while a program runs.
            let field = unsafe { &raw mut (*self.0).$name };
            // SAFETY: as above; the field is aligned.
            unsafe { field.write_volatile(value) };
        }
    };
}

impl Registered {
    #[inline(always)]
    fn find(segment: &Segment) -> Result<Self, Reason> {
        FLOW.get_ptr_mut(&segment.key)
            .map(Self)
            .ok_or(Reason::Unregistered)
    }

    field!(endpoint: u32);
    field!(slot: u32);
    field!(generation: u64);
    field!(last_out_ns, set_last_out_ns: u64);
    field!(exchanges, set_exchanges: u64);
    field!(next_out, set_next_out: u32);
    field!(next_in, set_next_in: u32);
    field!(out_known, set_out_known: u8);
    field!(in_known, set_in_known: u8);
    field!(outstanding, set_outstanding: u8);
    field!(closed, set_closed: u8);
}

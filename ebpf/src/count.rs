//! Counting. Rows of `ENDPOINT_WIRE` belong to one CPU each, so their line is not contended; a locked add all the same
//! keeps a reader on another CPU from ever seeing half of it, and an interrupted program from losing one.

use aya_ebpf::helpers::generated::bpf_get_smp_processor_id;
use weir_common::{EndpointWire, Reason};

use crate::tables::{ENDPOINT_STATE, ENDPOINT_WIRE, REASON, capacity};

/// Everything a program sees ends here, once.
#[inline(always)]
pub fn count(reason: Reason) {
    if let Some(counter) = REASON.get_ptr_mut(reason as u32) {
        // SAFETY: the row belongs to this CPU, on which one program runs at a time.
        unsafe { *counter += 1 };
    }
}

/// This CPU's row of an endpoint.
#[derive(Clone, Copy)]
pub struct Wire(*mut EndpointWire);

/// One of its counters.
macro_rules! counter {
    ($name:ident) => {
        #[inline(always)]
        pub fn $name(self, amount: u64) {
            // SAFETY: the pointer comes from the table's lookup, and rows live as long as the table.
            let counter = unsafe { &raw mut (*self.0).$name };
            // SAFETY: as above; the field is an aligned u64.
            unsafe { add(counter, amount) };
        }
    };
}

impl Wire {
    /// The row of an endpoint, if it is still the one of that generation.
    #[inline(always)]
    pub fn of(endpoint: u32, generation: u64) -> Result<Self, Reason> {
        let capacity = capacity();
        // Beyond it lie the rows of other CPUs.
        if endpoint >= capacity {
            return Err(Reason::OutOfRange);
        }
        let state = ENDPOINT_STATE.get_ptr(endpoint).ok_or(Reason::OutOfRange)?;
        // SAFETY: the row lives as long as the table.
        let current = unsafe { &raw const (*state).generation };
        // SAFETY: an aligned u64; user space may write it meanwhile, hence volatile.
        let current = unsafe { current.read_volatile() };
        if current != generation {
            return Err(Reason::StaleGeneration);
        }
        // SAFETY: the helper takes nothing.
        let cpu = unsafe { bpf_get_smp_processor_id() };
        let row = cpu.wrapping_mul(capacity).wrapping_add(endpoint);
        let row = ENDPOINT_WIRE.get_ptr_mut(row).ok_or(Reason::OutOfRange)?;
        Ok(Self(row))
    }

    counter!(started);
    counter!(finished);
    counter!(first_byte_ns_sum);
    counter!(first_byte_count);
    counter!(connect_ns_sum);
    counter!(connect_count);
    counter!(opened);
    counter!(closed);
    counter!(retransmits);
    counter!(resets);
    counter!(bytes_out);
    counter!(bytes_in);
}

/// Adds, without an answer: the compiler's own intrinsic returns the addend in its place where one is asked for, and
/// `AtomicU64::fetch_add` does not exist for the target.
///
/// # Safety
/// `counter` is an aligned u64 of a table.
#[inline(always)]
pub unsafe fn add(counter: *mut u64, amount: u64) {
    // SAFETY: one locked add to memory the caller answers for.
    unsafe {
        core::arch::asm!("lock *(u64 *)({0} + 0) += {1}", in(reg) counter, in(reg) amount);
    }
}

//! What connections say of their endpoint: counters in its row of `ENDPOINT_SCORE`. They move a few times a connection,
//! not with every packet, so that the CPUs share them.

use weir_common::{Connection, EndpointScore};

use crate::count::add;
use crate::tables::{ENDPOINT_SCORE, ENDPOINT_STATE};

#[derive(Clone, Copy)]
pub struct Score(*mut EndpointScore);

macro_rules! counter {
    ($name:ident) => {
        #[inline(always)]
        pub fn $name(self) {
            // SAFETY: the pointer comes from the table's lookup, and rows live as long as the table.
            let counter = unsafe { &raw mut (*self.0).$name };
            // SAFETY: as above; the field is an aligned u64.
            unsafe { add(counter, 1) };
        }
    };
}

impl Score {
    /// The row of the connection's endpoint, if it is still that one's.
    #[inline(always)]
    pub fn of(connection: &Connection) -> Option<Self> {
        let state = ENDPOINT_STATE.get_ptr(connection.endpoint)?;
        // SAFETY: the row lives as long as the table.
        let generation = unsafe { &raw const (*state).generation };
        // SAFETY: an aligned u64; user space may write it meanwhile, hence volatile.
        if unsafe { generation.read_volatile() } != connection.generation {
            return None;
        }
        ENDPOINT_SCORE.get_ptr_mut(connection.endpoint).map(Self)
    }

    counter!(opened);
    counter!(closed);
    counter!(refused);
    counter!(unanswered);

    #[inline(always)]
    pub fn accepted(self, connect_ns: u64) {
        // SAFETY: the pointer comes from the table's lookup, and rows live as long as the table.
        let sum = unsafe { &raw mut (*self.0).connect_ns_sum };
        // SAFETY: as above; the field is an aligned u64.
        unsafe { add(sum, connect_ns) };
        // After the sum: who finds the number finds its part of the sum.
        // SAFETY: as above.
        let count = unsafe { &raw mut (*self.0).accepted };
        // SAFETY: as above.
        unsafe { add(count, 1) };
    }
}

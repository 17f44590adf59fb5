//! The monotonic clock: the one kernel programs stamp with.

use rustix::time::{ClockId, clock_gettime};

use crate::moment::Moment;

/// The moment it is. Read once a turn, not once an event.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts from boot and is never negative.
    Moment::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

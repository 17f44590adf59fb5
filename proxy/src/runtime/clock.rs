//! The monotonic clock: the one kernel programs stamp with. And the date, for people.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use crate::moment::Moment;

/// The moment it is. Read once a turn, not once an event.
pub fn now() -> Moment {
    let time = clock_gettime(ClockId::Monotonic);
    // The monotonic clock counts from boot and is never negative.
    Moment::from_nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Time since 1970 at moment zero, as the system's clock has it now: steps of that clock later on are not followed.
pub fn unix_at_zero() -> Duration {
    let now = Duration::from_nanos(now().as_nanos());
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    unix.unwrap_or_default().saturating_sub(now)
}

/// The date, in seconds since 1970.
pub fn seconds_since_1970() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    u64::try_from(time.tv_sec).unwrap_or(0)
}

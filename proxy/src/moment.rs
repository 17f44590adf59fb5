//! Monotonic time. Pure code never reads a clock: a [`Moment`] is handed to it.

use std::ops::Add;
use std::time::Duration;

/// Nanoseconds of `CLOCK_MONOTONIC`, the clock kernel programs stamp with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(u64);

impl Moment {
    /// The end of time, 584 years after boot.
    pub const NEVER: Self = Self(u64::MAX);

    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// How long after `earlier` this moment is; zero if it is not.
    pub const fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    /// Saturates at the end of time, 584 years after boot.
    fn add(self, length: Duration) -> Moment {
        let nanos = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        Moment(self.0.saturating_add(nanos))
    }
}

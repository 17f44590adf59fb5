//! An endpoint leaves the pool: what for, and for how long - or not, because too many of its backend are out already.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use super::backend::BackendId;
use super::ejection_counts::EjectionReason;
use super::outlier::Percent;
use crate::moment::Moment;

/// What the end of an attempt led to, where that is worth telling.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    Ejected(Ejection),
    /// It would have been ejected, but for [`Policy::max_ejected`](super::Policy::max_ejected).
    Spared,
    /// The endpoint was gone by then: nobody has learned anything.
    TooLate,
}

/// An endpoint has just left the pool.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ejection {
    /// For which the attempt was made that failed.
    pub backend: BackendId,
    pub address: SocketAddr,
    pub trigger: Trigger,
    pub reason: EjectionReason,
    pub length: Duration,
    pub until: Moment,
}

/// Why a failure ejects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Trigger {
    /// The policy names none: any failure does.
    Failure,
    /// So many in a row, this one included.
    ConsecutiveFailures(u64),
    /// The health before the failure.
    Health { was: f64, threshold: Percent },
}

impl Trigger {
    pub(super) const fn reason(self) -> EjectionReason {
        match self {
            Self::Failure => EjectionReason::Failure,
            Self::ConsecutiveFailures(_) => EjectionReason::ConsecutiveFailures,
            Self::Health { .. } => EjectionReason::HealthThreshold,
        }
    }
}

impl fmt::Display for Trigger {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failure => out.write_str("a failure"),
            Self::ConsecutiveFailures(count) => write!(out, "{count} failures in a row"),
            Self::Health { was, threshold } => {
                write!(
                    out,
                    "a failure at health {was:.2}, below {:.2}",
                    threshold.fraction()
                )
            }
        }
    }
}

/// How many of a backend may be out of the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outs {
    pub out: usize,
    pub all: usize,
}

impl Outs {
    pub fn exceed(self, limit: Percent) -> bool {
        self.out as f64 > self.all as f64 * limit.fraction()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reached_exactly_and_not_exceeded() {
        let outs = |out, all| Outs { out, all };
        let third = Percent::new(30).expect("a percentage");
        assert!(!outs(3, 10).exceed(third));
        assert!(outs(4, 10).exceed(third));
        assert!(outs(1, 3).exceed(third), "a third is more than 30 %");
        assert!(!outs(3, 3).exceed(Percent::new(100).expect("a percentage")));
        assert!(outs(1, 3).exceed(Percent::new(0).expect("a percentage")));
    }

    #[test]
    fn triggers_are_said_in_words() {
        let health = Trigger::Health {
            was: 0.343,
            threshold: Percent::new(50).expect("a percentage"),
        };
        assert_eq!(health.to_string(), "a failure at health 0.34, below 0.50");
        assert_eq!(
            Trigger::ConsecutiveFailures(5).to_string(),
            "5 failures in a row"
        );
    }
}

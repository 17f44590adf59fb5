//! Who leaves the pool, and for how long. Decided on a failure, from what was known of the endpoint before it.

use std::time::Duration;

use super::ejection::Trigger;
use super::ejection_counts::EjectionReason;

/// When a backend's endpoints are ejected. The default one ejects after five failures in a row: an endpoint that keeps
/// failing leaves the pool without any configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthPolicy {
    /// `None`: never ejected, failures only lower the score.
    pub eviction: Option<Eviction>,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            eviction: Some(Eviction {
                duration: Some(Duration::from_secs(3)),
                consecutive_failures: Some(5),
                ..Eviction::default()
            }),
        }
    }
}

/// What triggers an ejection and how long it lasts. Without any trigger, every failure does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Eviction {
    /// Length of the first ejection. Unset: what the endpoint or the route suggests, else 3 seconds.
    pub duration: Option<Duration>,
    /// Health of an endpoint that returns. Unset: the health it left with.
    pub restore_health: Option<Percent>,
    /// Trigger: this many failures in a row. 0 never triggers.
    pub consecutive_failures: Option<u32>,
    /// Trigger: health below this.
    pub health_threshold: Option<Percent>,
    /// What a rate limit asks for counts more than `duration`.
    pub prefers_rate_limit: bool,
}

/// How long an endpoint asked to be left alone, or those who use it would leave it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suggested {
    /// By the endpoint, with a response of status 429.
    pub rate_limit: Option<Duration>,
    /// By the route, between two attempts.
    pub backoff: Option<Duration>,
}

/// 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Percent(u8);

impl Percent {
    pub const fn new(percent: u8) -> Option<Self> {
        if percent <= 100 {
            Some(Self(percent))
        } else {
            None
        }
    }

    pub const fn value(self) -> u8 {
        self.0
    }

    pub fn fraction(self) -> f64 {
        f64::from(self.0) / 100.0
    }
}

/// What was known of an endpoint before the failure that is being decided about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Before {
    pub health: f64,
    pub consecutive_failures: u64,
    /// Ejections since the last success.
    pub times_ejected: u64,
}

/// That a failure ejects.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decision {
    pub trigger: Trigger,
    pub reason: EjectionReason,
    pub length: Duration,
}

impl HealthPolicy {
    /// For how long the failure ejects, if it does.
    pub fn ejects_for(&self, before: Before, suggested: Suggested) -> Option<Duration> {
        self.decide(before, suggested)
            .map(|decision| decision.length)
    }

    /// Why and for how long the failure ejects, if it does.
    pub(super) fn decide(&self, before: Before, suggested: Suggested) -> Option<Decision> {
        let eviction = self.eviction?;
        let trigger = eviction.trigger(before)?;
        let base = eviction.base(suggested);
        let times = u32::try_from(before.times_ejected).unwrap_or(u32::MAX);
        Some(Decision {
            trigger,
            reason: match eviction.is_asked_for(suggested) {
                true => EjectionReason::RateLimit,
                false => trigger.reason(),
            },
            length: base.saturating_mul(times.saturating_add(1)),
        })
    }

    /// Health of a readmitted endpoint; `None`: the one it left with.
    pub(super) fn restored_health(&self) -> Option<f64> {
        self.eviction?.restore_health.map(Percent::fraction)
    }
}

impl Eviction {
    const DEFAULT_DURATION: Duration = Duration::from_secs(3);

    /// Length of a first ejection.
    fn base(&self, suggested: Suggested) -> Duration {
        let [first, second] = if self.prefers_rate_limit {
            [suggested.rate_limit, self.duration]
        } else {
            [self.duration, suggested.rate_limit]
        };
        first
            .or(second)
            .or(suggested.backoff)
            .unwrap_or(Self::DEFAULT_DURATION)
    }

    /// Whether it lasts as long as the endpoint asked for.
    fn is_asked_for(&self, suggested: Suggested) -> bool {
        let is_heard = self.prefers_rate_limit || self.duration.is_none();
        is_heard && suggested.rate_limit.is_some()
    }

    fn trigger(&self, before: Before) -> Option<Trigger> {
        if self.health_threshold.is_none() && self.consecutive_failures.is_none() {
            return Some(Trigger::Failure);
        }
        let failures = before.consecutive_failures.saturating_add(1);
        let is_reached = |limit: u32| limit > 0 && failures >= limit.into();
        if self.consecutive_failures.is_some_and(is_reached) {
            return Some(Trigger::ConsecutiveFailures(failures));
        }
        let threshold = self.health_threshold?;
        (before.health < threshold.fraction()).then_some(Trigger::Health {
            was: before.health,
            threshold,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER_FAILED: Before = Before {
        health: 1.0,
        consecutive_failures: 0,
        times_ejected: 0,
    };

    const NOTHING: Suggested = Suggested {
        rate_limit: None,
        backoff: None,
    };

    fn rate_limit(length: u64) -> Suggested {
        Suggested {
            rate_limit: seconds(length),
            ..NOTHING
        }
    }

    fn policy(eviction: Eviction) -> HealthPolicy {
        HealthPolicy {
            eviction: Some(eviction),
        }
    }

    fn threshold(percent: u8) -> Eviction {
        Eviction {
            health_threshold: Percent::new(percent),
            ..Eviction::default()
        }
    }

    fn consecutive(limit: u32) -> Eviction {
        Eviction {
            consecutive_failures: Some(limit),
            ..Eviction::default()
        }
    }

    fn lasting(duration: u64) -> Eviction {
        Eviction {
            duration: Some(Duration::from_secs(duration)),
            ..Eviction::default()
        }
    }

    fn seconds(length: u64) -> Option<Duration> {
        Some(Duration::from_secs(length))
    }

    #[test]
    fn an_eviction_block_alone_ejects_on_any_failure_for_three_seconds() {
        let length = policy(Eviction::default()).ejects_for(NEVER_FAILED, NOTHING);
        assert_eq!(length, seconds(3));
    }

    #[test]
    fn a_policy_without_an_eviction_block_never_ejects() {
        let policy = HealthPolicy { eviction: None };
        assert_eq!(policy.ejects_for(NEVER_FAILED, rate_limit(45)), None);
    }

    #[test]
    fn without_a_policy_the_fifth_failure_in_a_row_ejects_for_three_seconds() {
        let after = |consecutive_failures| {
            HealthPolicy::default().ejects_for(
                Before {
                    health: 0.9,
                    consecutive_failures,
                    times_ejected: 0,
                },
                NOTHING,
            )
        };
        assert_eq!(after(3), None);
        assert_eq!(after(4), seconds(3));
    }

    #[test]
    fn a_threshold_ejects_strictly_below_it() {
        let at = |health| {
            policy(threshold(50)).ejects_for(
                Before {
                    health,
                    ..NEVER_FAILED
                },
                NOTHING,
            )
        };
        assert_eq!(at(0.5), None);
        assert_eq!(at(0.49), seconds(3));
    }

    #[test]
    fn a_count_ejects_when_this_failure_reaches_it() {
        let after = |consecutive_failures| {
            policy(consecutive(3)).ejects_for(
                Before {
                    consecutive_failures,
                    ..NEVER_FAILED
                },
                NOTHING,
            )
        };
        assert_eq!(after(1), None);
        assert_eq!(after(2), seconds(3));
    }

    #[test]
    fn either_of_two_triggers_is_enough() {
        let both = policy(Eviction {
            consecutive_failures: Some(5),
            ..threshold(50)
        });
        let before = Before {
            health: 0.3,
            ..NEVER_FAILED
        };
        assert_eq!(both.ejects_for(before, NOTHING), seconds(3));
    }

    #[test]
    fn a_count_of_zero_alone_disables_ejection_and_leaves_a_threshold_in_charge() {
        let before = Before {
            health: 0.1,
            consecutive_failures: 1000,
            times_ejected: 0,
        };
        assert_eq!(policy(consecutive(0)).ejects_for(before, NOTHING), None);
        let with_threshold = policy(Eviction {
            consecutive_failures: Some(0),
            ..threshold(50)
        });
        assert_eq!(with_threshold.ejects_for(before, NOTHING), seconds(3));
    }

    #[test]
    fn every_further_ejection_is_longer_by_the_base_without_a_cap() {
        let ejected = |times_ejected| Before {
            times_ejected,
            ..NEVER_FAILED
        };
        assert_eq!(
            policy(lasting(10)).ejects_for(ejected(2), NOTHING),
            seconds(30)
        );
        assert_eq!(
            policy(lasting(60)).ejects_for(ejected(4), NOTHING),
            seconds(300)
        );
        assert_eq!(
            policy(lasting(u64::MAX)).ejects_for(ejected(u64::MAX), NOTHING),
            Some(Duration::MAX)
        );
    }

    #[test]
    fn a_suggested_length_counts_only_where_none_is_configured() {
        let open = policy(Eviction::default());
        assert_eq!(open.ejects_for(NEVER_FAILED, rate_limit(45)), seconds(45));
        let fixed = policy(lasting(10));
        assert_eq!(fixed.ejects_for(NEVER_FAILED, rate_limit(45)), seconds(10));
    }

    #[test]
    fn a_rate_limit_counts_more_than_a_backoff_and_if_preferred_than_a_configured_length() {
        let backoff = Suggested {
            backoff: seconds(2),
            ..NOTHING
        };
        let both = Suggested {
            backoff: seconds(2),
            ..rate_limit(45)
        };
        let open = policy(Eviction::default());
        assert_eq!(open.ejects_for(NEVER_FAILED, backoff), seconds(2));
        assert_eq!(open.ejects_for(NEVER_FAILED, both), seconds(45));
        let preferring = policy(Eviction {
            prefers_rate_limit: true,
            ..lasting(10)
        });
        assert_eq!(preferring.ejects_for(NEVER_FAILED, both), seconds(45));
        assert_eq!(preferring.ejects_for(NEVER_FAILED, backoff), seconds(10));
    }

    #[test]
    fn the_reason_is_the_trigger_unless_the_endpoint_said_for_how_long() {
        use EjectionReason::{ConsecutiveFailures, Failure, HealthThreshold, RateLimit};
        let weak = Before {
            health: 0.1,
            consecutive_failures: 2,
            ..NEVER_FAILED
        };
        let preferring = Eviction {
            prefers_rate_limit: true,
            ..lasting(10)
        };
        for (eviction, suggested, expected) in [
            (Eviction::default(), NOTHING, Failure),
            (consecutive(3), NOTHING, ConsecutiveFailures),
            (threshold(50), NOTHING, HealthThreshold),
            (consecutive(3), rate_limit(45), RateLimit),
            (lasting(10), rate_limit(45), Failure),
            (preferring, rate_limit(45), RateLimit),
            (preferring, NOTHING, Failure),
        ] {
            let decision = policy(eviction).decide(weak, suggested);
            let reason = decision.map(|decision| decision.reason);
            assert_eq!(reason, Some(expected), "{eviction:?} {suggested:?}");
        }
    }
}

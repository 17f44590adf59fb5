//! The score of an endpoint: the one place that says how good an endpoint is, and which of two scores wins.

use std::cmp::Ordering;

/// What an endpoint's score is made of, read at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// EWMA of outcomes, 0.0 (all failed) to 1.0 (all succeeded).
    pub health: f64,
    /// EWMA of the time to the first byte, in seconds; `None` before the first success.
    pub latency_seconds: Option<f64>,
    /// Exchanges in flight on all workers, the one being placed left out.
    pub pending: u64,
}

/// What an endpoint is expected to be like in adaptive scoring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prospect {
    /// Above 0.0, up to 1.0.
    pub health: f32,
    /// Above 0.0.
    pub latency_seconds: f32,
    /// As in [`Reading`]; for an endpoint of another than the mean weight in proportion to its weight.
    pub pending: f32,
}

/// How good an endpoint is. Higher wins.
#[derive(Clone, Copy, Debug)]
pub struct Score(f64);

impl Score {
    /// How much one pending exchange adds to the latency an endpoint is expected to show.
    const PENDING_PENALTY: f64 = 0.1;

    /// `health / (1 + latency * (1 + 0.1 * pending))`. An endpoint not measured yet counts as instant, so that it is
    /// tried soon.
    #[inline]
    pub fn of(reading: Reading) -> Self {
        let latency = reading.latency_seconds.unwrap_or(0.0);
        // By way of a signed number the processor converts in one step.
        let pending = reading.pending as i64 as f64;
        let crowd = 1.0 + Self::PENDING_PENALTY * pending;
        Self(reading.health / (1.0 + latency * crowd))
    }

    /// `health² / (latency * (pending + 1))`: the inverse of the time a request is expected to take.
    #[inline]
    pub fn of_prospect(prospect: Prospect) -> Self {
        let health = f64::from(prospect.health);
        let crowd = f64::from(prospect.pending) + 1.0;
        Self(health * health / (f64::from(prospect.latency_seconds) * crowd))
    }

    pub const fn as_f64(self) -> f64 {
        self.0
    }
}

impl Ord for Score {
    /// Total also over what only damaged memory could hold, so that no comparison can fail.
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Score {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Score {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Score {}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(health: f64, latency_seconds: f64, pending: u64) -> f64 {
        Score::of(Reading {
            health,
            latency_seconds: Some(latency_seconds),
            pending,
        })
        .as_f64()
    }

    #[test]
    fn score_is_health_over_expected_latency() {
        let cases = [
            (1.0, 0.0, 50, 1.0),
            (1.0, 1.0, 10, 1.0 / 3.0),
            (1.0, 0.1, 10, 0.833_333_333_3),
            (0.49, 0.2, 3, 0.388_888_888_9),
            (1.0, 0.003, 2, 0.996_412_9),
            (0.875, 1.466_366_426, 0, 0.354_772_9),
        ];
        for (health, latency, pending, expected) in cases {
            let got = score(health, latency, pending);
            assert!(
                (got - expected).abs() < 1e-7,
                "health {health}, latency {latency}, pending {pending}: {got}, expected {expected}"
            );
        }
    }

    #[test]
    fn an_unmeasured_endpoint_counts_as_instant() {
        let unmeasured = Score::of(Reading {
            health: 0.7,
            latency_seconds: None,
            pending: 9,
        });
        assert_eq!(unmeasured.as_f64(), 0.7);
    }

    #[test]
    fn the_healthier_the_faster_and_the_idler_endpoint_wins() {
        assert!(score(1.0, 0.1, 1) > score(0.9, 0.1, 1));
        assert!(score(1.0, 0.1, 1) > score(1.0, 0.2, 1));
        assert!(score(1.0, 0.1, 1) > score(1.0, 0.1, 2));
    }
}

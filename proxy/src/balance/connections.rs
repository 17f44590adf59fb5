//! What kernel programs tell of connections that no worker makes: the same record an attempt of a worker goes into.

use std::time::Duration;

use super::backend::Backend;
use super::ejection::{Ejection, Verdict};
use super::endpoint::Endpoint;
use super::outcome::{LatencySample, LatencySource};
use super::outlier::{Decision, Suggested};
use super::score::Reading;
use super::shared::SharedTables;
use super::state::EndpointState;
use crate::moment::Moment;

/// What became of connections to an endpoint since somebody looked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionNews {
    /// The endpoint accepted.
    pub accepted: u64,
    /// How long that took it, on average.
    pub connect: Duration,
    /// It refused, or did not answer.
    pub failed: u64,
}

/// What the score of an endpoint is made of, for whoever picks elsewhere.
pub fn reading_of(tables: &SharedTables, endpoint: &Endpoint) -> Reading {
    EndpointState::of(tables, endpoint.row).reading()
}

/// More outcomes of a kind than this say no more: what was before them counts less than a millionth.
const ENOUGH: u64 = 40;

impl ConnectionNews {
    /// Records the outcomes, failures spread evenly among the successes: in which order they came nobody knows, and in
    /// this one no more failures follow each other than must have done in any. Returns what the first failure led to
    /// that was one too many.
    pub fn record(
        self,
        tables: &SharedTables,
        backend: &Backend,
        endpoint: &Endpoint,
        now: Moment,
    ) -> Option<Verdict> {
        let state = EndpointState::of(tables, endpoint.row);
        if !state.is_current() {
            return Some(Verdict::TooLate);
        }
        if state.readmit_if_due(backend.policy.health.restored_health(), now) {
            tracing::info!("endpoint {} is back in the pool", endpoint.address);
        }
        let (failures, successes) = self.sample();
        // Before, between and after the successes.
        let gaps = successes + 1;
        let failed_before = |gap: u64| (2 * gap * failures + gaps) / (2 * gaps);
        let mut verdict = None;
        for gap in 0..gaps {
            for _ in failed_before(gap)..failed_before(gap + 1) {
                let failed = fail(tables, backend, endpoint, now);
                verdict = verdict.or(failed);
            }
            if gap < successes {
                state.record_success(Some(LatencySample {
                    length: self.connect,
                    source: LatencySource::Kernel,
                    self_delay: Duration::ZERO,
                }));
            }
        }
        verdict
    }

    /// Failures and successes, in their proportion, as many as are worth recording: at least one of what there was.
    fn sample(self) -> (u64, u64) {
        let most = self.failed.max(self.accepted).max(ENOUGH);
        let share = |count: u64| {
            let share = (u128::from(count) * u128::from(ENOUGH)).div_ceil(u128::from(most));
            u64::try_from(share).unwrap_or(ENOUGH)
        };
        (share(self.failed), share(self.accepted))
    }
}

fn fail(
    tables: &SharedTables,
    backend: &Backend,
    endpoint: &Endpoint,
    now: Moment,
) -> Option<Verdict> {
    let state = EndpointState::of(tables, endpoint.row);
    let before = state.record_failure();
    let health = backend.policy.health;
    let Decision {
        trigger,
        reason,
        length,
    } = health.decide(before, Suggested::default())?;
    let until = state.eject(length, now)?;
    if is_one_too_many(tables, backend, now) {
        state.withdraw_ejection(until);
        return Some(Verdict::Spared);
    }
    state.confirm_ejection(reason);
    Some(Verdict::Ejected(Ejection {
        backend: backend.id,
        address: endpoint.address,
        trigger,
        reason,
        length,
        until,
    }))
}

fn is_one_too_many(tables: &SharedTables, backend: &Backend, now: Moment) -> bool {
    let Some(limit) = backend.policy.max_ejected else {
        return false;
    };
    let members = backend.endpoints().iter();
    let members = members.filter(|endpoint| !endpoint.weight.is_drained());
    let is_out = |one: &&Endpoint| !EndpointState::of(tables, one.row).is_active(now);
    let outs = super::ejection::Outs {
        all: members.clone().count(),
        out: members.filter(is_out).count(),
    };
    outs.exceed(limit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::shared::Sizes;
    use crate::balance::{BackendId, BackendKind, Bucket, EndpointRows, Weight};

    fn world() -> (SharedTables, Backend) {
        let tables = SharedTables::anonymous(Sizes {
            capacity: 2,
            workers: 1,
            cpus: 1,
            flows: 1,
        });
        let mut rows = EndpointRows::new(tables.clone());
        let endpoints = [1, 2].map(|port| {
            let address = std::net::SocketAddr::from(([10, 0, 0, 1], port));
            let key: std::sync::Arc<str> = address.to_string().into();
            Endpoint {
                row: rows.admit(&key, address).expect("rows enough"),
                key,
                address,
                weight: Weight::ONE,
                bucket: Bucket::default(),
            }
        });
        let id = BackendId {
            place: 0,
            revision: 1,
        };
        let backend = Backend::new(id, BackendKind::Service, "a", "b", endpoints.into());
        (tables, backend)
    }

    #[test]
    fn connections_move_health_and_latency_as_attempts_do() {
        let (tables, backend) = world();
        let endpoint = &backend.endpoints()[0];
        let state = EndpointState::of(&tables, endpoint.row);
        let news = ConnectionNews {
            accepted: 1,
            connect: Duration::from_millis(100),
            failed: 2,
        };
        let now = Moment::from_nanos(1);
        assert_eq!(news.record(&tables, &backend, endpoint, now), None);
        let reading = state.reading();
        // .7, one success, .79, and the other failure.
        assert!((reading.health - 0.553).abs() < 1e-9, "{reading:?}");
        assert_eq!(reading.latency_seconds, Some(0.1));
        assert_eq!(state.latency_source(), Some(LatencySource::Kernel));
    }

    #[test]
    fn an_endpoint_that_refuses_five_connections_is_ejected() {
        let (tables, backend) = world();
        let endpoint = &backend.endpoints()[0];
        let news = ConnectionNews {
            failed: 5,
            ..ConnectionNews::default()
        };
        let now = Moment::from_nanos(1);
        let verdict = news.record(&tables, &backend, endpoint, now);
        assert!(matches!(verdict, Some(Verdict::Ejected(_))), "{verdict:?}");
        assert!(!EndpointState::of(&tables, endpoint.row).is_active(now));
    }
    #[test]
    fn a_few_failures_among_many_successes_are_not_failures_in_a_row() {
        let (tables, backend) = world();
        let endpoint = &backend.endpoints()[0];
        let news = ConnectionNews {
            accepted: 2_000,
            connect: Duration::from_millis(1),
            failed: 5,
        };
        let now = Moment::from_nanos(1);
        assert_eq!(news.record(&tables, &backend, endpoint, now), None);
        let reading = EndpointState::of(&tables, endpoint.row).reading();
        assert!(reading.health > 0.99, "{reading:?}");
    }

    #[test]
    fn failures_ejected_for_are_those_that_must_have_followed_each_other() {
        let ejects = |failed, accepted| {
            let (tables, backend) = world();
            let news = ConnectionNews {
                accepted,
                connect: Duration::from_millis(1),
                failed,
            };
            let now = Moment::from_nanos(1);
            let verdict = news.record(&tables, &backend, &backend.endpoints()[0], now);
            matches!(verdict, Some(Verdict::Ejected(_)))
        };
        assert!(!ejects(8, 1), "four, a success, four");
        assert!(ejects(9, 1));
        assert!(ejects(u64::MAX, 1));
        assert!(!ejects(u64::MAX, u64::MAX));
    }
}

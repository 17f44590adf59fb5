//! What picks and outcomes do together: several balancers over the same tables, one clock moved by hand, fixed seeds.

mod adaptive;
mod affinity;
mod buckets;
mod checks;
mod ejection;
mod generations;
mod learning;
mod leases;
mod refills;
mod reloads;
mod rendezvous;
mod retries;
mod shares;
mod slow_starts;
mod viability;
mod watching;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::shared::{SharedTables, Sizes};
use super::state::EndpointState;
use super::*;
use crate::moment::Moment;

const SEED: u64 = 0x5eed;
const WORKERS: usize = 3;

/// One backend, a balancer for every worker, and the time.
struct Pool {
    tables: SharedTables,
    backend: Backend,
    workers: Vec<Balancer>,
    now: Moment,
}

impl Pool {
    /// Endpoints of these weights, all in one bucket.
    fn of_weights(weights: &[u16]) -> Self {
        let endpoints: Vec<(u8, u16)> = weights.iter().map(|weight| (0, *weight)).collect();
        Self::of_buckets(&endpoints)
    }

    /// Endpoints of these buckets and weights.
    fn of_buckets(endpoints: &[(u8, u16)]) -> Self {
        let tables = SharedTables::anonymous(Sizes {
            capacity: endpoints.len().max(1),
            workers: WORKERS,
            cpus: 1,
            flows: 1,
        });
        let mut rows = EndpointRows::new(tables.clone());
        let endpoints = (1..).zip(endpoints).map(|(host, (bucket, weight))| {
            let address = SocketAddr::from(([10, 0, 0, host], 80));
            let key: Arc<str> = address.to_string().into();
            Endpoint {
                row: rows.admit(&key, address).expect("a row for each"),
                key,
                address,
                weight: Weight::new(*weight),
                bucket: Bucket(*bucket),
            }
        });
        let id = BackendId {
            place: 0,
            revision: 1,
        };
        let endpoints = endpoints.collect();
        Self {
            backend: Backend::new(id, BackendKind::Service, "pool", "tests", endpoints),
            workers: (0..WORKERS)
                .map(|worker| Balancer::new(tables.clone(), worker, SEED))
                .collect(),
            tables,
            now: Moment::from_nanos(1),
        }
    }

    fn with_policy(mut self, policy: HealthPolicy) -> Self {
        self.backend.policy.health = policy;
        self
    }

    fn advance(&mut self, length: Duration) {
        self.now = self.now + length;
    }

    fn pick_on(&mut self, worker: usize) -> Result<Lease, NoEndpoint> {
        self.workers[worker].pick(&self.backend, self.now)
    }

    fn pick(&mut self) -> Lease {
        self.pick_on(0).expect("an endpoint")
    }

    fn finish(&mut self, lease: Lease, outcome: Outcome) -> Option<Ejection> {
        match self.workers[0].finish(lease, outcome, self.now)? {
            Verdict::Ejected(ejection) => Some(ejection),
            Verdict::Spared | Verdict::TooLate => None,
        }
    }

    /// A lease of this very endpoint, as one drawn earlier.
    fn lease_of(&mut self, place: usize) -> Lease {
        self.workers[0].lease_of(&self.backend, &self.backend.endpoints()[place])
    }

    /// One attempt on this very endpoint that fails.
    fn fail(&mut self, place: usize) -> Option<Ejection> {
        let lease = self.lease_of(place);
        self.finish(lease, Outcome::Failure)
    }

    fn fail_times(&mut self, place: usize, times: usize) -> Option<Ejection> {
        (0..times).fold(None, |_, _| self.fail(place))
    }

    /// One attempt on this very endpoint that succeeds.
    fn succeed(&mut self, place: usize, latency: Option<LatencySample>) {
        let lease = self.lease_of(place);
        let ejection = self.finish(lease, Outcome::Success { latency });
        assert_eq!(ejection, None);
    }

    /// How many of this many picks each endpoint gets when nothing is learned from them.
    fn shares(&mut self, picks: usize) -> Vec<usize> {
        let mut shares = vec![0; self.backend.endpoints().len()];
        for _ in 0..picks {
            let lease = self.pick();
            shares[lease.index() as usize] += 1;
            self.finish(lease, Outcome::Neutral);
        }
        shares
    }

    fn set_health(&self, place: usize, health: f64) {
        self.tables.readings[place]
            .health
            .store(health.to_bits(), Relaxed);
    }

    fn figures(&self, place: usize) -> Figures {
        Figures::read(&self.tables, &self.backend.endpoints()[place], self.now)
    }
}

/// Within four standard deviations of a binomial draw.
fn assert_share(got: usize, picks: usize, expected: f64) {
    let mean = picks as f64 * expected;
    let sigma = (mean * (1.0 - expected)).sqrt();
    let off = (got as f64 - mean).abs();
    assert!(
        off <= 4.0 * sigma,
        "{got} of {picks} picks, expected {mean:.0} ± {:.0} (seed {SEED:#x})",
        4.0 * sigma
    );
}

const fn seconds(length: u64) -> Duration {
    Duration::from_secs(length)
}

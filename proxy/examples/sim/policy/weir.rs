//! Weir itself: the balancer of the proxy, two workers over tables they share.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use weir::balance::Figures;
use weir::balance::shared::{SharedTables, Sizes};
use weir::balance::{
    Backend, BackendId, BackendKind, Balancer, Bucket, Endpoint, EndpointRows, LatencySample,
    LatencySource, Outcome, Policy as Settings, Scoring, Weight,
};
use weir::moment::Moment;

use super::{Policy, Pool, Ticket, Verdict};

pub struct Weir {
    #[cfg(test)]
    tables: SharedTables,
    rows: EndpointRows,
    backend: Backend,
    workers: Vec<Balancer>,
    /// Who picks next.
    turn: usize,
}

impl Weir {
    const WORKERS: usize = 2;

    pub fn new(pool: Pool, scoring: Scoring) -> Self {
        let tables = SharedTables::anonymous(Sizes {
            capacity: pool.endpoints,
            workers: Self::WORKERS,
            cpus: 1,
            flows: 1,
        });
        let mut rows = EndpointRows::new(tables.clone());
        let settings = Settings {
            scoring,
            health: pool.health,
            ..Settings::default()
        };
        let backend = backend(1, pool.members, &mut rows).with_policy(settings);
        let workers = 0..Self::WORKERS;
        Self {
            rows,
            backend,
            workers: workers
                .map(|worker| Balancer::new(tables.clone(), worker, pool.seed))
                .collect(),
            turn: 0,
            #[cfg(test)]
            tables,
        }
    }
}

#[cfg(test)]
impl Weir {
    /// Reads what the tables say of each member, whenever it is called.
    pub fn leases(&self) -> impl Fn() -> Vec<weir::balance::LeaseCounts> + use<> {
        let tables = self.tables.clone();
        let endpoints = self.backend.endpoints().to_vec();
        move || {
            let figures = endpoints
                .iter()
                .map(|endpoint| Figures::read(&tables, endpoint, Moment::default()));
            figures.map(|figures| figures.leases).collect()
        }
    }
}

impl Policy for Weir {
    fn set_members(&mut self, members: usize) {
        let revision = self.backend.id.revision + 1;
        let settings = self.backend.policy;
        self.backend = backend(revision, members, &mut self.rows).with_policy(settings);
    }

    fn pick(&mut self, now: Moment) -> Ticket {
        self.turn = (self.turn + 1) % self.workers.len();
        let lease = self.workers[self.turn]
            .pick(&self.backend, now)
            .expect("members are never drained");
        Ticket {
            endpoint: lease.index() as usize,
            lease: Some((self.turn, lease)),
        }
    }

    fn finish(&mut self, ticket: Ticket, verdict: Verdict, now: Moment) {
        let (worker, lease) = ticket.lease.expect("every ticket of ours has a lease");
        let outcome = if verdict.is_success {
            Outcome::Success {
                latency: Some(LatencySample {
                    length: verdict.latency,
                    source: LatencySource::Worker,
                    self_delay: Duration::ZERO,
                }),
            }
        } else {
            Outcome::Failure
        };
        self.workers[worker].finish(lease, outcome, now);
    }
}

/// The first so many endpoints. Each has the row of its number, because rows are given out in order.
fn backend(revision: u64, members: usize, rows: &mut EndpointRows) -> Backend {
    let endpoints = (0..members).map(|number| {
        let host = Ipv4Addr::from_bits(0x0a00_0001 + number as u32);
        let address = SocketAddr::from((host, 8080));
        let key: Arc<str> = address.to_string().into();
        Endpoint {
            row: rows.admit(&key, address).expect("a row for each"),
            key,
            address,
            weight: Weight::ONE,
            bucket: Bucket(0),
        }
    });
    let id = BackendId { place: 0, revision };
    let endpoints = endpoints.collect();
    Backend::new(id, BackendKind::Service, "pool", "sim", endpoints)
}

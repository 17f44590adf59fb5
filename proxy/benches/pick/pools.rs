//! Picks from pools of 1 to 10,000 endpoints, each with a latency of its own, so that neither scores nor the processor's
//! guesses are all the same; and the ends of the leases.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use weir::balance::shared::{SharedTables, Sizes};
use weir::balance::{
    AffinityKey, Backend, BackendId, BackendKind, Balancer, Bucket, Endpoint, EndpointRows,
    LatencySample, LatencySource, Lease, Outcome, Scoring, Weight,
};
use weir::moment::Moment;

use super::{print, time};

pub const NOW: Moment = Moment::from_nanos(1);
const ROUNDS: usize = 200;
const PICKS: usize = 256;

pub fn report() {
    println!(
        "{:<46} {:>9} {:>9} {:>9}",
        "ns", "endpoints", "best", "middle"
    );
    for (weights, weight) in [
        ("weight 1", (|_| 1) as fn(usize) -> u16),
        ("5 weights", |place| 1 + (place % 5) as u16),
        ("all weights differ", |place| {
            1 + (place * 7919 % 65_000) as u16
        }),
    ] {
        for size in [1, 10, 100, 1_000, 10_000] {
            let print = |name: String, rounds| print(&format!("{name:<46} {size:>9}"), rounds);
            let mut pool = Pool::new(size, weight);
            let (picks, finishes) = pool.rounds(ROUNDS, |balancer, backend, _| {
                balancer.pick(backend, NOW).expect("an endpoint")
            });
            print(format!("p2c, {weights}"), picks);
            print(format!("finish, {weights}"), finishes);

            let mut adaptive = Pool::new(size, weight).scored(Scoring::Adaptive);
            let (picks, finishes) = adaptive.rounds(ROUNDS, |balancer, backend, _| {
                balancer.pick(backend, NOW).expect("an endpoint")
            });
            print(format!("p2c adaptive, {weights}"), picks);
            print(format!("finish adaptive, {weights}"), finishes);

            let keys: Vec<AffinityKey> = (0_u32..65_536)
                .map(|client| AffinityKey::of(&client.to_le_bytes()))
                .collect();
            let rounds = (2_000_000 / PICKS / size).clamp(5, ROUNDS);
            let (picks, _) = pool.rounds(rounds, |balancer, backend, pick| {
                let key = keys[pick % keys.len()];
                let lease = balancer.pick_bound(backend, black_box(key), &[], NOW);
                lease.expect("an endpoint")
            });
            print(format!("rendezvous, {weights}"), picks);
        }
    }
}

pub struct Pool {
    balancer: Balancer,
    backend: Backend,
}

impl Pool {
    pub fn new(size: usize, weight: impl Fn(usize) -> u16) -> Self {
        let tables = SharedTables::anonymous(Sizes {
            capacity: size,
            workers: 1,
            cpus: 1,
            flows: 1,
        });
        let mut rows = EndpointRows::new(tables.clone());
        let endpoints = (0..size).map(|place| {
            let host = Ipv4Addr::from_bits(0x0a00_0001 + place as u32);
            let address = SocketAddr::from((host, 8080));
            let key: Arc<str> = address.to_string().into();
            Endpoint {
                row: rows.admit(&key, address).expect("a row for each"),
                key,
                address,
                weight: Weight::new(weight(place)),
                bucket: Bucket(0),
            }
        });
        let id = BackendId {
            place: 0,
            revision: 1,
        };
        let endpoints = endpoints.collect();
        let mut pool = Self {
            backend: Backend::new(id, BackendKind::Service, "pool", "bench", endpoints),
            balancer: Balancer::new(tables, 0, 7),
        };
        pool.measure_all();
        pool
    }

    /// Changes the mode, and learns in it.
    pub fn scored(mut self, scoring: Scoring) -> Self {
        self.backend.policy.scoring = scoring;
        self.backend.id.revision += 1;
        self.measure_all();
        self
    }

    /// Until every endpoint that is not drawn very seldom has a latency.
    fn measure_all(&mut self) {
        for _ in 0..8 * self.backend.endpoints().len() {
            let lease = self.balancer.pick(&self.backend, NOW).expect("an endpoint");
            let micros = 500 + u64::from(lease.index()) * 7919 % 5000;
            let latency = Some(LatencySample {
                length: Duration::from_micros(micros),
                source: LatencySource::Worker,
                self_delay: Duration::ZERO,
            });
            self.balancer
                .finish(lease, Outcome::Success { latency }, NOW);
        }
    }

    /// Nanoseconds of a pick, and of the end of a lease, in every round.
    pub fn rounds(
        &mut self,
        rounds: usize,
        pick: impl Fn(&mut Balancer, &Backend, usize) -> Lease,
    ) -> (Vec<f64>, Vec<f64>) {
        let mut leases: Vec<Lease> = Vec::with_capacity(PICKS);
        let (balancer, backend) = (&mut self.balancer, &self.backend);
        let mut round = |round: usize| {
            let picks = time(PICKS, || {
                leases.extend((0..PICKS).map(|at| pick(balancer, backend, round * PICKS + at)));
            });
            let finishes = time(PICKS, || {
                for lease in leases.drain(..) {
                    balancer.finish(lease, Outcome::Neutral, NOW);
                }
            });
            (picks, finishes)
        };
        (0..rounds).map(&mut round).unzip()
    }
}

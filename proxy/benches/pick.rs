//! What one pick costs, with giving the lease back. `cargo bench -p weir --bench pick` prints nanoseconds per pick, the
//! best and the middle of several rounds, for pools of 1 to 10,000 endpoints.

use std::hint::black_box;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use weir::balance::shared::{SharedTables, Sizes};
use weir::balance::{
    AffinityKey, Backend, BackendId, BackendKind, Balancer, Bucket, Endpoint, EndpointRows,
    Outcome, Weight,
};
use weir::moment::Moment;

const ROUNDS: usize = 60;
/// Endpoints looked at in a round, roughly, so that rounds are short whatever the size.
const WORK: usize = 200_000;

fn main() {
    println!(
        "{:<24} {:>9} {:>9} {:>9}",
        "ns per pick", "endpoints", "best", "middle"
    );
    let now = Moment::from_nanos(1);
    for (weights, weight) in [
        ("weight 1", (|_| 1) as fn(usize) -> u16),
        ("5 weights", |place| 1 + (place % 5) as u16),
        ("all weights differ", |place| {
            1 + (place * 7919 % 65_000) as u16
        }),
    ] {
        for count in [1, 10, 64, 100, 1_000, 10_000] {
            let (mut balancer, backend) = pool(count, weight);
            report(&format!("p2c, {weights}"), count, 20_000, |_| {
                let lease = balancer.pick(&backend, now).expect("an endpoint");
                balancer.finish(lease, Outcome::Neutral, now);
            });
            let keys: Vec<AffinityKey> = (0_u32..1024)
                .map(|client| AffinityKey::of(&client.to_le_bytes()))
                .collect();
            let picks = (WORK / count).clamp(20, 20_000);
            report(&format!("rendezvous, {weights}"), count, picks, |pick| {
                let key = keys[pick % keys.len()];
                let lease = balancer.pick_bound(&backend, black_box(key), &[], now);
                balancer.finish(lease.expect("an endpoint"), Outcome::Neutral, now);
            });
        }
    }
}

fn pool(count: usize, weight: impl Fn(usize) -> u16) -> (Balancer, Backend) {
    let tables = SharedTables::anonymous(Sizes {
        capacity: count,
        workers: 1,
        cpus: 1,
        flows: 1,
    });
    let mut rows = EndpointRows::new(tables.clone());
    let endpoints = (0..count).map(|place| {
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
    let backend = Backend::new(
        id,
        BackendKind::Service,
        "pool",
        "bench",
        endpoints.collect(),
    );
    (Balancer::new(tables, 0, 7), backend)
}

fn report(name: &str, count: usize, picks: usize, mut pick: impl FnMut(usize)) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..picks).for_each(&mut pick);
            start.elapsed().as_nanos() as f64 / picks as f64
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!(
        "{name:<24} {count:>9} {:>9.1} {:>9.1}",
        rounds[0],
        rounds[ROUNDS / 2]
    );
}

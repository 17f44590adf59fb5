//! Every lease is counted once when it is picked and once when it is finished, whatever happens in between.

use std::thread;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Pick {
        worker: usize,
    },
    /// Finishes one of the leases a worker holds.
    Finish {
        worker: usize,
        which: usize,
        outcome: Outcome,
    },
    Wait {
        millis: u64,
    },
}

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        3 => Just(Outcome::Failure),
        1 => Just(Outcome::Neutral),
        1 => (1_u64..10_000).prop_map(|micros| Outcome::Success {
            latency: Some(LatencySample {
                length: Duration::from_micros(micros),
                source: LatencySource::Worker,
                self_delay: Duration::ZERO,
            }),
        }),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..WORKERS).prop_map(|worker| Step::Pick { worker }),
        3 => (0..WORKERS, any::<usize>(), outcome())
            .prop_map(|(worker, which, outcome)| Step::Finish { worker, which, outcome }),
        1 => (0_u64..4000).prop_map(|millis| Step::Wait { millis }),
    ]
}

fn assert_conserved(pool: &Pool, held: &[Vec<Lease>]) {
    for (place, endpoint) in pool.backend.endpoints().iter().enumerate() {
        let held = held.iter().flatten();
        let held = held.filter(|lease| lease.index() == endpoint.row.index);
        let counts = pool.figures(place).leases;
        assert_eq!(counts.pending, held.count() as u64);
        assert_eq!(
            counts.picked,
            counts.pending + counts.succeeded + counts.failed + counts.neutral
        );
    }
}

proptest! {
    #[test]
    fn picks_equal_finished_plus_pending_for_every_endpoint(
        steps in prop::collection::vec(step(), 0..300),
        weights in prop::collection::vec(0_u16..4, 0..6),
    ) {
        let mut pool = Pool::of_weights(&weights);
        let can_pick = weights.iter().any(|weight| *weight > 0);
        let mut held: Vec<Vec<Lease>> = (0..WORKERS).map(|_| Vec::new()).collect();
        for step in steps {
            match step {
                Step::Pick { worker } => {
                    let picked = pool.pick_on(worker);
                    if let Ok(lease) = picked {
                        held[worker].push(lease);
                    } else if can_pick {
                        // Only a drained endpoint beside ejected ones keeps these out.
                        prop_assert!(weights.contains(&0));
                    }
                }
                Step::Finish { worker, which, outcome } => {
                    if !held[worker].is_empty() {
                        let which = which % held[worker].len();
                        let lease = held[worker].swap_remove(which);
                        pool.workers[worker].finish(lease, outcome, pool.now);
                    }
                }
                Step::Wait { millis } => pool.advance(Duration::from_millis(millis)),
            }
            assert_conserved(&pool, &held);
        }
        for (worker, leases) in held.iter_mut().enumerate() {
            for lease in leases.drain(..) {
                pool.workers[worker].finish(lease, Outcome::Neutral, pool.now);
            }
        }
        assert_conserved(&pool, &held);
    }
}

#[test]
fn workers_on_threads_of_their_own_lose_no_lease_and_no_failure() {
    const ROUNDS: u64 = 20_000;
    let Pool {
        tables,
        backend,
        workers,
        now,
    } = Pool::of_weights(&[1, 2, 1]);
    thread::scope(|scope| {
        for mut balancer in workers {
            let backend = &backend;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    let now = now + Duration::from_micros(round);
                    let lease = balancer.pick(backend, now).expect("an endpoint");
                    balancer.finish(lease, Outcome::Failure, now);
                }
            });
        }
    });
    let mut failed = 0;
    for endpoint in backend.endpoints() {
        let figures = Figures::read(&tables, endpoint, now);
        assert_eq!(figures.leases.pending, 0);
        assert_eq!(figures.leases.picked, figures.leases.failed);
        let consecutive = tables.state[endpoint.row.index as usize]
            .consecutive_failures
            .load(Relaxed);
        assert_eq!(consecutive, figures.leases.failed);
        failed += figures.leases.failed;
    }
    assert_eq!(failed, ROUNDS * WORKERS as u64);
}

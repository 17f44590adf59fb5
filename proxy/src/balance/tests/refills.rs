//! Backends that lose their endpoints and get others, while attempts at those they had are under way.

use proptest::prelude::*;

use super::*;

const ENDPOINTS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    /// A snapshot in which the backend has some of the endpoints, or none, of these weights.
    Refill(Vec<Option<u16>>),
    Pick,
    PickBound {
        client: u8,
    },
    PickAgain {
        tried: u32,
    },
    /// One of the attempts that are out ends.
    Finish {
        which: usize,
        is_failure: bool,
    },
    Wait {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let weight = prop_oneof![2 => Just(None), 3 => (0_u16..4).prop_map(Some)];
    prop_oneof![
        1 => Just(Step::Refill(vec![None; ENDPOINTS])),
        2 => prop::collection::vec(weight, ENDPOINTS).prop_map(Step::Refill),
        3 => Just(Step::Pick),
        2 => any::<u8>().prop_map(|client| Step::PickBound { client }),
        2 => (0..ENDPOINTS as u32).prop_map(|tried| Step::PickAgain { tried }),
        3 => (any::<usize>(), any::<bool>())
            .prop_map(|(which, is_failure)| Step::Finish { which, is_failure }),
        1 => (0_u64..4000).prop_map(|millis| Step::Wait { millis }),
    ]
}

/// The endpoints that have a weight, in the next snapshot.
fn refill(pool: &mut Pool, endpoints: &[Endpoint], weights: &[Option<u16>]) {
    let kept = endpoints
        .iter()
        .zip(weights)
        .filter_map(|(endpoint, weight)| {
            Some(Endpoint {
                weight: Weight::new((*weight)?),
                ..endpoint.clone()
            })
        });
    let id = BackendId {
        revision: pool.backend.id.revision + 1,
        ..pool.backend.id
    };
    let policy = pool.backend.policy;
    let backend = Backend::new(id, BackendKind::Service, "pool", "tests", kept.collect());
    pool.backend = backend.with_policy(policy);
}

proptest! {
    #[test]
    fn whoever_is_picked_is_in_the_backend_as_it_is_now(
        scoring in prop_oneof![Just(Scoring::Seed), Just(Scoring::Adaptive)],
        steps in prop::collection::vec(step(), 0..80),
    ) {
        let mut pool = Pool::of_weights(&[1; ENDPOINTS]);
        pool.backend.policy.scoring = scoring;
        let endpoints = pool.backend.endpoints().to_vec();
        let mut out: Vec<Lease> = Vec::new();
        for step in steps {
            let (backend, worker) = (&pool.backend, &mut pool.workers[0]);
            let picked = match step {
                Step::Refill(weights) => {
                    refill(&mut pool, &endpoints, &weights);
                    continue;
                }
                Step::Finish { which, is_failure } => {
                    if !out.is_empty() {
                        let outcome = match is_failure {
                            true => Outcome::Failure,
                            false => Outcome::Success { latency: None },
                        };
                        let lease = out.swap_remove(which % out.len());
                        worker.finish(lease, outcome, pool.now);
                    }
                    continue;
                }
                Step::Wait { millis } => {
                    pool.advance(Duration::from_millis(millis));
                    continue;
                }
                Step::Pick => worker.pick(backend, pool.now),
                Step::PickBound { client } => {
                    worker.pick_bound(backend, AffinityKey::of(&[client]), &[], pool.now)
                }
                Step::PickAgain { tried } => worker.pick_again(backend, &[tried], pool.now),
            };
            let wanted = pool.backend.endpoints().iter();
            let mut wanted = wanted.filter(|one| !one.weight.is_drained());
            match picked {
                Ok(lease) => {
                    prop_assert!(wanted.any(|one| one.row.index == lease.index()));
                    out.push(lease);
                }
                Err(NoEndpoint) => {
                    // All that is active may be drained: then what is ejected stays out.
                    let state = |one: &Endpoint| EndpointState::of(&pool.tables, one.row);
                    let are_all_out = wanted.all(|one| !state(one).is_active(pool.now));
                    prop_assert!(are_all_out);
                }
            }
        }
    }
}

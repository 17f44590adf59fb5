//! Whoever is picked may be picked: whatever has failed, returned, been checked or drained before.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Fail { place: usize, times: usize },
    Succeed { place: usize },
    Check { place: usize, is_failing: bool },
    Wait { millis: u64 },
    Pick { worker: usize },
    PickBound { worker: usize, client: u8 },
    PickAgain { worker: usize, tried: usize },
}

fn step(size: usize) -> impl Strategy<Value = Step> {
    let worker = 0..WORKERS;
    prop_oneof![
        2 => (0..size, 1..6_usize).prop_map(|(place, times)| Step::Fail { place, times }),
        1 => (0..size).prop_map(|place| Step::Succeed { place }),
        1 => (0..size, any::<bool>())
            .prop_map(|(place, is_failing)| Step::Check { place, is_failing }),
        1 => (0_u64..4000).prop_map(|millis| Step::Wait { millis }),
        3 => worker.clone().prop_map(|worker| Step::Pick { worker }),
        3 => (worker.clone(), any::<u8>())
            .prop_map(|(worker, client)| Step::PickBound { worker, client }),
        3 => (worker, 0..size).prop_map(|(worker, tried)| Step::PickAgain { worker, tried }),
    ]
}

/// Endpoints of few buckets and weights, each with steps that fit.
fn course() -> impl Strategy<Value = (Vec<(u8, u16)>, Vec<Step>)> {
    prop::collection::vec((0_u8..3, 0_u16..3), 1..8).prop_flat_map(|endpoints| {
        let steps = prop::collection::vec(step(endpoints.len()), 0..80);
        (Just(endpoints), steps)
    })
}

/// Who may be picked, by the rule as it is written down: places of the first bucket with an active endpoint that is not
/// drained; else of the first one without any active endpoint that has an ejected one that is not drained.
fn viable(pool: &Pool) -> Vec<usize> {
    let endpoints = pool.backend.endpoints();
    let is_active =
        |place: usize| EndpointState::of(&pool.tables, endpoints[place].row).is_active(pool.now);
    for wants_active in [true, false] {
        for bucket in 0..3 {
            let places = || (0..endpoints.len()).filter(|at| endpoints[*at].bucket.0 == bucket);
            if !wants_active && places().any(is_active) {
                continue;
            }
            let found: Vec<usize> = places()
                .filter(|at| is_active(*at) == wants_active && !endpoints[*at].weight.is_drained())
                .collect();
            if !found.is_empty() {
                return found;
            }
        }
    }
    Vec::new()
}

fn place_of(pool: &Pool, lease: &Lease) -> usize {
    let endpoints = pool.backend.endpoints();
    let is_leased = |endpoint: &Endpoint| endpoint.row.index == lease.index();
    endpoints.iter().position(is_leased).expect("one of them")
}

proptest! {
    #[test]
    fn a_pick_never_returns_an_endpoint_that_is_not_viable((endpoints, steps) in course()) {
        let mut pool = Pool::of_buckets(&endpoints);
        let rows: Vec<EndpointRow> = pool.backend.endpoints().iter().map(|one| one.row).collect();
        let mut checks: Vec<Checked> = rows
            .iter()
            .map(|row| Checked::new(pool.tables.clone(), *row))
            .collect();
        for step in steps {
            let (worker, picked) = match step {
                Step::Fail { place, times } => {
                    pool.fail_times(place, times);
                    continue;
                }
                Step::Succeed { place } => {
                    pool.succeed(place, None);
                    continue;
                }
                Step::Check { place, is_failing } => {
                    checks[place].set_failing(is_failing, pool.now);
                    continue;
                }
                Step::Wait { millis } => {
                    pool.advance(Duration::from_millis(millis));
                    continue;
                }
                Step::Pick { worker } => (worker, pool.pick_on(worker)),
                Step::PickBound { worker, client } => {
                    let key = AffinityKey::of(&[client]);
                    let balancer = &mut pool.workers[worker];
                    (worker, balancer.pick_bound(&pool.backend, key, &[], pool.now))
                }
                Step::PickAgain { worker, tried } => {
                    let tried = [rows[tried].index];
                    let picked = pool.workers[worker].pick_again(&pool.backend, &tried, pool.now);
                    if let Ok(lease) = picked {
                        let place = place_of(&pool, &lease);
                        prop_assert!(endpoints.iter().any(|(_, weight)| *weight > 0));
                        prop_assert!(!pool.backend.endpoints()[place].weight.is_drained());
                        pool.workers[worker].finish(lease, Outcome::Neutral, pool.now);
                    }
                    continue;
                }
            };
            let viable = viable(&pool);
            match picked {
                Ok(lease) => {
                    let place = place_of(&pool, &lease);
                    pool.workers[worker].finish(lease, Outcome::Neutral, pool.now);
                    prop_assert!(viable.contains(&place), "{place} of {viable:?}");
                }
                Err(NoEndpoint) => prop_assert!(viable.is_empty(), "{viable:?}"),
            }
        }
    }
}

#[test]
fn a_backend_that_lost_all_its_endpoints_has_none_to_pick() {
    let mut pool = Pool::of_weights(&[1, 1]);
    let lease = pool.pick();
    pool.finish(lease, Outcome::Neutral);
    let id = BackendId {
        revision: 2,
        ..pool.backend.id
    };
    pool.backend = Backend::new(id, BackendKind::Service, "pool", "tests", Vec::new());
    assert!(pool.pick_on(0).is_err());
    let key = AffinityKey::of(b"client-a");
    let bound = pool.workers[0].pick_bound(&pool.backend, key, &[], pool.now);
    assert!(bound.is_err());
    let again = pool.workers[0].pick_again(&pool.backend, &[0], pool.now);
    assert!(again.is_err());
}

//! Which endpoint gets how many of the picks.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use super::*;

const PICKS: usize = 90_000;

#[test]
fn of_three_endpoints_the_worst_gets_one_ninth_and_the_best_five() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    pool.set_health(0, 0.2);
    pool.set_health(1, 0.5);
    let shares = pool.shares(PICKS);
    assert_share(shares[0], PICKS, 1.0 / 9.0);
    assert_share(shares[1], PICKS, 3.0 / 9.0);
    assert_share(shares[2], PICKS, 5.0 / 9.0);
}

#[test]
fn equal_endpoints_share_by_weight() {
    let mut pool = Pool::of_weights(&[3, 1]);
    let shares = pool.shares(PICKS);
    assert_share(shares[0], PICKS, 3.0 / 4.0);
    assert_share(shares[1], PICKS, 1.0 / 4.0);
}

#[test]
fn of_weights_three_to_one_a_worse_heavy_endpoint_needs_both_draws() {
    let mut pool = Pool::of_weights(&[3, 1]);
    pool.set_health(0, 0.5);
    let shares = pool.shares(PICKS);
    assert_share(shares[0], PICKS, 9.0 / 16.0);
    assert_share(shares[1], PICKS, 7.0 / 16.0);
}

#[test]
fn equal_weights_other_than_one_share_evenly() {
    let mut pool = Pool::of_weights(&[7, 7]);
    let shares = pool.shares(PICKS);
    assert_share(shares[0], PICKS, 1.0 / 2.0);
}

#[test]
fn a_drained_endpoint_is_never_drawn() {
    let mut pool = Pool::of_weights(&[1, 0, 1]);
    assert_eq!(pool.shares(1000)[1], 0);
    let mut pool = Pool::of_weights(&[5, 0, 1]);
    assert_eq!(pool.shares(1000)[1], 0);
}

#[test]
fn a_backend_that_is_empty_or_drained_has_nothing_to_pick() {
    for weights in [&[][..], &[0, 0][..]] {
        let mut pool = Pool::of_weights(weights);
        assert_eq!(pool.pick_on(0).err(), Some(NoEndpoint), "{weights:?}");
    }
}

#[test]
fn what_is_pending_on_one_worker_steers_the_picks_of_another() {
    let mut pool = Pool::of_weights(&[1, 1]);
    for place in 0..2 {
        let second = LatencySample {
            length: seconds(1),
            source: LatencySource::Worker,
            self_delay: Duration::ZERO,
        };
        pool.succeed(place, Some(second));
    }
    let held = pool.lease_of(0);
    let mut picks_of_idle = 0;
    for _ in 0..PICKS {
        let lease = pool.pick_on(1).expect("an endpoint");
        picks_of_idle += lease.index() as usize;
        pool.workers[1].finish(lease, Outcome::Neutral, pool.now);
    }
    assert_share(picks_of_idle, PICKS, 3.0 / 4.0);
    pool.finish(held, Outcome::Neutral);
}

#[test]
fn the_same_seed_gives_the_same_picks() {
    let course = || {
        let mut pool = Pool::of_weights(&[4, 2, 9]);
        let picks: Vec<u32> = (0..50)
            .map(|_| {
                let lease = pool.pick();
                let index = lease.index();
                pool.finish(lease, Outcome::Neutral);
                index
            })
            .collect();
        picks
    };
    assert_eq!(course(), course());
}

#[test]
fn picks_follow_any_weights_within_three_sigma() {
    const POOLS: u64 = 100;
    const PICKS: usize = 4_000;
    let (mut shares, mut outside) = (0, 0);
    for seed in 0..POOLS {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let size = random.random_range(2..7);
        let weights: Vec<u16> = (0..size).map(|_| random.random_range(0..50)).collect();
        let total: f64 = weights.iter().map(|weight| f64::from(*weight)).sum();
        let mut pool = Pool::of_weights(&weights);
        for (weight, got) in weights.iter().zip(pool.shares(PICKS)) {
            // All score alike, so that the second draw always wins.
            let share = f64::from(*weight) / total;
            let mean = PICKS as f64 * share;
            let sigma = (mean * (1.0 - share)).sqrt();
            let off = (got as f64 - mean).abs();
            assert!(
                off <= 5.0 * sigma,
                "{got} of {mean:.0} for {weight} of {weights:?}"
            );
            shares += 1;
            outside += usize::from(off > 3.0 * sigma);
        }
    }
    // Chance puts 0.3 % of them outside.
    assert!(
        outside * 100 <= shares,
        "{outside} of {shares} are off by more"
    );
}

#[test]
fn a_new_snapshot_moves_endpoints_to_other_buckets_and_keeps_what_was_learned() {
    let mut pool = Pool::of_buckets(&[(0, 1), (0, 1)]);
    pool.fail(0);
    pool.fail_times(1, 5);
    assert_eq!(pool.shares(100), [100, 0]);
    // The proxy has learned where it is: the second one is near, the first one is not.
    let mut endpoints = pool.backend.endpoints().to_vec();
    endpoints[0].bucket = Bucket(2);
    let id = BackendId {
        revision: 2,
        ..pool.backend.id
    };
    pool.backend = Backend::new(id, BackendKind::Service, "pool", "tests", endpoints);
    assert_eq!(pool.shares(100), [100, 0], "ejected still");
    pool.advance(seconds(3));
    assert_eq!(pool.shares(100), [0, 100]);
    // By place, the best bucket first.
    assert_eq!(pool.figures(1).health, 0.7);
    assert_eq!(pool.fail(1), None, "once more, of five");
}

#[test]
fn a_new_snapshot_changes_weights_and_keeps_what_was_learned() {
    let mut pool = Pool::of_weights(&[1, 1]);
    pool.fail(0);
    pool.shares(10);
    let mut endpoints = pool.backend.endpoints().to_vec();
    endpoints[1].weight = Weight::DRAINED;
    let id = BackendId {
        revision: 2,
        ..pool.backend.id
    };
    pool.backend = Backend::new(id, BackendKind::Service, "pool", "tests", endpoints);
    assert_eq!(pool.shares(100), [100, 0]);
    assert_eq!(pool.figures(0).health, 0.7);
}

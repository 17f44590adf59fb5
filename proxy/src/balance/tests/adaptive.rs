//! Adaptive scoring: who is preferred, how what is known ages, and that weights hold.

use super::*;

const PICKS: usize = 60_000;

/// Scored adaptively.
fn adaptive(weights: &[u16]) -> Pool {
    let mut pool = Pool::of_weights(weights);
    pool.backend.policy.scoring = Scoring::Adaptive;
    pool
}

fn took(millis: u64) -> Option<LatencySample> {
    Some(LatencySample {
        length: Duration::from_millis(millis),
        source: LatencySource::Worker,
        self_delay: Duration::ZERO,
    })
}

/// Answers of each endpoint that took so long, one second after the start.
fn measured(latencies: &[u64]) -> Pool {
    let mut pool = adaptive(&vec![1; latencies.len()]);
    pool.shares(1);
    pool.advance(seconds(1));
    for (place, millis) in latencies.iter().enumerate() {
        pool.succeed(place, took(*millis));
    }
    pool
}

#[test]
fn the_worst_of_several_gets_nothing() {
    let shares = measured(&[5, 5, 5, 100]).shares(PICKS);
    assert_eq!(shares[3], 0);
    assert_share(shares[0], PICKS, 1.0 / 3.0);
}

#[test]
fn latencies_within_half_of_normal_are_all_the_same() {
    let shares = measured(&[10, 14, 7, 10]).shares(PICKS);
    for share in shares {
        assert_share(share, PICKS, 1.0 / 4.0);
    }
}

#[test]
fn an_endpoint_that_is_avoided_comes_back_into_question() {
    let mut pool = measured(&[5, 5, 100]);
    assert_eq!(pool.shares(100)[2], 0);
    pool.advance(seconds(2));
    for place in 0..2 {
        pool.succeed(place, took(5));
    }
    assert_eq!(pool.shares(100)[2], 0);
    // By now it is within half of normal.
    pool.advance(seconds(2));
    let shares = pool.shares(PICKS);
    assert_share(shares[2], PICKS, 1.0 / 3.0);
    // One answer shows what it is, the more so the longer there was none.
    pool.succeed(2, took(100));
    assert_eq!(pool.shares(100)[2], 0);
}

#[test]
fn of_two_the_faster_is_normal() {
    let mut pool = measured(&[5, 100]);
    assert_eq!(pool.shares(100), [100, 0]);
    pool.advance(seconds(5));
    assert_share(pool.shares(PICKS)[1], PICKS, 1.0 / 2.0);
}

#[test]
fn an_unmeasured_endpoint_counts_as_twice_as_slow_as_normal_for_a_while() {
    let mut pool = adaptive(&[1, 1, 1]);
    pool.shares(1);
    for place in 0..2 {
        pool.succeed(place, took(10));
    }
    pool.advance(Duration::from_millis(200));
    assert_eq!(pool.shares(100)[2], 0);
    let held = [pool.lease_of(0), pool.lease_of(1)];
    let busy = [pool.lease_of(0), pool.lease_of(1)];
    // It wins whenever it is drawn.
    assert_share(pool.shares(PICKS)[2], PICKS, 2.0 / 3.0);
    for lease in held.into_iter().chain(busy) {
        pool.finish(lease, Outcome::Neutral);
    }
    pool.advance(seconds(1));
    assert_share(pool.shares(PICKS)[2], PICKS, 1.0 / 3.0);
}

#[test]
fn pending_counts_in_full() {
    let mut pool = measured(&[10, 10, 25]);
    let held: Vec<Lease> = (0..4).map(|number| pool.lease_of(number % 2)).collect();
    // 10 ms * (2 + 1) is more than 25 ms.
    assert_share(pool.shares(PICKS)[2], PICKS, 2.0 / 3.0);
    for lease in held {
        pool.finish(lease, Outcome::Neutral);
    }
    assert_eq!(pool.shares(100)[2], 0);
}

#[test]
fn failures_weigh_squared_and_heal_with_time() {
    let mut pool = measured(&[10, 10, 10]);
    pool.fail(2);
    let held: Vec<Lease> = (0..2).map(|place| pool.lease_of(place)).collect();
    // 0.7² is less than half: worse than one more in flight.
    assert_eq!(pool.shares(100)[2], 0);
    pool.advance(seconds(2));
    for place in 0..2 {
        pool.succeed(place, took(10));
    }
    // (1 - 0.3 * e^(-2/3))² is more than half.
    assert_share(pool.shares(PICKS)[2], PICKS, 2.0 / 3.0);
    for lease in held {
        pool.finish(lease, Outcome::Neutral);
    }
}

#[test]
fn equal_endpoints_share_by_weight() {
    let mut pool = adaptive(&[3, 1]);
    let shares = pool.shares(PICKS);
    assert_share(shares[0], PICKS, 3.0 / 4.0);
}

#[test]
fn more_may_be_pending_on_a_heavier_endpoint() {
    let mut pool = adaptive(&[3, 1]);
    let held: Vec<Lease> = [0, 0, 0, 1].map(|place| pool.lease_of(place)).into();
    assert_share(pool.shares(PICKS)[0], PICKS, 3.0 / 4.0);
    for lease in held {
        pool.finish(lease, Outcome::Neutral);
    }
}

#[test]
fn a_poor_endpoint_is_not_picked_for_its_weight_alone() {
    let mut pool = adaptive(&[1, 1, 2]);
    pool.shares(1);
    for (place, millis) in [5, 5, 100].into_iter().enumerate() {
        pool.succeed(place, took(millis));
    }
    pool.advance(Duration::from_millis(5));
    // Drawn six times in a row.
    let shares = pool.shares(PICKS);
    assert_share(shares[2], PICKS, 0.5_f64.powi(6));
}

#[test]
fn the_only_endpoint_is_picked_however_bad_it_is() {
    let mut pool = adaptive(&[1]);
    pool.fail_times(0, 4);
    assert_eq!(pool.shares(3), [3]);
}

#[test]
fn what_the_default_mode_has_learned_is_known_from_the_start() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    for (place, millis) in [5, 5, 100].into_iter().enumerate() {
        pool.succeed(place, took(millis));
    }
    pool.backend.policy.scoring = Scoring::Adaptive;
    assert_eq!(pool.shares(100)[2], 0);
}

#[test]
fn the_default_mode_learns_as_ever_while_scoring_is_adaptive() {
    let mut pool = adaptive(&[1]);
    for millis in [100, 200, 400, 50] {
        pool.succeed(0, took(millis));
    }
    pool.fail_times(0, 2);
    let figures = pool.figures(0);
    let latency = figures.latency_seconds.expect("measured");
    assert!((latency - 0.1627).abs() < 1e-12, "{latency}");
    assert_eq!(figures.health, 0.7 * 0.7);
}

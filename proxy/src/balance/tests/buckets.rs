//! Which endpoints a pick draws from: priority first, then who is active, then who is ejected.

use super::*;

#[test]
fn a_later_bucket_waits_until_the_earlier_one_has_nobody_active() {
    let mut pool = Pool::of_buckets(&[(0, 1), (0, 1), (1, 1)]);
    assert_eq!(pool.shares(100)[2], 0);
    pool.fail_times(0, 5);
    assert_eq!(pool.shares(100), [0, 100, 0]);
    pool.fail_times(1, 5);
    assert_eq!(pool.shares(100), [0, 0, 100]);
}

#[test]
fn buckets_are_used_by_number_and_not_by_the_order_of_naming() {
    let mut pool = Pool::of_buckets(&[(2, 1), (0, 1), (1, 1)]);
    assert_eq!(pool.shares(100), [0, 100, 0]);
}

#[test]
fn a_drained_bucket_is_passed_over() {
    let mut pool = Pool::of_buckets(&[(0, 0), (1, 1)]);
    assert_eq!(pool.shares(100), [0, 100]);
}

#[test]
fn with_everything_ejected_the_first_bucket_serves_evenly_whatever_the_weights() {
    let mut pool = Pool::of_buckets(&[(0, 9), (0, 1), (0, 0), (1, 1)]);
    for place in 0..4 {
        pool.fail_times(place, 5);
    }
    const PICKS: usize = 10_000;
    let shares = pool.shares(PICKS);
    assert_share(shares[0], PICKS, 1.0 / 2.0);
    assert_eq!(shares[0] + shares[1], PICKS);
    assert_eq!(pool.pick().method(), Method::Rejected);
}

#[test]
fn in_the_rejected_phase_the_score_still_decides_between_two_draws() {
    let mut pool = Pool::of_weights(&[1, 1]);
    pool.fail_times(0, 6);
    pool.fail_times(1, 5);
    const PICKS: usize = 10_000;
    let shares = pool.shares(PICKS);
    assert_share(shares[1], PICKS, 3.0 / 4.0);
}

#[test]
fn a_bucket_whose_active_endpoints_are_all_drained_keeps_its_ejected_ones_out() {
    let mut pool = Pool::of_buckets(&[(0, 0), (0, 1), (1, 1)]);
    pool.fail_times(1, 5);
    pool.fail_times(2, 5);
    assert_eq!(pool.shares(100), [0, 0, 100]);
}

#[test]
fn an_endpoint_that_is_ejected_does_not_serve_in_the_place_of_a_drained_one() {
    // The operator has said that what works here shall serve nobody: neither shall what does not work.
    let mut pool = Pool::of_weights(&[0, 1]);
    pool.fail_times(1, 5);
    assert_eq!(pool.pick_on(0).err(), Some(NoEndpoint));
    let key = AffinityKey::of(b"client-a");
    let bound = pool.workers[0].pick_bound(&pool.backend, key, &[], pool.now);
    assert_eq!(bound.err(), Some(NoEndpoint));
    pool.advance(seconds(3));
    assert_eq!(pool.shares(10), [0, 10]);
}

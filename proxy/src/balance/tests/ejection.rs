//! Who leaves the pool, when it comes back, and what it brings along.

use super::*;

#[test]
fn the_fifth_failure_in_a_row_ejects_for_three_seconds() {
    let mut pool = Pool::of_weights(&[1, 1]);
    assert_eq!(pool.fail_times(0, 4), None);
    let ejection = pool.fail(0).expect("the fifth failure");
    assert_eq!(ejection.length, seconds(3));
    assert_eq!(ejection.until, pool.now + seconds(3));

    assert_eq!(pool.shares(100), [0, 100]);
    pool.advance(seconds(3) - Duration::from_nanos(1));
    assert_eq!(pool.shares(100), [0, 100]);
    assert_eq!(
        pool.figures(0).ejected_for,
        Some(Duration::from_nanos(1)),
        "one nanosecond to go"
    );
    pool.advance(Duration::from_nanos(1));
    assert!(pool.shares(100)[0] > 0);
    assert_eq!(pool.figures(0).ejected_for, None);
}

#[test]
fn a_success_between_failures_starts_the_count_again() {
    let mut pool = Pool::of_weights(&[1, 1]);
    for _ in 0..3 {
        assert_eq!(pool.fail_times(0, 4), None);
        pool.succeed(0, None);
    }
}

#[test]
fn the_first_failure_after_a_return_ejects_again_and_longer() {
    let mut pool = Pool::of_weights(&[1, 1]);
    pool.fail_times(0, 5);
    let health = pool.figures(0).health;
    for length in [6, 9, 12] {
        pool.advance(seconds(30));
        let ejection = pool.fail(0).expect("failures in a row are kept");
        assert_eq!(ejection.length, seconds(length));
    }
    assert!(pool.figures(0).health < health, "health was kept, and fell");
    assert_eq!(pool.figures(0).ejections, 4);
}

#[test]
fn one_success_after_a_return_makes_the_next_ejection_short_and_late() {
    let mut pool = Pool::of_weights(&[1, 1]);
    pool.fail_times(0, 5);
    pool.advance(seconds(3));
    pool.fail(0);
    pool.advance(seconds(6));
    pool.succeed(0, None);
    assert_eq!(pool.fail_times(0, 4), None);
    let ejection = pool.fail(0).expect("the fifth failure in a row");
    assert_eq!(ejection.length, seconds(3));
}

#[test]
fn failures_of_an_ejected_endpoint_neither_extend_nor_count() {
    let mut pool = Pool::of_weights(&[1, 1]);
    pool.fail_times(0, 5);
    pool.advance(seconds(2));
    assert_eq!(pool.fail_times(0, 20), None);
    assert_eq!(pool.figures(0).ejected_for, Some(seconds(1)));
    assert_eq!(pool.figures(0).ejections, 1);
    pool.advance(seconds(1));
    let ejection = pool.fail(0).expect("the first failure after the return");
    assert_eq!(ejection.length, seconds(6), "only the second ejection");
}

#[test]
fn every_worker_sees_an_ejection_at_its_next_pick() {
    let mut pool = Pool::of_weights(&[1, 1]);
    for worker in 0..WORKERS {
        let lease = pool.pick_on(worker).expect("an endpoint");
        pool.workers[worker].finish(lease, Outcome::Neutral, pool.now);
    }
    pool.fail_times(0, 5);
    for worker in 0..WORKERS {
        for _ in 0..50 {
            let lease = pool.pick_on(worker).expect("an endpoint");
            assert_eq!(lease.index(), 1);
            pool.workers[worker].finish(lease, Outcome::Neutral, pool.now);
        }
    }
}

#[test]
fn each_endpoint_returns_at_its_own_time() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    pool.fail_times(0, 5);
    pool.advance(seconds(1));
    pool.fail_times(1, 5);
    assert_eq!(pool.shares(100), [0, 0, 100]);
    pool.advance(seconds(2));
    let shares = pool.shares(100);
    assert!(shares[0] > 0 && shares[1] == 0, "{shares:?}");
    pool.advance(seconds(1));
    assert!(pool.shares(100)[1] > 0);
}

#[test]
fn weights_hold_among_those_that_are_left() {
    let mut pool = Pool::of_weights(&[1, 3, 1]);
    pool.fail_times(0, 5);
    const PICKS: usize = 20_000;
    let shares = pool.shares(PICKS);
    assert_eq!(shares[0], 0);
    assert_share(shares[1], PICKS, 3.0 / 4.0);
}

#[test]
fn with_everything_ejected_traffic_still_flows() {
    let mut pool = Pool::of_weights(&[1, 1]);
    pool.fail_times(0, 5);
    pool.fail_times(1, 5);
    let shares = pool.shares(100);
    assert!(shares[0] > 0 && shares[1] > 0, "{shares:?}");
}

#[test]
fn health_is_restored_on_return_only_where_the_policy_says_so() {
    let policy = HealthPolicy {
        eviction: Some(Eviction {
            duration: Some(seconds(10)),
            restore_health: Percent::new(80),
            health_threshold: Percent::new(50),
            ..Eviction::default()
        }),
    };
    let mut pool = Pool::of_weights(&[1, 1]).with_policy(policy);
    assert_eq!(pool.fail_times(0, 2), None, "0.7, then 0.49");
    assert!(pool.fail(0).is_some(), "0.49 is below the threshold");
    pool.advance(seconds(10));
    pool.shares(1);
    assert_eq!(pool.figures(0).health, 0.8);
}

#[test]
fn a_return_counts_before_the_failure_that_is_the_first_to_notice_it() {
    let policy = HealthPolicy {
        eviction: Some(Eviction {
            restore_health: Percent::new(100),
            health_threshold: Percent::new(50),
            ..Eviction::default()
        }),
    };
    let mut pool = Pool::of_weights(&[1, 1]).with_policy(policy);
    pool.fail_times(0, 3);
    pool.advance(seconds(3));
    assert_eq!(pool.fail(0), None, "decided from the restored health");
    assert_eq!(pool.figures(0).health, 0.7);
}

#[test]
fn without_an_eviction_block_only_the_score_falls() {
    let mut pool = Pool::of_weights(&[1, 1]).with_policy(HealthPolicy { eviction: None });
    assert_eq!(pool.fail_times(0, 100), None);
    assert!(pool.shares(1000)[0] > 0, "drawn twice now and then");
}

fn half_at_most(weights: &[u16]) -> Pool {
    let mut pool = Pool::of_weights(weights);
    pool.backend.policy.max_ejected = Percent::new(50);
    // Workers know a backend from picking.
    pool.shares(1);
    pool
}

#[test]
fn an_ejection_beyond_the_limit_does_not_happen_and_says_so() {
    let mut pool = half_at_most(&[1, 1, 1, 0]);
    assert!(pool.fail_times(0, 5).is_some(), "one of three");
    assert_eq!(pool.fail_times(1, 9), None, "two of three are too many");
    assert_eq!(pool.figures(1).ejected_for, None);
    assert_eq!(pool.figures(1).ejections, 0);
    let lease = pool.lease_of(1);
    let verdict = pool.workers[0].finish(lease, Outcome::Failure, pool.now);
    assert_eq!(verdict, Some(Verdict::Spared));

    pool.advance(seconds(3));
    pool.shares(1);
    let ejection = pool.fail(1).expect("the first one is back");
    assert_eq!(ejection.length, seconds(3), "being spared does not count");
    assert_eq!(ejection.trigger, Trigger::ConsecutiveFailures(11));
}

#[test]
fn endpoints_that_fail_checks_count_as_out() {
    let mut pool = half_at_most(&[1, 1, 1]);
    let row = pool.backend.endpoints()[2].row;
    let mut checked = Checked::new(pool.tables.clone(), row);
    checked.set_failing(true, pool.now);
    assert_eq!(pool.fail_times(0, 5), None);
    checked.set_failing(false, pool.now);
    assert!(pool.fail(0).is_some());
}

#[test]
fn an_attempt_that_outlived_its_snapshot_is_held_to_the_limit_among_those_it_knew() {
    let mut pool = half_at_most(&[1, 1, 1]);
    pool.fail_times(0, 4);
    pool.fail_times(1, 4);
    let late = [0, 1].map(|place| pool.lease_of(place));
    pool.backend.id.revision += 1;
    pool.backend.policy.max_ejected = None;
    pool.shares(1);
    let verdicts = late.map(|lease| pool.workers[0].finish(lease, Outcome::Failure, pool.now));
    let [Some(Verdict::Ejected(ejection)), Some(Verdict::Spared)] = verdicts else {
        panic!("one of three may be out: {verdicts:?}");
    };
    assert_eq!(ejection.backend.revision, 1);
    assert!(pool.fail(1).is_some(), "the new snapshot has no limit");
}

#[test]
fn an_ejection_does_not_outlive_the_endpoint_it_was_meant_for() {
    let policy = HealthPolicy {
        eviction: Some(Eviction {
            restore_health: Percent::new(10),
            ..Eviction::default()
        }),
    };
    let mut pool = Pool::of_weights(&[1, 1]).with_policy(policy);
    pool.fail(0).expect("any failure ejects");
    let old_row = pool.backend.endpoints()[0].row;
    let tables = pool.tables.clone();
    let successor = EndpointState::of(
        &tables,
        EndpointRow {
            generation: old_row.generation + 10,
            ..old_row
        },
    );
    successor.reset();
    assert_eq!(successor.ejected_until(pool.now), None);

    // Nor does a return that comes due by the old snapshot touch the successor.
    successor.eject(seconds(1), pool.now);
    successor.confirm_ejection(EjectionReason::Failure);
    pool.advance(seconds(3));
    pool.shares(1);
    assert_eq!(successor.reading().health, 1.0);
}

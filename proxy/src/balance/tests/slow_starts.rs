//! How much an endpoint gets that is new, or that returns.

use super::*;

const PICKS: usize = 20_000;

/// A backend of which the first worker has seen two of three endpoints.
fn joined() -> Pool {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    pool.backend.policy.slow_start = SlowStart::new(seconds(10));
    let all = pool.backend.clone();
    let two = all.endpoints()[..2].to_vec();
    pool.backend =
        Backend::new(all.id, BackendKind::Service, "pool", "tests", two).with_policy(all.policy);
    let lease = pool.pick();
    pool.finish(lease, Outcome::Neutral);
    pool.backend = all;
    pool.backend.id.revision += 1;
    pool
}

#[test]
fn a_new_endpoint_gets_a_tenth_of_its_share_and_grows_to_the_whole() {
    let mut pool = joined();
    assert_share(pool.shares(PICKS)[2], PICKS, 0.1 / 2.1);
    pool.advance(seconds(5));
    assert_share(pool.shares(PICKS)[2], PICKS, 0.5 / 2.5);
    pool.advance(seconds(5));
    assert_share(pool.shares(PICKS)[2], PICKS, 1.0 / 3.0);
}

#[test]
fn an_endpoint_that_returns_is_eased_in_again() {
    let mut pool = joined();
    pool.shares(1);
    pool.advance(seconds(10));
    pool.shares(1);
    pool.fail_times(0, 5);
    pool.shares(1);
    pool.advance(seconds(3));
    // Its health is not asked here.
    pool.set_health(0, 1.0);
    assert_share(pool.shares(PICKS)[0], PICKS, 0.1 / 2.1);
    pool.advance(seconds(10));
    assert_share(pool.shares(PICKS)[0], PICKS, 1.0 / 3.0);
}

#[test]
fn an_endpoint_whose_checks_pass_again_is_eased_in() {
    let mut pool = joined();
    pool.shares(1);
    pool.advance(seconds(10));
    pool.shares(1);
    let state = EndpointState::of(&pool.tables, pool.backend.endpoints()[0].row);
    state.set_check_failing(true);
    assert_eq!(pool.shares(PICKS)[0], 0);
    let state = EndpointState::of(&pool.tables, pool.backend.endpoints()[0].row);
    state.set_check_failing(false);
    assert_share(pool.shares(PICKS)[0], PICKS, 0.1 / 2.1);
    pool.advance(seconds(10));
    assert_share(pool.shares(PICKS)[0], PICKS, 1.0 / 3.0);
}

#[test]
fn people_are_told_how_far_an_endpoint_is_and_workers_that_look_late_agree() {
    let mut pool = joined();
    pool.shares(1);
    pool.advance(seconds(4));
    let (_, all) = standings(&pool.backend, &pool.tables, pool.now);
    let eased: Vec<Option<u32>> = all.iter().map(|one| one.eased_percent).collect();
    assert_eq!(eased, [None, None, Some(40)]);
    assert!(
        (all[2].chance - 0.4 / 2.4).abs() < 1e-9,
        "{}",
        all[2].chance
    );

    let mut late = Balancer::new(pool.tables.clone(), 1, 3);
    pool.tables.watch.begin("tests", "pool", PICKS);
    for _ in 0..PICKS {
        let lease = late.pick(&pool.backend, pool.now).expect("an endpoint");
        late.finish(lease, Outcome::Neutral, pool.now);
    }
    let (picks, _) = pool.tables.watch.end();
    let key = &pool.backend.endpoints()[2].key;
    let won = picks.iter().filter(|pick| pick.winner == *key).count();
    assert_share(won, PICKS, 0.4 / 2.4);
    let draws = picks.iter().filter_map(|pick| match &pick.how {
        How::Draws { draws, .. } => Some(draws),
        How::Affinity { .. } => None,
    });
    for draw in draws.flatten() {
        let expected = (draw.endpoint == *key).then_some(40);
        assert_eq!(draw.eased_percent, expected);
    }
}

#[test]
fn nobody_is_eased_in_where_all_are_new() {
    let mut pool = Pool::of_weights(&[3, 1]);
    pool.backend.policy.slow_start = SlowStart::new(seconds(10));
    assert_share(pool.shares(PICKS)[0], PICKS, 3.0 / 4.0);
    pool.fail_times(0, 5);
    pool.fail_times(1, 5);
    pool.shares(1);
    pool.advance(seconds(3));
    (0..2).for_each(|place| pool.set_health(place, 1.0));
    assert_share(pool.shares(PICKS)[0], PICKS, 3.0 / 4.0);
}

#[test]
fn affinity_keeps_to_the_weights_replicas_agree_on() {
    let mut pool = joined();
    let homes = |pool: &mut Pool| -> Vec<u32> {
        let mut homes = Vec::new();
        for client in 0..50_u8 {
            let key = AffinityKey::of(&[client]);
            let lease = pool.workers[0].pick_bound(&pool.backend, key, &[], pool.now);
            let lease = lease.expect("an endpoint");
            homes.push(lease.index());
            pool.finish(lease, Outcome::Neutral);
        }
        homes
    };
    let eased = homes(&mut pool);
    pool.advance(seconds(10));
    assert_eq!(homes(&mut pool), eased);
}

#[test]
fn an_endpoint_whose_checks_pass_again_is_eased_in_from_then_on_although_nobody_asked_meanwhile() {
    let mut pool = joined();
    pool.shares(1);
    pool.advance(seconds(10));
    pool.shares(1);
    let row = pool.backend.endpoints()[0].row;
    let mut check = Checked::new(pool.tables.clone(), row);
    check.set_failing(true, pool.now);
    pool.advance(seconds(60));
    check.set_failing(false, pool.now);
    let (_, all) = standings(&pool.backend, &pool.tables, pool.now);
    assert_eq!(all[0].eased_percent, Some(10), "before any request");
    pool.advance(seconds(5));
    assert_share(pool.shares(PICKS)[0], PICKS, 0.5 / 2.5);
}

#[test]
fn the_end_of_an_ejection_begins_to_ease_in_however_late_a_request_comes() {
    let mut pool = joined();
    pool.shares(1);
    pool.advance(seconds(10));
    pool.fail_times(0, 5);
    pool.advance(seconds(3 + 5));
    pool.set_health(0, 1.0);
    assert_share(pool.shares(PICKS)[0], PICKS, 0.5 / 2.5);
}

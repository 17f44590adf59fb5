//! What somebody who watches picks gets to see.

use super::*;

fn seen(pool: &Pool) -> Vec<WatchedPick> {
    let (picks, missed) = pool.tables.watch.end();
    assert_eq!(missed, 0);
    picks
}

#[test]
fn a_pick_shows_both_draws_with_their_scores_and_the_better_one_wins() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    pool.set_health(0, 0.2);
    pool.set_health(1, 0.5);
    pool.tables.watch.begin("tests", "pool", 50);
    let got = pool.shares(60);
    let picks = seen(&pool);
    assert_eq!(picks.len(), 50);
    for pick in &picks {
        let How::Draws { method, draws } = &pick.how else {
            panic!("{pick:?}");
        };
        assert_eq!(*method, Method::P2c);
        let better = &draws[usize::from(draws[0].score <= draws[1].score)];
        assert_eq!(better.endpoint, pick.winner);
        assert_eq!(
            better.reading.pending, 0,
            "the request itself is not counted"
        );
        assert_eq!(better.score, better.reading.health);
    }
    assert!(got.iter().all(|picks| *picks > 0));
}

#[test]
fn an_adaptive_pick_shows_two_different_endpoints_and_what_was_compared() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    pool.backend.policy.scoring = Scoring::Adaptive;
    pool.fail(0);
    pool.tables.watch.begin("tests", "pool", 20);
    pool.shares(20);
    for pick in seen(&pool) {
        let How::Draws { draws, .. } = &pick.how else {
            panic!("{pick:?}");
        };
        assert_ne!(draws[0].endpoint, draws[1].endpoint);
        for draw in draws {
            let Reading { health, .. } = draw.reading;
            assert!((draw.score - health * health).abs() < 1e-6, "{draw:?}");
        }
    }
    let (_, all) = standings(&pool.backend, &pool.tables, pool.now);
    let chances: Vec<f64> = all.iter().map(|standing| standing.chance).collect();
    assert_eq!(chances, [0.0, 0.5, 0.5]);
}

#[test]
fn a_bound_pick_shows_what_it_had_to_get_around() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    pool.backend.policy.bounded_load = BoundedLoad::new(1.5);
    pool.tables.watch.begin("tests", "pool", 10);
    let key = AffinityKey::of(b"client-a");
    let worker = &mut pool.workers[0];
    let first = worker.pick_bound(&pool.backend, key, &[], pool.now);
    let first = first.expect("an endpoint");
    let tried = [first.index()];
    let second = worker.pick_bound(&pool.backend, key, &tried, pool.now);
    let second = second.expect("another endpoint");
    let hows: Vec<How> = seen(&pool).into_iter().map(|pick| pick.how).collect();
    let how = |tried, limit| How::Affinity {
        tried,
        pending: 0,
        limit: Some(limit),
    };
    assert_eq!(hows, [how(0, 0.0), how(1, 0.5)]);
    pool.finish(first, Outcome::Neutral);
    pool.finish(second, Outcome::Neutral);
}

#[test]
fn standings_say_who_may_be_picked_and_why_not() {
    let mut pool = Pool::of_buckets(&[(0, 1), (0, 1), (0, 0), (0, 1), (1, 1)]);
    pool.fail_times(1, 5);
    let mut checked = Checked::new(pool.tables.clone(), pool.backend.endpoints()[3].row);
    checked.set_failing(true, pool.now);
    let (method, all) = standings(&pool.backend, &pool.tables, pool.now);
    assert_eq!(method, Some(Method::P2c));
    let states: Vec<State> = all.iter().map(|standing| standing.state).collect();
    assert_eq!(
        states,
        [
            State::Candidate,
            State::Ejected,
            State::Drained,
            State::FailingChecks,
            State::Waiting
        ]
    );
    let chances: Vec<f64> = all.iter().map(|standing| standing.chance).collect();
    assert_eq!(chances, [1.0, 0.0, 0.0, 0.0, 0.0]);
}

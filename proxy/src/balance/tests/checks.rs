//! Active checks take endpoints out of the pool and back, beside what traffic does.

use super::*;

fn check(pool: &Pool, place: usize) -> Checked {
    Checked::new(pool.tables.clone(), pool.backend.endpoints()[place].row)
}

#[test]
fn an_endpoint_is_out_of_the_pool_while_a_check_fails() {
    let mut pool = Pool::of_weights(&[1, 1]);
    pool.shares(10);
    let mut failing = check(&pool, 0);
    failing.set_failing(true, pool.now);
    assert_eq!(pool.shares(100), [0, 100], "every worker hears of it");
    assert!(pool.figures(0).is_ejected());
    pool.advance(seconds(3600));
    assert_eq!(pool.shares(100), [0, 100], "no time ends it");
    failing.set_failing(false, pool.now);
    assert!(pool.shares(100)[0] > 0);
    assert_eq!(pool.figures(0).checks.ejections, 1);
}

#[test]
fn checks_and_traffic_eject_independently() {
    let mut pool = Pool::of_weights(&[1, 1]);
    let mut failing = check(&pool, 0);
    pool.fail_times(0, 5);
    failing.set_failing(true, pool.now);
    pool.advance(seconds(3));
    assert_eq!(
        pool.shares(100),
        [0, 100],
        "the ejection by traffic is over, the check fails"
    );
    pool.fail(0).expect("failures in a row are kept");
    failing.set_failing(false, pool.now);
    assert_eq!(
        pool.shares(100),
        [0, 100],
        "the check passes, traffic ejected it again"
    );
    assert_eq!(pool.figures(0).ejections, 2);
    assert_eq!(pool.figures(0).checks.ejections, 1);
    pool.advance(seconds(6));
    assert!(pool.shares(100)[0] > 0);
}

#[test]
fn traffic_flows_although_all_endpoints_fail_their_checks() {
    let mut pool = Pool::of_weights(&[1, 1, 0]);
    let mut checks: Vec<Checked> = (0..3).map(|place| check(&pool, place)).collect();
    for check in &mut checks {
        check.set_failing(true, pool.now);
    }
    let lease = pool.pick();
    assert_eq!(lease.method(), Method::Rejected);
    pool.finish(lease, Outcome::Neutral);
    let shares = pool.shares(100);
    assert!(
        shares[0] > 0 && shares[1] > 0 && shares[2] == 0,
        "{shares:?}"
    );
    drop(checks);
    assert_eq!(
        pool.pick_on(1).map(|lease| {
            let method = lease.method();
            pool.workers[1].finish(lease, Outcome::Neutral, pool.now);
            method
        }),
        Ok(Method::P2c)
    );
}

#[test]
fn two_checks_of_an_endpoint_must_both_pass() {
    let mut pool = Pool::of_weights(&[1, 1]);
    let (mut one, mut other) = (check(&pool, 0), check(&pool, 0));
    one.set_failing(true, pool.now);
    other.set_failing(true, pool.now);
    one.set_failing(false, pool.now);
    one.set_failing(false, pool.now);
    assert_eq!(pool.shares(100), [0, 100]);
    drop(other);
    assert!(
        pool.shares(100)[0] > 0,
        "a check that is no more takes its vote along"
    );
}

#[test]
fn news_of_a_check_come_too_late_for_a_row_that_changed_hands() {
    let pool = Pool::of_weights(&[1]);
    let mut late = check(&pool, 0);
    late.set_failing(true, pool.now);
    let row = pool.backend.endpoints()[0].row;
    let successor = EndpointRow {
        generation: row.generation + 1,
        ..row
    };
    EndpointState::of(&pool.tables, successor).reset();
    late.count(CheckResult::Failed);
    let mut its_own = Checked::new(pool.tables.clone(), successor);
    its_own.set_failing(true, pool.now);
    drop(late);
    let state = EndpointState::of(&pool.tables, successor);
    assert!(state.is_failing_checks());
    assert_eq!(state.check_counts().failed, 0);
}

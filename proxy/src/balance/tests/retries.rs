//! Further attempts at a request go to whoever has not had it.

use super::*;

impl Pool {
    /// How many of this many further attempts each endpoint gets.
    fn retry_shares(&mut self, tried: &[u32], picks: usize) -> Vec<usize> {
        let mut shares = vec![0; self.backend.endpoints().len()];
        for _ in 0..picks {
            let lease = self.workers[0].pick_again(&self.backend, tried, self.now);
            let lease = lease.expect("an endpoint");
            shares[lease.index() as usize] += 1;
            self.finish(lease, Outcome::Neutral);
        }
        shares
    }
}

#[test]
fn an_endpoint_already_tried_is_avoided_while_another_is_there() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    let shares = pool.retry_shares(&[1], 1000);
    assert_eq!(shares[1], 0);
    assert_share(shares[0], 1000, 0.5);
    assert_eq!(pool.retry_shares(&[1, 0], 100), [0, 0, 100]);
}

#[test]
fn further_attempts_follow_weights_and_scores() {
    let mut pool = Pool::of_weights(&[9, 3, 1, 0]);
    let shares = pool.retry_shares(&[0], 10_000);
    // The second of two equal draws wins, so each draw alone decides.
    assert_share(shares[1], 10_000, 0.75);
    assert_eq!((shares[0], shares[3]), (0, 0));
    pool.set_health(1, 0.5);
    let shares = pool.retry_shares(&[0], 10_000);
    assert_share(shares[1], 10_000, 0.75 * 0.75);
}

#[test]
fn a_later_bucket_comes_before_an_ejected_endpoint_and_that_before_one_tried() {
    let mut pool = Pool::of_buckets(&[(0, 1), (0, 1), (1, 1)]);
    pool.fail_times(1, 5);
    assert_eq!(pool.retry_shares(&[0], 100), [0, 0, 100]);
    assert_eq!(pool.retry_shares(&[0, 2], 100), [0, 100, 0]);
    // All have had it: as any other pick.
    assert_eq!(pool.retry_shares(&[0, 1, 2], 100), [100, 0, 0]);
}

#[test]
fn a_drained_endpoint_is_no_other_to_try() {
    let mut pool = Pool::of_weights(&[1, 0]);
    assert!(!pool.backend.has_untried(|row| row == 0));
    assert!(pool.backend.has_untried(|_| false));
    assert_eq!(pool.retry_shares(&[0], 10), [10, 0]);
    let mut empty = Pool::of_weights(&[0]);
    let picked = empty.workers[0].pick_again(&empty.backend, &[], empty.now);
    assert_eq!(picked.err(), Some(NoEndpoint));
}

//! Picks that a key decides: the same endpoint again and again, and who follows when that one is out.

use super::*;

impl Pool {
    fn pick_bound(&mut self, client: &str, tried: &[u32]) -> Lease {
        let key = AffinityKey::of(client.as_bytes());
        self.workers[0]
            .pick_bound(&self.backend, key, tried, self.now)
            .expect("an endpoint")
    }

    fn home_of(&mut self, client: &str) -> usize {
        let lease = self.pick_bound(client, &[]);
        let home = lease.index() as usize;
        self.finish(lease, Outcome::Neutral);
        home
    }
}

fn clients() -> impl Iterator<Item = String> {
    (0..200).map(|client| format!("client-{client}"))
}

#[test]
fn a_key_stays_with_its_endpoint_whatever_its_health_and_load() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    for client in clients() {
        let home = pool.home_of(&client);
        pool.fail(home);
        let lease = pool.pick_bound(&client, &[]);
        assert_eq!(lease.method(), Method::Affinity);
        assert_eq!(lease.index() as usize, home);
        pool.finish(lease, Outcome::Success { latency: None });
    }
}

#[test]
fn only_the_keys_of_an_ejected_endpoint_move_and_they_come_back() {
    let mut pool = Pool::of_weights(&[1, 2, 3]);
    let homes: Vec<usize> = clients().map(|client| pool.home_of(&client)).collect();
    pool.fail_times(1, 5);
    for (client, home) in clients().zip(&homes) {
        let now = pool.home_of(&client);
        assert!(now != 1 && (*home == 1 || now == *home));
    }
    pool.advance(seconds(3));
    assert_eq!(
        homes,
        clients()
            .map(|client| pool.home_of(&client))
            .collect::<Vec<_>>()
    );
}

#[test]
fn tries_walk_down_the_bucket_then_the_next_one_then_the_ejected() {
    let mut pool = Pool::of_buckets(&[(0, 1), (0, 1), (0, 1), (1, 1), (2, 0)]);
    pool.fail_times(2, 5);
    let mut tried = Vec::new();
    for _ in 0..4 {
        let lease = pool.pick_bound("client-a", &tried);
        tried.push(lease.index());
        pool.finish(lease, Outcome::Neutral);
    }
    let mut first_two = tried[..2].to_vec();
    first_two.sort_unstable();
    assert_eq!((first_two, &tried[2..]), (vec![0, 1], &[3, 2][..]));
    // Nobody is left: back to the best, which is better than no answer.
    let lease = pool.pick_bound("client-a", &tried);
    assert_eq!(lease.index(), tried[0]);
    pool.finish(lease, Outcome::Neutral);
    // The walk has left nothing behind.
    assert_eq!(pool.home_of("client-a") as u32, tried[0]);
}

#[test]
fn a_bucket_drained_of_all_that_is_active_keeps_its_ejected_endpoints_out_of_tries() {
    let mut pool = Pool::of_buckets(&[(0, 0), (0, 1), (1, 1)]);
    pool.fail_times(1, 5);
    let lease = pool.pick_bound("client-a", &[2]);
    assert_eq!(lease.index(), 2);
    pool.finish(lease, Outcome::Neutral);
}

#[test]
fn with_everything_ejected_a_key_still_has_one_endpoint() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    let homes: Vec<usize> = clients().map(|client| pool.home_of(&client)).collect();
    for place in 0..3 {
        pool.fail_times(place, 5);
    }
    assert_eq!(
        homes,
        clients()
            .map(|client| pool.home_of(&client))
            .collect::<Vec<_>>()
    );
}

#[test]
fn drained_endpoints_are_never_bound() {
    let mut pool = Pool::of_weights(&[0, 1]);
    assert!(clients().all(|client| pool.home_of(&client) == 1));
    let mut pool = Pool::of_weights(&[0, 0]);
    let key = AffinityKey::of(b"client-a");
    let nothing = pool.workers[0].pick_bound(&pool.backend, key, &[], pool.now);
    assert_eq!(nothing.err(), Some(NoEndpoint));
}

#[test]
fn beyond_its_bounded_load_a_winner_is_passed_over_for_the_next_best() {
    let mut pool = Pool::of_weights(&[1, 1, 1]);
    let factor = BoundedLoad::new(1.5).expect("above 1");
    let home = pool.home_of("client-a");
    let lease = pool.pick_bound("client-a", &[home as u32]);
    let next = lease.index() as usize;
    pool.finish(lease, Outcome::Neutral);

    pool.backend.policy.bounded_load = Some(factor);
    let mut held = Vec::new();
    for place in [0, 1, 2, home] {
        held.push(pool.lease_of(place));
    }
    // Two pending of four on three endpoints: the limit is 2.0, and not exceeded.
    assert_eq!(pool.home_of("client-a"), home);
    held.push(pool.lease_of(home));
    assert_eq!(pool.home_of("client-a"), next);
    for lease in held {
        pool.finish(lease, Outcome::Neutral);
    }
    assert_eq!(pool.home_of("client-a"), home);
    assert_eq!(BoundedLoad::new(0.9), None);
    assert_eq!(BoundedLoad::new(f64::NAN), None);
}

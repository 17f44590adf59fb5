//! Requests whose first endpoint was no good go to another one: without any configuration only if nobody has seen them.

use super::setup::{Connects, Setup};
use super::world::World;
use super::*;
use crate::metrics::RetryReason;
use crate::route::{Retry, Rules, Split};
use crate::seam::ConnectFault;

const REFUSE: Connects = Connects::Fail(ConnectFault::Endpoint);

/// A world with this many endpoints, of which the first ones refuse.
fn refusing(refusing: usize, endpoints: usize, retry: Retry) -> World {
    let mut world = World::of(Setup {
        weights: vec![1; endpoints],
        rules: Rules::always(crate::route::Handling {
            retry,
            ..Split::one(0).into()
        }),
        ..Setup::default()
    });
    world.connects_of = (0..refusing).map(|place| (place, REFUSE)).collect();
    world
}

/// The request as it arrives with a further attempt.
fn again(request: &str, attempt: usize) -> String {
    forwarded(request).replacen(
        "\r\n\r\n",
        &format!("\r\nx-retry-attempt: {attempt}\r\n\r\n"),
        1,
    )
}

fn tried_again(world: &World) -> u64 {
    world.counters.retries.of(RetryReason::NoConnection).value()
}

#[test]
fn a_refused_connection_is_made_good_by_another_endpoint() {
    let mut world = refusing(1, 2, Retry::default());
    let client = world.client();
    let mut refused = 0;
    for _ in 0..100 {
        let before = tried_again(&world);
        world.send(client, get("/"));
        assert_eq!(world.busy_endpoint_place(), 1);
        let arrived = world.busy_endpoint_read();
        if tried_again(&world) > before {
            refused += 1;
            assert_eq!(arrived, again(&get("/"), 1));
        } else {
            assert_eq!(arrived, forwarded(&get("/")));
        }
        let endpoint = world.endpoint_of(1);
        world.send(endpoint, ok("x"));
        assert_eq!(world.read(client), ok("x"));
    }
    assert_eq!(refused, 5, "the fifth failure in a row ejects it");
    let leases = world.figures(0).leases;
    assert_eq!((leases.picked, leases.failed), (5, 5));
    assert_eq!(world.figures(1).leases.succeeded, 100);
}

#[test]
fn a_silent_endpoint_costs_the_connect_timeout_and_no_error() {
    let mut world = refusing(2, 2, Retry::default());
    world.connects_of = [(0, Connects::Hang), (1, Connects::Hang)].into();
    let client = world.client();
    world.send(client, get("/"));
    let first = world.place_of(world.endpoint());
    world.connects_of.remove(&(1 - first));
    world.advance(seconds(5));
    assert_eq!(world.busy_endpoint_place(), 1 - first);
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_request_is_tried_at_two_further_endpoints_and_no_more() {
    for (endpoints, tries) in [(1, 1), (2, 2), (3, 3), (9, 3)] {
        let mut world = refusing(endpoints, endpoints, Retry::default());
        let client = world.client();
        world.send(client, get("/"));
        assert_local_reply(&world.read(client), 502, "connect-failed");
        assert_eq!(world.upstreams.len(), tries, "of {endpoints}");
        let places: std::collections::BTreeSet<usize> = world
            .upstreams
            .iter()
            .map(|conn| world.place_of(*conn))
            .collect();
        assert_eq!(places.len(), tries, "each at another endpoint");
    }
}

#[test]
fn retries_can_be_switched_off() {
    let mut world = refusing(2, 2, Retry::OFF);
    let client = world.client();
    world.send(client, get("/"));
    assert_local_reply(&world.read(client), 502, "connect-failed");
    assert_eq!((world.upstreams.len(), tried_again(&world)), (1, 0));
}

#[test]
fn what_had_come_of_a_post_goes_along_and_the_rest_follows() {
    let mut world = refusing(2, 2, Retry::default());
    world.connects = Connects::Hang;
    world.connects_of.clear();
    let client = world.client();
    let post = with_body("POST", "0123456789");
    let (start, rest) = post.split_at(post.len() - 4);
    world.send(client, start);
    let first = world.place_of(world.endpoint());
    world.connects_of = [(first, REFUSE), (1 - first, Connects::Succeed)].into();
    world.settle();
    assert_eq!(world.busy_endpoint_read(), again(start, 1));
    world.send(client, rest);
    assert_eq!(world.busy_endpoint_read(), rest);
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_body_too_long_to_keep_is_not_sent_to_another_endpoint() {
    let mut world = refusing(2, 2, Retry::default());
    world.connects_of.clear();
    world.connects = Connects::Hang;
    let client = world.client();
    world.send(client, with_body("PUT", &"x".repeat(70_000)));
    world.connects = REFUSE;
    world.settle();
    assert_local_reply(&world.read(client), 502, "connect-failed");
    assert_eq!(world.upstreams.len(), 1);
}

#[test]
fn a_request_that_was_delivered_is_not_sent_to_another_endpoint() {
    let mut world = refusing(0, 2, Retry::default());
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.reset(endpoint);
    assert_local_reply(&world.read(client), 502, "upstream-closed");
    assert_eq!(world.upstreams.len(), 1);
}

#[test]
fn a_host_that_has_no_descriptor_left_does_not_try_on() {
    let mut world = refusing(0, 2, Retry::default());
    world.connects = Connects::Fail(ConnectFault::Host);
    let client = world.client();
    world.send(client, get("/"));
    assert_local_reply(&world.read(client), 503, "host-exhausted");
    assert_eq!(world.upstreams.len(), 1);
}

#[test]
fn a_request_without_host_is_not_sent_to_an_endpoint_it_does_not_name() {
    let mut world = refusing(2, 2, Retry::default());
    let client = world.client();
    world.send(client, "GET / HTTP/1.0\r\n\r\n");
    assert_local_reply(&world.read(client), 502, "connect-failed");
    assert_eq!(world.upstreams.len(), 1);
}

#[test]
fn a_client_that_leaves_between_two_attempts_takes_its_request_along() {
    let mut world = refusing(0, 3, Retry::default());
    world.connects = Connects::Hang;
    let client = world.client();
    world.send(client, get("/"));
    let first = world.place_of(world.endpoint());
    world.connects_of = [(first, REFUSE)].into();
    world.settle();
    assert_eq!(world.upstreams.len(), 2);
    world.finish(client);
    let leases = |place| world.figures(place).leases;
    let sum = |read: fn(crate::balance::LeaseCounts) -> u64| -> u64 {
        (0..3).map(|place| read(leases(place))).sum()
    };
    assert_eq!((sum(|it| it.failed), sum(|it| it.neutral)), (1, 1));
}

//! Time that rules give their requests: for all tries together, and for each.

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::metrics::RetryReason;
use crate::route::{Handling, Retry, RetryOn, Rules, Split, StatusCodes, Timeouts};

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n";

fn world(request: Option<u64>, attempt: Option<u64>) -> World {
    World::of(Setup {
        weights: vec![1, 1],
        rules: Rules::always(Handling {
            timeouts: Timeouts {
                request: request.map(millis),
                backend_request: attempt.map(millis),
            },
            retry: Retry {
                attempts: 5,
                on: RetryOn::Failure(StatusCodes::default()),
                backoff: Some(Duration::ZERO),
            },
            ..Split::one(0).into()
        }),
        ..Setup::default()
    })
}

fn failed(world: &World) -> u64 {
    (0..2).map(|place| world.figures(place).leases.failed).sum()
}

#[test]
fn a_request_without_an_answer_is_given_up_when_its_time_is_over() {
    let mut world = world(Some(300), None);
    let client = world.client();
    for _ in 0..2 {
        world.send(client, get("/"));
        world.advance(millis(299));
        assert_eq!(world.read(client), "");
        world.advance(millis(1));
        assert_local_reply(&world.read(client), 504, "request-deadline");
        assert!(world.is_open(client));
    }
    assert_eq!(
        (world.upstreams.len(), failed(&world)),
        (2, 2),
        "not tried again"
    );
}

#[test]
fn each_try_has_its_time_and_all_have_theirs() {
    let mut world = world(Some(350), Some(100));
    let client = world.client();
    world.send(client, get("/"));
    for tries in 1..=3 {
        assert_eq!(world.upstreams.len(), tries);
        world.advance(millis(100));
    }
    assert_eq!(world.upstreams.len(), 4);
    assert_eq!(world.read(client), "");
    world.advance(millis(50));
    assert_local_reply(&world.read(client), 504, "request-deadline");
    assert_eq!(world.counters.retries.of(RetryReason::Timeout).value(), 3);
    assert_eq!(failed(&world), 3, "the last had no time to fail in");
}

#[test]
fn connecting_is_part_of_a_try() {
    let mut world = world(None, Some(100));
    world.connects = Connects::Hang;
    let client = world.client();
    world.send(client, get("/"));
    world.advance(millis(100));
    assert_eq!(world.upstreams.len(), 2);
    world.connects = Connects::Succeed;
    world.settle();
    world.advance(millis(99));
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_response_that_takes_too_long_ends_short() {
    for (request, attempt) in [(Some(300), None), (None, Some(300))] {
        let mut world = world(request, attempt);
        let client = world.client();
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        world.send(endpoint, HEAD);
        for _ in 0..2 {
            world.advance(millis(149));
            world.send(endpoint, "x");
        }
        assert_eq!(world.read(client), format!("{HEAD}xx"));
        world.advance(millis(2));
        assert_eq!(world.ending(client), Ending::Abort);
        assert_eq!(failed(&world), 1);
    }
}

#[test]
fn a_client_that_keeps_its_body_back_is_told_so_and_nobody_else_blamed() {
    let mut world = world(Some(300), Some(200));
    let client = world.client();
    let put = with_body("PUT", "0123456789");
    world.send(client, &put[..put.len() - 1]);
    world.advance(millis(300));
    assert_local_reply(&world.read(client), 408, "request-timeout");
    assert_eq!(failed(&world), 0);
}

#[test]
fn a_request_that_is_done_leaves_no_deadline_behind() {
    let mut world = world(Some(300), Some(200));
    let client = world.client();
    world.send(client, get("/"));
    world.answer(&ok("x"));
    world.advance(millis(250));
    world.send(client, get("/"));
    world.advance(millis(150));
    world.answer(&ok("y"));
    assert_eq!(world.read(client), ok("x") + &ok("y"));
    assert_eq!(failed(&world), 0);
}

#[test]
fn the_time_goes_on_while_the_next_try_waits() {
    let mut world = World::of(Setup {
        rules: Rules::always(Handling {
            timeouts: Timeouts {
                request: Some(seconds(1)),
                backend_request: None,
            },
            retry: Retry {
                attempts: 5,
                on: RetryOn::Failure(StatusCodes::default()),
                backoff: Some(seconds(10)),
            },
            ..Split::one(0).into()
        }),
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    world.reset(world.endpoint());
    world.advance(seconds(1));
    assert_local_reply(&world.read(client), 504, "request-deadline");
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

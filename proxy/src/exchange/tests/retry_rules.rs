//! What rules ask for: further attempts after an endpoint has had the request, within a budget, after a wait.

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::balance::{Eviction, HealthPolicy, How};
use crate::http::h1::HeadLimits;
use crate::metrics::RetryReason;
use crate::route::{Handling, Retry, RetryOn, Rules, Split, StatusCodes};
use crate::seam::{ConnId, ConnectFault};

const UNAVAILABLE: &str = "HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n";

/// Two further attempts, also after these statuses, without a wait.
fn on(statuses: &[u16]) -> Retry {
    let mut codes = StatusCodes::default();
    for status in statuses {
        assert!(codes.insert(*status));
    }
    Retry {
        attempts: 2,
        on: RetryOn::Failure(codes),
        backoff: Some(Duration::ZERO),
    }
}

fn setup(endpoints: usize, retry: Retry) -> Setup {
    Setup {
        weights: vec![1; endpoints],
        rules: Rules::always(Handling {
            retry,
            ..Split::one(0).into()
        }),
        ..Setup::default()
    }
}

fn world(endpoints: usize, retry: Retry) -> World {
    World::of(setup(endpoints, retry))
}

fn retries(world: &World, reason: RetryReason) -> u64 {
    world.counters.retries.of(reason).value()
}

/// Where the request is now, and its endpoint.
fn at(world: &World) -> (ConnId, usize) {
    let conn = world.endpoint();
    (conn, world.place_of(conn))
}

#[test]
fn a_listed_status_is_not_passed_on_while_another_endpoint_may_do_better() {
    let mut world = world(2, on(&[503]));
    let client = world.client();
    world.send(client, get("/"));
    let (_, first) = at(&world);
    world.answer(UNAVAILABLE);
    assert_eq!(world.read(client), "", "the client notices nothing");
    let (_, second) = at(&world);
    assert_ne!(second, first);
    assert!(
        world
            .busy_endpoint_read()
            .contains("\r\nx-retry-attempt: 1\r\n")
    );
    let (conn, _) = at(&world);
    world.send(conn, ok("x"));
    assert_eq!(world.read(client), ok("x"));
    assert_eq!(world.figures(first).leases.failed, 1, "recorded as it was");
    assert_eq!(retries(&world, RetryReason::Status), 1);
}

#[test]
fn a_status_that_is_not_listed_is_passed_on() {
    let mut world = world(2, on(&[502]));
    let client = world.client();
    world.send(client, get("/"));
    world.answer(UNAVAILABLE);
    assert_eq!(world.read(client), UNAVAILABLE);
}

#[test]
fn the_last_attempt_is_passed_on_as_it_came() {
    let mut world = world(3, on(&[503]));
    let client = world.client();
    world.send(client, get("/"));
    for _ in 0..3 {
        assert_eq!(world.read(client), "");
        world.answer(UNAVAILABLE);
    }
    assert_eq!(world.read(client), UNAVAILABLE);
    assert_eq!(world.upstreams.len(), 3, "one for each endpoint");
}

#[test]
fn where_there_is_no_other_endpoint_the_same_is_tried_again() {
    let mut world = world(1, on(&[503]));
    let client = world.client();
    world.send(client, get("/"));
    world.answer(UNAVAILABLE);
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
    assert_eq!(world.upstreams.len(), 1, "on the same connection");
    assert_eq!(world.outcomes(), [1, 1, 0]);
}

#[test]
fn a_connection_with_a_body_nobody_wants_is_given_up() {
    let mut world = world(1, on(&[503]));
    let client = world.client();
    world.send(client, get("/"));
    let (first, _) = at(&world);
    world.answer("HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\nsorry");
    assert_eq!(world.ending(first), Ending::Abort);
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn an_endpoint_that_breaks_off_before_its_head_is_made_good() {
    for end in [World::finish, World::reset] {
        let mut world = world(2, on(&[]));
        let client = world.client();
        world.send(client, with_body("PUT", "0123456789"));
        let (first, _) = at(&world);
        world.read(first);
        world.send(first, "HTTP/1.1 200 O");
        end(&mut world, first);
        let again = world.busy_endpoint_read();
        assert!(
            again.ends_with("x-retry-attempt: 1\r\n\r\n0123456789"),
            "{again}"
        );
        let (second, _) = at(&world);
        world.send(second, ok("x"));
        assert_eq!(world.read(client), ok("x"));
        assert_eq!(retries(&world, RetryReason::NoResponse), 1);
    }
}

#[test]
fn an_endpoint_that_does_not_answer_in_time_is_made_good() {
    let mut world = world(2, on(&[]));
    let client = world.client();
    world.send(client, get("/"));
    let (first, _) = at(&world);
    world.read(first);
    world.advance(seconds(60));
    assert_ne!(world.endpoint(), first);
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
    assert_eq!(retries(&world, RetryReason::Timeout), 1);
}

#[test]
fn nothing_that_may_have_been_done_is_done_twice() {
    for method in ["POST", "PATCH", "ORDER"] {
        let mut world = world(2, on(&[]));
        let client = world.client();
        world.send(client, with_body(method, "order"));
        let (first, _) = at(&world);
        world.reset(first);
        assert_local_reply(&world.read(client), 502, "upstream-closed");
        assert_eq!(world.endpoint(), first, "{method}");
    }
}

#[test]
fn a_listed_status_says_that_nothing_was_done() {
    let mut world = world(2, on(&[503]));
    let client = world.client();
    world.send(client, with_body("POST", "order"));
    world.answer(UNAVAILABLE);
    assert!(world.busy_endpoint_read().ends_with("\r\n\r\norder"));
    let (second, _) = at(&world);
    world.send(second, ok("x"));
    assert_eq!(world.read(client), ok("x"));
    // A break says nothing of the kind, whatever is listed.
    world.send(client, with_body("POST", "order"));
    let busy = world.busy_endpoint_place();
    let conn = world.endpoint_of(busy);
    world.read(conn);
    world.send(conn, "HTTP/1.1 2");
    world.reset(conn);
    assert_local_reply(&world.read(client), 502, "upstream-closed");
}

#[test]
fn a_response_whose_head_was_passed_on_is_never_taken_back() {
    let mut world = world(2, on(&[503]));
    let client = world.client();
    world.send(client, get("/"));
    let (first, _) = at(&world);
    world.send(first, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n01234");
    world.reset(first);
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.endpoint(), first);
}

#[test]
fn a_request_that_is_too_large_to_keep_is_sent_once() {
    let mut world = world(2, on(&[503]));
    let client = world.client();
    world.send(client, with_body("PUT", &"x".repeat(65 * 1024)));
    world.answer(UNAVAILABLE);
    assert_eq!(world.read(client), UNAVAILABLE);
    let fits = with_body("PUT", &"x".repeat(HeadLimits::default().head as usize));
    world.send(client, fits);
    world.answer(UNAVAILABLE);
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn the_next_attempt_waits_and_longer_every_time() {
    let backoff = Some(millis(100));
    let mut world = world(
        4,
        Retry {
            attempts: 3,
            backoff,
            ..on(&[503])
        },
    );
    let client = world.client();
    world.send(client, get("/"));
    for (attempt, least) in [(1, 100), (2, 200), (3, 400)] {
        world.answer(UNAVAILABLE);
        world.advance(millis(least - 1));
        assert_eq!(world.upstreams.len(), attempt, "{least} ms have not passed");
        world.advance(millis(least / 2 + 2));
        assert_eq!(world.upstreams.len(), attempt + 1);
    }
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_client_that_leaves_during_the_wait_takes_its_request_along() {
    let backoff = Some(seconds(5));
    let mut world = world(
        2,
        Retry {
            backoff,
            ..on(&[503])
        },
    );
    let client = world.client();
    world.send(client, get("/"));
    world.answer(UNAVAILABLE);
    world.finish(client);
    world.advance(seconds(20));
    assert_eq!(world.upstreams.len(), 1);
}

#[test]
fn a_spent_budget_lets_failures_through() {
    let mut world = world(2, on(&[503]));
    let client = world.client();
    let mut sent = 0;
    for _ in 0..1000 {
        world.send(client, get("/"));
        while world.read(client).is_empty() {
            world.answer(UNAVAILABLE);
            sent += 1;
        }
    }
    // What was saved up, and a fifth of the requests that came when there was room to save.
    assert_eq!(sent, 1000 + 50 + 199);
    assert_eq!(retries(&world, RetryReason::Status), 249);
    let over = world.counters.retries_over_budget.value();
    assert!(over >= 750, "{over}");
}

#[test]
fn connections_that_fail_do_not_spend_the_budget() {
    let mut setup = setup(
        4,
        Retry {
            attempts: 3,
            ..on(&[503])
        },
    );
    setup.policy.balance.health = HealthPolicy { eviction: None };
    let mut world = World::of(setup);
    let refuse = Connects::Fail(ConnectFault::Endpoint);
    world.connects_of = (0..3).map(|place| (place, refuse)).collect();
    let client = world.client();
    for _ in 0..300 {
        world.send(client, get("/"));
        world.answer(&ok("x"));
        assert_eq!(world.read(client), ok("x"));
    }
    // More than was saved and paid in.
    assert!(retries(&world, RetryReason::NoConnection) > 50 + 60);
    assert_eq!(world.counters.retries_over_budget.value(), 0);
}

#[test]
fn an_ejection_lasts_as_long_as_the_route_waits_where_nothing_else_is_said() {
    let mut setup = setup(
        1,
        Retry {
            backoff: Some(seconds(7)),
            attempts: 0,
            ..on(&[])
        },
    );
    setup.policy.balance.health = HealthPolicy {
        eviction: Some(Eviction::default()),
    };
    let mut world = World::of(setup);
    let client = world.client();
    world.send(client, get("/"));
    world.answer(UNAVAILABLE);
    assert_eq!(world.figures(0).ejected_for, Some(seconds(7)));
}

#[test]
fn a_failed_attempt_is_recorded_before_the_next_pick() {
    let mut world = world(1, on(&[503]));
    let (namespace, name) = ("default", "default");
    world.tables.watch.begin(namespace, name, 2);
    let client = world.client();
    world.send(client, get("/"));
    world.answer(UNAVAILABLE);
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
    let (picks, _) = world.tables.watch.end();
    let seen = picks.iter().map(|pick| match &pick.how {
        How::Draws { draws, .. } => (draws[0].reading.health, draws[0].reading.pending),
        How::Affinity { .. } => panic!("nothing is bound: {pick:?}"),
    });
    assert_eq!(seen.collect::<Vec<_>>(), [(1.0, 0), (0.7, 0)]);
}

#[test]
fn a_split_is_drawn_once_and_a_retry_stays_with_its_backend() {
    let setup = setup(4, on(&[503]));
    let mut plan = setup.plan();
    let mut second = plan.backends[0].clone();
    second.name = "second".into();
    second.targets = plan.backends[0].targets.split_off(2);
    plan.backends.push(second);
    plan.listeners[0].rules = Rules::always(Handling {
        retry: on(&[503]),
        ..Split::new([(0, 1), (1, 1)]).into()
    });
    let mut world = World::of(setup);
    world.replace(plan);
    let client = world.client();
    let mut asked = [0; 2];
    for _ in 0..20 {
        world.send(client, get("/"));
        let first = world.busy_endpoint_place();
        world.answer(UNAVAILABLE);
        assert_eq!(world.busy_endpoint_place(), first ^ 1, "the other of two");
        world.answer(&ok("x"));
        assert_eq!(world.read(client), ok("x"));
        asked[first / 2] += 1;
    }
    assert!(asked.iter().all(|count| *count > 0), "{asked:?}");
}

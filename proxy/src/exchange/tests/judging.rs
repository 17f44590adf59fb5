//! What responses say of their endpoints: by their status, by a condition, and how long to leave it alone.

use super::setup::Setup;
use super::world::World;
use super::*;
use crate::balance::{Eviction, HealthPolicy, LatencySpan, Policy};
use crate::condition::{Condition, Undecided};
use crate::snapshot::BackendPolicy;

/// A world whose only endpoint is unhealthy by this, and ejected when it is.
fn under(condition: &str, eviction: Eviction) -> World {
    let health = HealthPolicy {
        eviction: Some(eviction),
    };
    World::of(Setup {
        policy: BackendPolicy {
            balance: Policy {
                health,
                ..Policy::default()
            },
            condition: Some(Condition::compile(condition).expect(condition)),
            ..BackendPolicy::default()
        },
        ..Setup::default()
    })
}

fn response(status: u16, fields: &str) -> String {
    format!("HTTP/1.1 {status} Any\r\n{fields}Content-Length: 0\r\n\r\n")
}

fn ask(world: &mut World, request: &str, response: &str) {
    let client = world.client();
    world.send(client, request);
    world.answer(response);
    assert_eq!(world.read(client), response, "passed on as it is");
}

#[test]
fn a_condition_decides_instead_of_the_status() {
    let mut world = under("response.code == 404", Eviction::default());
    ask(&mut world, &get("/"), &response(503, ""));
    assert_eq!(world.outcomes(), [1, 0, 0]);
    ask(&mut world, &get("/"), &response(404, ""));
    assert_eq!(world.outcomes(), [1, 1, 0]);
    assert_eq!(world.figures(0).ejected_for, Some(seconds(3)));
}

#[test]
fn a_condition_sees_the_request_as_it_came() {
    let condition = r#"response.code >= 500 && request.path.startsWith("/shop") && request.headers["te"] == "trailers" && string(source.address) == "192.0.2.7""#;
    let mut world = under(condition, Eviction::default());
    let asked = |path| format!("GET {path} HTTP/1.1\r\nHost: a\r\nTE: trailers\r\n\r\n");
    ask(&mut world, &asked("/other"), &response(500, ""));
    assert_eq!(world.outcomes(), [1, 0, 0]);
    ask(&mut world, &asked("/shop/cart"), &response(500, ""));
    assert_eq!(world.outcomes(), [1, 1, 0]);
}

#[test]
fn a_condition_without_a_value_leaves_it_to_the_status_and_is_counted() {
    for (condition, why) in [
        (
            r#"response.headers["x-health"] == "bad""#,
            Undecided::EvaluationError,
        ),
        ("dyn(response.code)", Undecided::WrongType),
    ] {
        let mut world = under(condition, Eviction::default());
        ask(&mut world, &get("/"), &response(200, ""));
        ask(&mut world, &get("/"), &response(500, ""));
        assert_eq!(world.outcomes(), [1, 1, 0], "{condition}");
        assert_eq!(world.counters.undecided.of(why).value(), 2);
    }
}

#[test]
fn a_condition_says_nothing_of_an_endpoint_that_does_not_answer() {
    let mut world = under("false", Eviction::default());
    let client = world.client();
    world.send(client, get("/"));
    world.reset(world.endpoint());
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn a_rate_limited_endpoint_is_left_alone_for_as_long_as_it_asks() {
    let fixed = Eviction {
        duration: Some(seconds(10)),
        ..Eviction::default()
    };
    let preferring = Eviction {
        prefers_rate_limit: true,
        ..fixed
    };
    let limited = "response.code == 429 || response.code >= 500";
    for (eviction, status, field, expected) in [
        (Eviction::default(), 429, "Retry-After: 45\r\n", 45),
        (
            Eviction::default(),
            429,
            "X-RateLimit-Reset-Tokens: 1m30s\r\n",
            90,
        ),
        (Eviction::default(), 429, "", 3),
        (Eviction::default(), 503, "Retry-After: 45\r\n", 3),
        (fixed, 429, "Retry-After: 45\r\n", 10),
        (preferring, 429, "Retry-After: 45\r\n", 45),
        (preferring, 429, "", 10),
    ] {
        let mut world = under(limited, eviction);
        ask(&mut world, &get("/"), &response(status, field));
        let ejected = world.figures(0).ejected_for;
        assert_eq!(ejected, Some(seconds(expected)), "{status} {field}");
    }
}

#[test]
fn a_date_to_wait_for_is_compared_with_the_systems_clock() {
    let mut setup = Setup::default();
    setup.policy.balance.health = HealthPolicy {
        eviction: Some(Eviction::default()),
    };
    setup.policy.condition = Condition::compile("response.code == 429").ok();
    // Worlds begin a second after moment zero.
    setup.settings.unix_at_zero = seconds(784_111_776);
    let mut world = World::of(setup);
    let date = "Retry-After: Sun, 06 Nov 1994 08:50:37 GMT\r\n";
    ask(&mut world, &get("/"), &response(429, date));
    assert_eq!(world.figures(0).ejected_for, Some(seconds(60)));
}

#[test]
fn a_rate_limit_alone_ejects_nobody() {
    let mut world = World::of(Setup {
        policy: BackendPolicy {
            balance: Policy {
                health: HealthPolicy {
                    eviction: Some(Eviction::default()),
                },
                ..Policy::default()
            },
            ..BackendPolicy::default()
        },
        ..Setup::default()
    });
    ask(&mut world, &get("/"), &response(429, "Retry-After: 45\r\n"));
    assert_eq!(world.outcomes(), [1, 0, 0]);
    assert_eq!(world.figures(0).ejected_for, None);
}

#[test]
fn the_whole_of_an_attempt_counts_where_that_is_asked_for() {
    for (span, expected) in [(LatencySpan::FirstByte, 100), (LatencySpan::Full, 350)] {
        let mut setup = Setup::default();
        setup.policy.latency = span;
        let mut world = World::of(setup);
        let client = world.client();
        let put = with_body("PUT", "0123456789");
        world.send(client, &put[..put.len() - 5]);
        world.advance(millis(50));
        world.send(client, &put[put.len() - 5..]);
        world.advance(millis(100));
        let endpoint = world.endpoint();
        world.send(endpoint, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n");
        world.advance(millis(200));
        world.send(endpoint, "body");
        assert_eq!(world.outcomes(), [1, 0, 0]);
        let latency = world.figures(0).latency_seconds;
        let latency = latency.expect("a sample") * 1000.0;
        assert!(
            (latency - f64::from(expected)).abs() < 1e-6,
            "{span:?}: {latency}"
        );
    }
}

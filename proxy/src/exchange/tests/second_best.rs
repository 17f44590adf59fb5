//! Where the proxy does the second best thing, a counter says so.

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::affinity::Affinity;
use crate::balance::{BoundedLoad, Bucket, Detour, Eviction, HealthPolicy, Policy};
use crate::condition::Condition;
use crate::metrics::{RateLimitHint, RetryReason, Unrepeatable};
use crate::route::{Handling, Retry, RetryOn, Rules, Split, StatusCodes};
use crate::seam::ConnId;
use crate::snapshot::BackendPolicy;

/// Every failure ejects.
const AT_ONCE: HealthPolicy = HealthPolicy {
    eviction: Some(Eviction {
        duration: None,
        restore_health: None,
        consecutive_failures: None,
        health_threshold: None,
        prefers_rate_limit: false,
    }),
};

/// A world of so many endpoints whose rule asks for another attempt after a 503 and after a connection that broke.
fn retrying(endpoints: usize) -> World {
    let mut codes = StatusCodes::default();
    assert!(codes.insert(503));
    let retry = Retry {
        attempts: 1,
        on: RetryOn::Failure(codes),
        backoff: Some(Duration::ZERO),
    };
    World::of(Setup {
        weights: vec![1; endpoints],
        rules: Rules::always(Handling {
            retry,
            ..Split::one(0).into()
        }),
        ..Setup::default()
    })
}

/// A world of two endpoints that binds requests by their path.
fn bound(policy: Policy) -> World {
    World::of(Setup {
        weights: vec![1; 2],
        policy: BackendPolicy {
            affinity: Some(Affinity::compile("request.path").expect("an expression")),
            balance: policy,
            ..BackendPolicy::default()
        },
        ..Setup::default()
    })
}

#[test]
fn a_request_that_cannot_be_repeated_says_why() {
    let large = with_body("PUT", &"x".repeat(64 * 1024 + 1));
    let nameless = "GET / HTTP/1.0\r\n\r\n".to_owned();
    for (request, cause) in [
        (large, Unrepeatable::TooLarge),
        (with_body("POST", "x"), Unrepeatable::NotIdempotent),
        (nameless, Unrepeatable::NamesEndpoint),
    ] {
        let mut world = retrying(2);
        let client = world.client();
        world.send(client, request);
        world.reset(world.endpoint());
        assert_local_reply(&world.read(client), 502, "upstream-closed");
        assert_eq!(world.upstreams.len(), 1);
        assert_eq!(
            world.counters.unrepeatable.of(cause).value(),
            1,
            "{cause:?}"
        );
        assert_eq!(
            world.counters.retries.of(RetryReason::NoResponse).value(),
            0
        );
    }
}

#[test]
fn a_request_nobody_wants_to_repeat_is_no_request_that_cannot_be() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, with_body("POST", "x"));
    world.reset(world.endpoint());
    assert_local_reply(&world.read(client), 502, "upstream-closed");
    let not_idempotent = world.counters.unrepeatable.of(Unrepeatable::NotIdempotent);
    assert_eq!(not_idempotent.value(), 0);
}

#[test]
fn another_attempt_at_the_same_endpoint_is_counted() {
    for (endpoints, at_same) in [(1, 1), (2, 0)] {
        let mut world = retrying(endpoints);
        let client = world.client();
        world.send(client, get("/"));
        world.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        world.answer(&ok("x"));
        assert_eq!(world.read(client), ok("x"));
        assert_eq!(world.counters.retries_at_same.value(), at_same);
    }
}

#[test]
fn a_rate_limit_says_whether_its_hint_was_of_use() {
    for (field, result) in [
        ("Retry-After: 45\r\n", RateLimitHint::Read),
        ("Retry-After: soon\r\n", RateLimitHint::Unusable),
        ("", RateLimitHint::Missing),
    ] {
        let mut setup = Setup::default();
        setup.policy.condition = Condition::compile("response.code == 429").ok();
        let mut world = World::of(setup);
        let client = world.client();
        world.send(client, get("/"));
        world.answer(&format!(
            "HTTP/1.1 429 Slow\r\n{field}Content-Length: 0\r\n\r\n"
        ));
        assert_eq!(
            world.counters.rate_limit_hints.of(result).value(),
            1,
            "{field}"
        );
    }
}

#[test]
fn an_outcome_that_comes_when_its_endpoint_has_gone_teaches_nobody_and_is_counted() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    // The row is another's now.
    world.tables.state[0]
        .generation
        .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    world.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(world.figures(0).health, 1.0);
    assert_eq!(world.counters.late_outcomes.value(), 1);
}

#[test]
fn a_bound_request_that_gets_an_ejected_endpoint_is_counted() {
    let mut world = bound(Policy {
        health: AT_ONCE,
        ..Policy::default()
    });
    let client = world.client();
    let ejected = |world: &World| world.counters.detours.of(Detour::Ejected).value();
    for _ in 0..2 {
        world.send(client, get("/one"));
        world.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(ejected(&world), 0, "one endpoint after the other");
    }
    world.send(client, get("/one"));
    assert_eq!(ejected(&world), 1);
}

#[test]
fn a_bound_request_that_passes_an_overloaded_endpoint_is_counted() {
    let mut world = bound(Policy {
        bounded_load: BoundedLoad::new(1.0),
        ..Policy::default()
    });
    let mut places = Vec::new();
    for _ in 0..2 {
        let client = world.client();
        world.send(client, get("/one"));
        places.push(world.busy_endpoint_place());
        world.busy_endpoint_read();
    }
    assert_ne!(places[0], places[1]);
    assert_eq!(world.counters.detours.of(Detour::Overloaded).value(), 1);
}

#[test]
fn a_pick_from_a_later_bucket_is_counted() {
    let setup = Setup {
        weights: vec![1; 2],
        policy: BackendPolicy {
            balance: Policy {
                health: AT_ONCE,
                ..Policy::default()
            },
            ..BackendPolicy::default()
        },
        ..Setup::default()
    };
    let mut plan = setup.plan();
    plan.backends[0].targets[1].bucket = Bucket(1);
    let mut world = World::of(setup);
    world.replace(plan);
    let client = world.client();
    world.send(client, get("/"));
    world.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(world.counters.failovers.value(), 0);
    world.send(client, get("/"));
    assert_eq!(world.busy_endpoint_place(), 1);
    assert_eq!(world.counters.failovers.value(), 1);
}

#[test]
fn a_connection_too_many_to_be_kept_is_closed_and_counted() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let another = |index| ConnId {
        index,
        generation: 0,
    };
    let kept = (1000..2000).take_while(|index| world.proxy.pool.put(0, another(*index)));
    assert_eq!(kept.count(), 512);
    world.answer(&ok("x"));
    assert_eq!(world.ending(world.endpoint()), Ending::Close);
    assert_eq!(world.counters.upstream_surplus.value(), 1);
    world.proxy.pool.clear();
}

//! How long the first byte took: by the kernel if it has measured this very exchange, else by the worker's clock, and
//! only if the exchange was a success.

use super::setup::{Connects, Setup};
use super::world::World;
use super::*;
use crate::balance::LatencySource;
use crate::seam::ConnId;

fn measured() -> World {
    World::of(Setup {
        is_measured: true,
        ..Setup::default()
    })
}

/// A request on its way to the endpoint.
fn asked(world: &mut World) -> ConnId {
    let client = world.client();
    world.send(client, get("/"));
    world.endpoint()
}

fn assert_latency(world: &World, expected: Duration, source: LatencySource) {
    let figures = world.figures(0);
    let latency = figures.latency_seconds.expect("a latency");
    assert!(
        (latency - expected.as_secs_f64()).abs() < 1e-9,
        "{latency} s, expected {expected:?}"
    );
    assert_eq!(figures.latency_source, Some(source));
}

#[test]
fn without_the_kernel_the_workers_clock_counts() {
    let mut world = World::new();
    let endpoint = asked(&mut world);
    world.advance(millis(20));
    world.send(endpoint, ok("x"));
    assert_latency(&world, millis(20), LatencySource::Worker);
    assert_eq!(world.counters.worker_samples.value(), 1);
    assert_eq!(world.figures(0).self_delay, None);
}

#[test]
fn the_kernels_sample_of_this_exchange_counts_and_the_rest_is_our_own_delay() {
    let mut world = measured();
    let endpoint = asked(&mut world);
    world.kernel_measures(endpoint, millis(5));
    world.advance(millis(20));
    world.send(endpoint, ok("x"));
    assert_latency(&world, millis(5), LatencySource::Kernel);
    assert_eq!(world.figures(0).self_delay, Some(millis(15)));
    assert_eq!(world.counters.kernel_samples.value(), 1);
    assert_eq!(world.counters.worker_samples.value(), 0);
}

#[test]
fn the_sample_of_an_earlier_exchange_does_not_count() {
    let mut world = measured();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.kernel_measures(endpoint, millis(500));
    world.send(endpoint, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    world.send(client, get("/"));
    assert_eq!(world.endpoint(), endpoint, "the same connection");
    world.advance(millis(20));
    world.send(endpoint, ok("x"));
    assert_latency(&world, millis(20), LatencySource::Worker);
}

#[test]
fn each_exchange_on_a_connection_has_its_own_sample() {
    let mut world = measured();
    let client = world.client();
    for (count, length) in [(1, 100), (2, 100), (3, 100)] {
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        world.kernel_measures(endpoint, millis(length));
        world.send(endpoint, ok("x"));
        assert_eq!(world.counters.kernel_samples.value(), count);
    }
    assert_latency(&world, millis(100), LatencySource::Kernel);
}

#[test]
fn failures_say_nothing_about_latency() {
    let mut world = measured();
    let endpoint = asked(&mut world);
    world.kernel_measures(endpoint, millis(1));
    world.send(endpoint, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(world.figures(0).latency_seconds, None);

    let endpoint = asked(&mut world);
    world.advance(millis(1));
    world.send(endpoint, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    world.finish(endpoint);
    assert_eq!(world.figures(0).latency_seconds, None);
}

#[test]
fn a_response_that_trickles_is_timed_to_its_head_alone() {
    let mut world = World::new();
    let endpoint = asked(&mut world);
    world.advance(millis(20));
    world.send(endpoint, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n");
    for _ in 0..3 {
        world.advance(seconds(10));
        world.send(endpoint, "x");
    }
    assert_latency(&world, millis(20), LatencySource::Worker);
}

#[test]
fn neither_the_upload_nor_the_connect_is_the_endpoints_time() {
    let mut world = World::of(Setup {
        connects: Connects::Hang,
        ..Setup::default()
    });
    let client = world.client();
    let post = with_body("POST", "0123456789");
    let (start, rest) = post.split_at(post.len() - 4);
    world.send(client, start);
    world.advance(seconds(3));
    world.connects = Connects::Succeed;
    world.settle();
    world.advance(seconds(8));
    world.send(client, rest);
    world.advance(millis(20));
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    assert_latency(&world, millis(20), LatencySource::Worker);
}

#[test]
fn the_request_sent_again_is_timed_from_its_second_sending() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let idle = world.endpoint();
    world.send(idle, "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n");
    world.send(client, get("/"));
    world.advance(seconds(2));
    world.finish(idle);
    let fresh = world.endpoint();
    world.advance(millis(20));
    world.send(fresh, ok("x"));
    assert_latency(&world, millis(20), LatencySource::Worker);
}

#[test]
fn a_response_that_begins_before_its_request_has_ended_is_the_last_the_kernel_measures() {
    let mut world = World::of(Setup {
        is_measured: true,
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    assert!(!world.is_unmeasured(endpoint));
    world.send(
        client,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\na",
    );
    world.send(endpoint, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na");
    assert!(world.is_unmeasured(endpoint));
    world.send(client, "b");
    world.send(endpoint, "b");
    assert_eq!(world.outcomes(), [2, 0, 0]);
}

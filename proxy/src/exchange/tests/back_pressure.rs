//! A reader that is too slow stops the writer: what is queued stays bounded, and nothing is lost. (The bound itself is
//! checked by the books after every event.)

use super::setup::{Connects, Setup};
use super::world::World;
use super::*;
use crate::seam::ConnId;

const READ: usize = 64 * 1024;
const BODY: usize = 4 << 20;

/// Bytes no two of which could be swapped unnoticed.
fn pattern(range: std::ops::Range<usize>) -> Vec<u8> {
    range
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// Pumps a body of [`BODY`] bytes from one end to a reader that takes `step` bytes only when everything has come to a
/// halt. Gives back what the reader got.
fn pump(world: &mut World, from: ConnId, to: ConnId, step: usize) -> Vec<u8> {
    let (mut sent, mut pauses, mut got) = (0, 0, Vec::new());
    world.stall(to);
    while got.len() < BODY {
        while sent < BODY && !world.is_paused(from) {
            let end = BODY.min(sent + READ);
            world.send(from, pattern(sent..end));
            sent = end;
        }
        pauses += usize::from(world.is_paused(from));
        let count = step.min(world.queued(to));
        assert!(
            count > 0,
            "{} of {sent} bytes, and nothing moves",
            got.len()
        );
        world.let_through(to, count);
        got.extend(world.read_bytes(to));
    }
    assert!(pauses > 0, "the writer was never stopped");
    got
}

#[test]
fn a_response_waits_for_a_slow_client() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(
        endpoint,
        format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY}\r\n\r\n"),
    );
    world.read(client);
    let got = pump(&mut world, endpoint, client, 10_000);
    assert!(got == pattern(0..BODY), "the body is the same");
    assert!(world.is_open(client) && world.is_open(endpoint));
    assert!(
        !world.is_paused(endpoint),
        "it is ready for the next request"
    );
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn an_upload_waits_for_a_slow_endpoint() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n"),
    );
    let endpoint = world.endpoint();
    world.read(endpoint);
    let got = pump(&mut world, client, endpoint, 10_000);
    assert!(got == pattern(0..BODY), "the body is the same");
    world.send(endpoint, ok("x"));
    assert_eq!(world.read(client), ok("x"));
    assert!(world.is_open(client) && !world.is_paused(client));
}

#[test]
fn an_upload_waits_for_a_connection_that_is_being_made() {
    let mut world = World::of(Setup {
        connects: Connects::Hang,
        ..Setup::default()
    });
    let client = world.client();
    world.send(
        client,
        format!("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: {BODY}\r\n\r\n"),
    );
    for part in 0..BODY / READ {
        if !world.is_paused(client) {
            world.send(client, pattern(part * READ..(part + 1) * READ));
        }
    }
    let endpoint = world.endpoint();
    assert!(world.is_paused(client));
    assert!(world.queued(endpoint) < 512 * 1024);
    world.connects = Connects::Succeed;
    world.settle();
    assert!(!world.is_paused(client));
}

#[test]
fn a_client_is_read_again_only_when_little_is_queued() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.stall(client);
    world.send(
        endpoint,
        "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
    );
    while !world.is_paused(endpoint) {
        world.send(endpoint, [b'x'; 1000]);
    }
    let queued = world.queued(client);
    assert!((256 * 1024..258 * 1024).contains(&queued), "{queued}");
    world.let_through(client, queued - 64 * 1024 - 1);
    assert!(world.is_paused(endpoint));
    world.let_through(client, 1);
    assert!(!world.is_paused(endpoint));
}

#[test]
fn an_endpoint_stopped_at_its_last_byte_serves_the_next_request() {
    let mut world = World::new();
    let (slow, other) = (world.client(), world.client());
    world.send(slow, get("/"));
    let endpoint = world.endpoint();
    world.stall(slow);
    world.send(endpoint, ok(&"x".repeat(300_000)));
    assert!(world.is_paused(slow) && !world.is_paused(endpoint));
    world.read(endpoint);
    world.send(other, get("/"));
    assert_eq!(world.endpoint(), endpoint);
    world.answer(&ok("x"));
    assert_eq!(world.read(other), ok("x"));
}

#[test]
fn the_pause_of_an_upload_does_not_outlive_an_early_response() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n",
    );
    let endpoint = world.endpoint();
    world.stall(endpoint);
    while !world.is_paused(client) {
        world.send(client, [b'x'; 10_000]);
    }
    world.send(endpoint, ok("enough"));
    assert_eq!(world.read(client), ok("enough"));
    assert!(
        !world.is_paused(client),
        "what it still sends is thrown away"
    );
}

#[test]
fn a_client_that_pipelines_and_does_not_read_is_not_served_without_end() {
    let mut world = World::new();
    let client = world.client();
    world.stall(client);
    let body = "x".repeat(50_000);
    let mut asked = 0;
    while !world.is_paused(client) && asked < 1000 {
        world.send(client, get("/"));
        asked += 1;
        if world.queued(client) < asked * 50_000 {
            let endpoint = world.endpoint();
            world.send(endpoint, ok(&body));
        }
    }
    assert!(asked < 10, "{asked} answers are queued");
    let mut answers = 0;
    for _ in 0..1000 {
        let queued = world.queued(client);
        if queued > 0 {
            world.let_through(client, queued);
        }
        answers += world.read(client).matches("HTTP/1.1 200 ").count();
        if world.queued(client) == 0 && answers < asked {
            let endpoint = world.endpoint();
            world.send(endpoint, ok(&body));
        }
    }
    assert_eq!(answers, asked, "none is lost");
    assert!(!world.is_paused(client));
}

#[test]
fn requests_that_came_in_one_read_do_not_queue_answers_without_end() {
    let mut world = World::of(Setup {
        weights: vec![0],
        ..Setup::default()
    });
    let client = world.client();
    world.stall(client);
    let mut asked = 0;
    while !world.is_paused(client) && asked < 100_000 {
        world.send(client, get("/").repeat(2000));
        asked += 2000;
    }
    assert!(asked < 10_000, "{asked} answers are queued");
    let mut answers = String::new();
    while world.queued(client) > 0 {
        let queued = world.queued(client);
        world.let_through(client, queued.min(10_000));
        answers.push_str(&world.read(client));
    }
    let answered = answers.matches("HTTP/1.1 503 ").count();
    assert_eq!(answered, asked, "none is lost");
}

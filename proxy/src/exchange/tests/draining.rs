//! The last minutes of a worker: nothing new, what runs is finished, and then nothing is left.

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::seam::Core;

#[test]
fn a_worker_without_connections_is_drained_at_once() {
    let mut world = World::new();
    world.drain();
    assert!(world.proxy.is_drained());
    assert_eq!(world.try_client(), None);
}

#[test]
fn idle_connections_are_closed_and_running_exchanges_finished() {
    let mut world = World::new();
    let (idle, busy) = (world.client(), world.client());
    world.send(idle, get("/"));
    let pooled = world.endpoint();
    world.send(pooled, ok(""));
    world.read(idle);
    world.send(busy, get("/"));
    world.read(pooled);
    world.send(idle, get("/"));
    let second = world.endpoint();
    world.send(second, ok(""));
    world.read(idle);

    world.drain();
    assert_eq!(world.ending(idle), Ending::Close);
    assert_eq!(world.ending(second), Ending::Close);
    assert!(world.is_open(busy) && world.is_open(pooled));
    assert!(!world.proxy.is_drained());

    world.send(pooled, ok("last"));
    let answer = world.read(busy);
    assert!(says_close(&answer) && answer.ends_with("last"), "{answer}");
    assert_eq!(world.ending(busy), Ending::Shutdown);
    assert_eq!(world.ending(pooled), Ending::Close);
    world.finish(busy);
    assert!(world.proxy.is_drained());
    assert_eq!(world.outcomes(), [3, 0, 0]);
}

#[test]
fn a_response_that_has_begun_is_finished() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, &ok("hello")[..41]);
    world.drain();
    world.send(endpoint, &ok("hello")[41..]);
    assert_eq!(world.read(client), ok("hello"));
    assert_eq!(world.ending(client), Ending::Shutdown);
    world.advance(seconds(2));
    assert!(
        world.proxy.is_drained(),
        "it does not wait for clients that stay"
    );
}

#[test]
fn a_request_whose_head_has_begun_is_still_served() {
    let mut world = World::new();
    let client = world.client();
    let request = get("/");
    world.send(client, &request[..10]);
    world.drain();
    world.send(client, &request[10..]);
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    let answer = world.read(client);
    assert!(says_close(&answer) && answer.ends_with('x'), "{answer}");
    world.finish(client);
    assert!(world.proxy.is_drained());
}

#[test]
fn requests_ahead_of_their_turn_are_not_begun() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/").repeat(3));
    world.drain();
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    let answer = world.read(client);
    assert!(says_close(&answer) && answer.ends_with('x'), "{answer}");
    assert_eq!(world.counters.requests.value(), 1);
    world.finish(client);
    assert!(world.proxy.is_drained());
}

#[test]
fn our_own_answers_say_that_the_connection_ends() {
    let mut world = World::of(Setup {
        weights: vec![0],
        ..Setup::default()
    });
    let client = world.client();
    let request = get("/");
    world.send(client, &request[..10]);
    world.drain();
    world.send(client, &request[10..]);
    let answer = world.read(client);
    assert_local_reply(&answer, 503, "no-endpoint");
    assert!(says_close(&answer), "{answer}");
    assert_eq!(world.ending(client), Ending::Shutdown);
}

#[test]
fn an_exchange_that_fails_while_draining_leaves_nothing() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.drain();
    world.finish(endpoint);
    let answer = world.read(client);
    assert_local_reply(&answer, 502, "upstream-closed");
    assert!(says_close(&answer), "{answer}");
    world.finish(client);
    assert!(world.proxy.is_drained());
}

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
    world.advance(seconds(1));
    assert_eq!(world.try_client(), None);
}

#[test]
fn a_client_that_was_on_its_way_is_served_once() {
    let mut world = World::new();
    world.drain();
    world.advance(millis(150));
    let (client, silent) = (world.client(), world.client());
    world.send(client, get("/"));
    world.answer(&ok("x"));
    let answer = world.read(client);
    assert!(says_close(&answer) && answer.ends_with('x'), "{answer}");
    world.advance(seconds(1));
    assert_eq!(world.ending(silent), Ending::Close);
}

#[test]
fn an_idle_client_gets_a_while_for_one_more_request() {
    let mut world = World::new();
    let (early, late, silent) = (world.client(), world.client(), world.client());
    world.send(early, get("/"));
    let pooled = world.endpoint();
    world.send(pooled, ok(""));
    world.read(early);

    world.drain();
    assert_eq!(world.ending(pooled), Ending::Close);
    for client in [early, late] {
        world.advance(millis(400));
        assert!(world.is_open(client));
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        world.send(endpoint, ok("last"));
        let answer = world.read(client);
        assert!(says_close(&answer) && answer.ends_with("last"), "{answer}");
        assert_eq!(world.ending(client), Ending::Shutdown);
    }
    assert!(world.is_open(silent) && !world.proxy.is_drained());
    world.advance(millis(200));
    assert_eq!(world.ending(silent), Ending::Close);
    world.finish(early);
    world.finish(late);
    assert!(world.proxy.is_drained());
    assert_eq!(world.outcomes(), [3, 0, 0]);
}

#[test]
fn without_grace_idle_connections_are_closed_at_once() {
    let mut world = World::with_settings(|settings| settings.grace = Duration::ZERO);
    let idle = world.client();
    world.drain();
    assert_eq!(world.ending(idle), Ending::Close);
    assert_eq!(world.try_client(), None);
    assert!(world.proxy.is_drained());
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
    assert!(
        world.is_open(client),
        "nobody told it that this was the last"
    );
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, ok("bye"));
    let answer = world.read(client);
    assert!(says_close(&answer) && answer.ends_with("bye"), "{answer}");
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

//! Another configuration in the middle of everything: new requests go by it, what runs is not disturbed, and endpoints
//! that are gone are left.

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::balance::Weight;
use crate::route::Rules;
use crate::seam::Core;
use crate::snapshot::{Plan, Target};

/// Endpoints 10.0.0.`host`, served at the listener every client comes to.
fn plan(hosts: &[u8]) -> Plan {
    let mut plan = Setup::default().plan();
    let target = |host: &u8| Target::at(([10, 0, 0, *host], 8080).into(), Weight::ONE);
    plan.backends[0].targets = hosts.iter().map(target).collect();
    plan
}

#[test]
fn requests_go_by_the_new_snapshot_and_statistics_of_what_stays_are_kept() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    world.answer(&ok("one"));
    world.read(client);

    let mut renamed = plan(&[1]);
    renamed.backends[0].name = "renamed".into();
    renamed.backends[0].targets[0].weight = Weight::new(9);
    world.replace(renamed);
    world.send(client, get("/"));
    world.answer(&ok("two"));
    assert!(world.read(client).ends_with("two"));
    assert_eq!(world.outcomes(), [2, 0, 0]);

    world.replace(plan(&[2]));
    world.send(client, get("/"));
    world.answer(&ok("three"));
    assert!(world.read(client).ends_with("three"));
    assert_eq!(world.outcomes(), [1, 0, 0], "of the new one");
}

#[test]
fn an_endpoint_that_is_gone_finishes_what_runs_and_its_idle_connections_are_closed() {
    let mut world = World::new();
    let (idle, busy) = (world.client(), world.client());
    world.send(idle, get("/"));
    let first = world.endpoint();
    world.send(busy, get("/long"));
    let second = world.endpoint();
    world.read(second);
    world.send(first, ok("x"));
    world.read(idle);
    assert!(world.is_open(first), "kept for the next request");
    world.send(second, &ok("a long one")[..45]);

    world.replace(plan(&[2]));
    assert_eq!(world.ending(first), Ending::Close);
    assert!(world.is_open(second));
    world.send(second, &ok("a long one")[45..]);
    assert_eq!(world.read(busy), ok("a long one"));
    assert_eq!(world.ending(second), Ending::Close, "not kept");
    assert!(world.is_open(busy) && world.is_open(idle));
}

#[test]
fn idle_connections_to_what_stays_are_kept() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    world.answer(&ok("x"));
    let endpoint = world.endpoint();
    world.replace(plan(&[2, 1]));
    assert!(world.is_open(endpoint));
    assert!(world.is_open(client));
}

#[test]
fn a_snapshot_is_held_until_no_other_endpoint_can_be_asked() {
    let mut world = World::new();
    assert_eq!(world.proxy.oldest_snapshot(), 1);
    let (waiting, streaming) = (world.client(), world.client());
    world.send(streaming, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, &ok("streaming")[..45]);
    world.replace(plan(&[1, 2]));
    assert_eq!(world.proxy.oldest_snapshot(), 2, "its response has begun");

    world.replace(plan(&[1]));
    world.send(waiting, get("/"));
    let awaited = world.endpoint();
    world.replace(plan(&[1, 2]));
    world.replace(plan(&[1]));
    assert_eq!(world.proxy.oldest_snapshot(), 3);
    world.send(awaited, ok(""));
    assert_eq!(world.proxy.oldest_snapshot(), 5);

    world.send(waiting, get("/"));
    world.replace(plan(&[1, 2]));
    assert_eq!(world.proxy.oldest_snapshot(), 5);
    world.reset(waiting);
    assert_eq!(world.proxy.oldest_snapshot(), 6, "the client is gone");
}

#[test]
fn a_backend_without_endpoints_and_rules_without_a_match_hold_nothing() {
    let mut world = World::new();
    let client = world.client();
    world.replace(plan(&[]));
    world.send(client, get("/"));
    assert_local_reply(&world.read(client), 503, "no-endpoint");
    let mut without_rules = plan(&[1]);
    without_rules.listeners[0].rules = Rules::default();
    world.replace(without_rules);
    world.send(client, get("/"));
    assert_local_reply(&world.read(client), 404, "no-route");
    assert_eq!(world.proxy.oldest_snapshot(), 3);
}

/// The listener moved to another port: clients of before came in by one that is gone.
fn moved(hosts: &[u8]) -> Plan {
    let mut plan = plan(hosts);
    plan.listeners[0].address.set_port(81);
    plan
}

#[test]
fn clients_of_a_listener_that_is_gone_get_one_more_answer() {
    let mut world = World::new();
    let (idle, silent, busy) = (world.client(), world.client(), world.client());
    world.send(busy, get("/"));
    let asked = world.endpoint();
    world.read(asked);
    world.replace(moved(&[2]));
    world.send(asked, ok("began before"));
    let answer = world.read(busy);
    assert!(says_close(&answer), "{answer}");
    assert_eq!(world.ending(busy), Ending::Shutdown);

    world.advance(millis(500));
    world.send(idle, get("/"));
    assert_eq!(world.proxy.oldest_snapshot(), 1);
    world.answer(&ok("by the rules of before"));
    let answer = world.read(idle);
    assert!(says_close(&answer) && answer.contains(" 200 "), "{answer}");
    assert_eq!(world.outcomes(), [0, 0, 0], "not by the new endpoint");
    world.advance(millis(500));
    assert_eq!(world.ending(silent), Ending::Close);
    world.finish(silent);
    world.advance(seconds(1));
    assert_eq!(world.proxy.oldest_snapshot(), 2);
}

#[test]
fn clients_that_were_queued_at_a_listener_that_is_gone_are_served() {
    let mut world = World::new();
    world.replace(moved(&[1]));
    world.advance(millis(200));
    let client = world.client();
    world.send(client, get("/"));
    world.answer(&ok("x"));
    let answer = world.read(client);
    assert!(says_close(&answer) && answer.ends_with('x'), "{answer}");
    world.advance(seconds(3));
    assert_eq!(world.try_client(), None, "it has been closed long ago");
}

#[test]
fn a_slow_head_at_a_listener_that_is_gone_is_waited_for() {
    let mut world = World::new();
    let client = world.client();
    let request = get("/");
    world.send(client, &request[..10]);
    world.replace(moved(&[1]));
    world.advance(seconds(5));
    world.send(client, &request[10..]);
    world.answer(&ok("x"));
    let answer = world.read(client);
    assert!(says_close(&answer) && answer.ends_with('x'), "{answer}");
}

#[test]
fn a_response_that_outlives_its_listener_ends_its_connection() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, &ok("a long one")[..45]);
    world.replace(moved(&[1]));
    world.advance(seconds(10));
    assert_eq!(world.proxy.oldest_snapshot(), 2);
    world.send(endpoint, &ok("a long one")[45..]);
    assert_eq!(world.read(client), ok("a long one"));
    assert_eq!(world.ending(client), Ending::Shutdown);
}

#[test]
fn another_listener_at_the_same_address_does_not_take_over_old_clients() {
    let mut world = World::new();
    let old = world.client();
    world.replace(moved(&[1]));
    world.replace(plan(&[1]));
    world.send(old, get("/"));
    world.answer(&ok("x"));
    assert!(says_close(&world.read(old)));
    world.listener = crate::snapshot::ListenerId(2);
    let new = world.client();
    world.send(new, get("/"));
    world.answer(&ok("y"));
    assert_eq!(world.read(new), ok("y"));
}

//! More clients and more endpoints than there are descriptors for.

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::seam::Core;

fn world(max_downstreams: usize, max_shed: usize) -> World {
    World::with_settings(|settings| {
        settings.max_downstreams = max_downstreams;
        settings.max_shed = max_shed;
    })
}

#[test]
fn a_client_beyond_the_budget_is_told_so_once_it_asks() {
    let mut world = world(1, 2);
    let (served, shed) = (world.client(), world.client());
    assert_eq!(
        world.read(shed),
        "",
        "an answer before the request would be nobody's"
    );
    world.send(shed, &get("/")[..9]);
    world.send(shed, &get("/")[9..]);
    let answer = world.read(shed);
    assert_local_reply(&answer, 503, "shed");
    assert!(says_close(&answer));
    assert_eq!(world.ending(shed), Ending::Shutdown);
    assert_eq!(world.counters.downstream_shed.value(), 1);
    assert_eq!(world.outcomes(), [0, 0, 0], "no endpoint hears of it");

    world.send(served, get("/"));
    world.answer(&ok("x"));
    assert_eq!(world.read(served), ok("x"));
}

#[test]
fn there_is_room_until_the_reserve_is_used_up_and_again_when_one_leaves() {
    let mut world = world(2, 1);
    assert_eq!(world.proxy.room(), 3);
    let clients = [world.client(), world.client(), world.client()];
    assert_eq!(world.proxy.room(), 0);
    assert_eq!(world.counters.accept_rested.value(), 1);
    world.finish(clients[0]);
    assert_eq!(world.proxy.room(), 1);
    // One that was accepted all the same is told as well.
    let (_, late) = (world.client(), world.client());
    assert_eq!(world.proxy.room(), 0);
    world.send(late, get("/"));
    assert_local_reply(&world.read(late), 503, "shed");
}

#[test]
fn a_client_beyond_the_budget_that_says_nothing_loses_its_place_soon() {
    let mut world = world(0, 2);
    let (silent, slow) = (world.client(), world.client());
    world.advance(seconds(1));
    world.send(slow, "GET / HT");
    world.advance(seconds(1));
    assert_eq!(world.ending(silent), Ending::Close);
    world.advance(seconds(1));
    assert_local_reply(&world.read(slow), 408, "request-timeout");
}

#[test]
fn connections_idle_for_longest_make_room_for_new_ones() {
    let mut world = World::of(Setup {
        weights: vec![1; 8],
        ..Setup::default()
    });
    world.proxy.settings.max_upstreams = 3;
    let client = world.client();
    for _ in 0..200 {
        world.send(client, get("/"));
        world.answer(&ok(""));
        world.read(client);
        assert!(world.counters.upstream_active.value() <= 3);
    }
    let evicted = world.counters.upstream_evicted.value();
    assert_eq!(evicted + 3, world.counters.upstream_opened.value());
    assert!(world.counters.upstream_reused.value() > 0);
}

#[test]
fn a_connection_in_use_is_never_closed_to_make_room() {
    let mut world = World::new();
    world.proxy.settings.max_upstreams = 1;
    let clients = [world.client(), world.client()];
    let busy = clients.map(|client| {
        world.send(client, get("/"));
        world.endpoint()
    });
    for (client, endpoint) in clients.into_iter().zip(busy) {
        world.send(endpoint, ok("x"));
        assert_eq!(world.read(client), ok("x"));
    }
    assert_eq!(world.counters.upstream_evicted.value(), 0);
    assert_eq!(world.outcomes(), [2, 0, 0]);
}

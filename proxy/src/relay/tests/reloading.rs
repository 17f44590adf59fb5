//! New snapshots and drains: what is open stays, what is new goes by what is new.

use std::time::Duration;

use super::world::plan;
use super::*;
use crate::seam::{ConnectFault, End, Event};

#[test]
fn an_open_connection_stays_with_an_endpoint_that_was_removed() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    world.replace(plan(&[2]));
    assert_eq!(
        world.relay.oldest_snapshot(),
        2,
        "nothing asks the first any more"
    );
    world.received(client, b"still here");
    assert_eq!(world.read(endpoint), b"still here");
    world.client();
    assert_eq!(world.connects[1].1.port(), 2, "new clients go elsewhere");
    world.ends(client, End::Finished);
    world.ends(endpoint, End::Finished);
}

#[test]
fn a_client_that_waits_for_its_endpoint_is_tried_by_the_snapshot_it_came_with() {
    let mut world = World::new(&[1, 2]);
    let (_, first) = world.client();
    world.replace(plan(&[3]));
    assert_eq!(world.relay.oldest_snapshot(), 1);
    world.fails(first, ConnectFault::Endpoint);
    let (second, address) = world.connects[1];
    assert!(address.port() < 3);
    world.connected(second);
    assert_eq!(world.relay.oldest_snapshot(), 2);
}

#[test]
fn clients_on_their_way_to_a_service_that_was_removed_are_served_for_a_while() {
    let mut world = World::new(&[1]);
    let mut without = plan(&[1]);
    without.l4_services.clear();
    world.replace(without);
    assert_eq!(verbs(&world.accept(0, "192.0.2.7:1")), ["adopt", "connect"]);
    world.advance(Duration::from_secs(1));
    assert_eq!(verbs(&world.accept(0, "192.0.2.7:2")), ["refuse"]);
    let (conn, _) = world.connects[0];
    world.connected(conn);
    assert_eq!(world.relay.oldest_snapshot(), 2);
}

#[test]
fn a_drain_waits_for_what_is_open_and_takes_nothing_new_after_a_while() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    world.received(client, b"x");
    world.takes(endpoint, 1);
    world.report(Event::Drain, &[]);
    assert_eq!(verbs(&world.accept(0, "192.0.2.7:1")), ["adopt", "connect"]);
    world.ends(world.connects[1].0, End::Broken);
    world.advance(Duration::from_secs(1));
    assert_eq!(verbs(&world.accept(0, "192.0.2.7:2")), ["refuse"]);
    assert!(!world.relay.is_drained());
    world.received(client, b"y");
    assert_eq!(world.read(endpoint), b"xy");
}

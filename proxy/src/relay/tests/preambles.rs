//! PROXY headers, in and out.

use std::time::Duration;

use super::world::plan;
use super::*;
use crate::metrics::LinkEnd;
use crate::proxy_protocol::Version;
use crate::seam::{ConnId, End};

const HEADER: &[u8] = b"PROXY TCP4 203.0.113.9 198.51.100.1 4711 443\r\n";

fn reading() -> World {
    let mut plan = plan(&[1, 2, 3, 4]);
    plan.l4_services[0].reads_header = true;
    World::of(plan)
}

fn adopted(actions: &[Action]) -> ConnId {
    match actions {
        [Action::Adopt { conn, .. }] => *conn,
        _ => panic!("{actions:?}"),
    }
}

#[test]
fn no_endpoint_is_picked_before_the_header_is_whole_and_the_rest_is_passed_on() {
    for split in 1..HEADER.len() {
        let mut world = reading();
        let client = adopted(&world.accept(0, "192.0.2.7:1024"));
        assert_eq!(verbs(&world.received(client, &HEADER[..split])), [""; 0]);
        let rest = [&HEADER[split..], b"hello"].concat();
        assert_eq!(verbs(&world.received(client, &rest)), ["connect"]);
        let (endpoint, _) = world.connects[0];
        world.connected(endpoint);
        assert_eq!(world.read(endpoint), b"hello", "split at {split}");
    }
}

#[test]
fn what_is_no_header_is_turned_away_without_asking_an_endpoint() {
    let mut world = reading();
    let client = adopted(&world.accept(0, "192.0.2.7:1024"));
    assert_eq!(
        verbs(&world.received(client, b"GET / HTTP/1.1\r\n")),
        ["abort"]
    );
    let client = adopted(&world.accept(0, "192.0.2.7:1024"));
    world.ends(client, End::Finished);
    assert_eq!(world.endings(LinkEnd::NoHeader), 2);
    assert_eq!(world.connects.len(), 0);
    world.assert_all_gone();
}

#[test]
fn a_header_that_dawdles_has_no_more_time_than_one_that_does_not_come() {
    let mut world = reading();
    let client = adopted(&world.accept(0, "192.0.2.7:1024"));
    for byte in &HEADER[..4] {
        assert_eq!(verbs(&world.received(client, &[*byte])), [""; 0]);
        assert_eq!(verbs(&world.advance(Duration::from_secs(1))), [""; 0]);
    }
    assert_eq!(verbs(&world.advance(Duration::from_secs(1))), ["abort"]);
    world.assert_all_gone();
}

#[test]
fn clients_are_bound_by_the_address_they_are_said_to_have() {
    let affinity = crate::affinity::Affinity::compile("source.address").expect("known");
    let mut plan = plan(&[1, 2, 3, 4]);
    plan.backends[0].policy.affinity = Some(affinity);
    let mut direct = World::of(plan.clone());
    direct.accept(0, "203.0.113.9:1");
    plan.l4_services[0].reads_header = true;
    let mut told = World::of(plan);
    for port in 1..=8 {
        let client = adopted(&told.accept(0, &format!("192.0.2.{port}:1024")));
        told.received(client, HEADER);
    }
    for (_, endpoint) in &told.connects {
        assert_eq!(*endpoint, direct.connects[0].1);
    }
}

#[test]
fn an_endpoint_is_told_where_its_client_is() {
    let sending = |reads_header| {
        let mut plan = plan(&[1]);
        plan.l4_services[0].address = "192.0.2.1:5432".parse().expect("literal");
        plan.l4_services[0].reads_header = reads_header;
        plan.backends[0].policy.sends_header = Some(Version::V1);
        World::of(plan)
    };
    let mut world = sending(false);
    let (client, endpoint) = world.client();
    world.received(client, b"hello");
    assert_eq!(verbs(&world.connected(endpoint)), ["send"]);
    let expected = b"PROXY TCP4 192.0.2.7 192.0.2.1 1024 5432\r\nhello";
    assert_eq!(
        world.read(endpoint).escape_ascii().to_string(),
        expected.escape_ascii().to_string()
    );
    world.received(client, b" again");
    assert_eq!(world.read(endpoint), b" again", "once");

    // What was told is told on.
    let mut world = sending(true);
    let client = adopted(&world.accept(0, "192.0.2.7:1024"));
    world.received(client, HEADER);
    let (endpoint, _) = world.connects[0];
    world.connected(endpoint);
    assert_eq!(world.read(endpoint), HEADER);
}

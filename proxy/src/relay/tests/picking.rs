//! Which endpoint a client gets, and what happens if there is no connection to it.

use std::collections::HashSet;
use std::time::Duration;

use super::world::plan;
use super::*;
use crate::metrics::LinkEnd;
use crate::route::Split;
use crate::seam::ConnectFault;

#[test]
fn a_connection_counts_as_pending_for_as_long_as_it_lives() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    world.advance(Duration::from_secs(60));
    assert_eq!(world.figures(1).leases.pending, 1);
    world.ends(client, crate::seam::End::Finished);
    assert_eq!(world.figures(1).leases.pending, 1);
    world.ends(endpoint, crate::seam::End::Finished);
    assert_eq!(world.figures(1).leases.pending, 0);
    world.assert_all_gone();
}

#[test]
fn a_client_whose_endpoint_refuses_gets_another_and_the_failure_is_recorded_first() {
    let mut world = World::new(&[1, 2]);
    let (client, first) = world.client();
    world.received(client, b"early");
    let refused = world.connects[0].1.port();
    let actions = world.fails(first, ConnectFault::Endpoint);
    assert_eq!(verbs(&actions), ["abort", "connect"]);
    assert_eq!(world.figures(refused).leases.failed, 1);
    let (second, address) = world.connects[1];
    assert_ne!(address.port(), refused);
    world.connected(second);
    assert_eq!(world.read(second), b"early");
    assert_eq!(world.counters.l4_retries.value(), 1);
}

#[test]
fn an_endpoint_that_does_not_answer_in_time_is_left_for_another() {
    let mut world = World::new(&[1, 2]);
    let (_, first) = world.client();
    let actions = world.advance(Duration::from_secs(5));
    assert_eq!(verbs(&actions), ["abort", "connect"]);
    let late = world.connected(first);
    assert_eq!(verbs(&late), [""; 0], "late news of a connection given up");
}

#[test]
fn a_client_is_reset_when_no_endpoint_is_left_to_try() {
    let mut world = World::new(&[1, 2, 3, 4]);
    world.client();
    for tries in 1..=3 {
        assert_eq!(world.connects.len(), tries);
        let (conn, _) = world.connects[tries - 1];
        world.fails(conn, ConnectFault::Endpoint);
    }
    assert_eq!(
        world.connects.len(),
        3,
        "two more tries, as the service says"
    );
    let ports: HashSet<u16> = world.connects.iter().map(|(_, to)| to.port()).collect();
    assert_eq!(ports.len(), 3, "never the same twice");
    assert_eq!(world.endings(LinkEnd::NoConnection), 1);
    world.assert_all_gone();
}

#[test]
fn a_host_without_descriptors_is_not_the_endpoints_fault() {
    let mut world = World::new(&[1, 2]);
    let (_, endpoint) = world.client();
    let actions = world.fails(endpoint, ConnectFault::Host);
    assert_eq!(verbs(&actions), ["abort", "abort", "abort"]);
    let failed: u64 = [1, 2]
        .map(|port| world.figures(port).leases.failed)
        .iter()
        .sum();
    assert_eq!(failed, 0);
    assert_eq!(world.endings(LinkEnd::HostExhausted), 1);
    world.assert_all_gone();
}

#[test]
fn clients_of_one_address_share_an_endpoint_where_that_is_asked_for() {
    let mut world = World::bound_by_client(&[1, 2, 3, 4]);
    let mut all = HashSet::new();
    for host in 1..=40 {
        let before = world.connects.len();
        for (form, port) in [("", 1), ("", 2), ("::ffff:", 3)] {
            let address = match form {
                "" => format!("192.0.2.{host}:{port}"),
                mapped => format!("[{mapped}192.0.2.{host}]:{port}"),
            };
            world.accept(0, &address);
        }
        let ports: HashSet<u16> = world.connects[before..]
            .iter()
            .map(|(_, to)| to.port())
            .collect();
        assert_eq!(ports.len(), 1, "host {host}");
        all.extend(ports);
    }
    assert_eq!(all.len(), 4, "hosts are spread");
}

#[test]
fn nobody_to_serve_a_client_is_told_by_a_reset() {
    let mut nowhere = plan(&[1]);
    nowhere.l4_services[0].split = Split::default();
    for plan in [nowhere, plan(&[])] {
        let mut world = World::of(plan);
        let actions = world.accept(0, "192.0.2.7:1024");
        assert_eq!(verbs(&actions), ["adopt", "abort"]);
        assert_eq!(world.endings(LinkEnd::NoEndpoint), 1);
        world.assert_all_gone();
    }
}

#[test]
fn a_client_beyond_the_budget_is_turned_away() {
    let mut world = World::new(&[1]);
    world.ids.is_full = true;
    assert_eq!(verbs(&world.accept(0, "192.0.2.7:1024")), ["refuse"]);
    assert_eq!(
        verbs(&world.accept(9, "192.0.2.7:1024")),
        ["refuse"],
        "of no service"
    );
    assert_eq!(world.counters.l4_refused.value(), 2);
}

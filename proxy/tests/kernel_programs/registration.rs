//! Whose a packet is: connections that are registered, stale, released or nobody's.

use std::sync::atomic::Ordering::Relaxed;

use weir_common::{EndpointWire, Reason};

use crate::packet::{ACK, RST, SYN};
use crate::rig::{ENDPOINT, Ends, GENERATION, Rig};

#[test]
fn connections_nobody_registered_leave_no_trace_but_a_count() {
    let Some(mut rig) = Rig::new() else { return };
    rig.register(Ends::v4());
    let other = Ends::of("10.9.0.1:40001", "10.9.0.2:8080");
    rig.send(other.request());
    rig.receive(other.response());
    assert_eq!(rig.reason(Reason::Unregistered), 2);
    assert_eq!(rig.wire(), EndpointWire::default());
}

#[test]
fn a_flow_of_another_generation_counts_as_stale_and_nothing_else() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.dataplane.identify(ends.peer());
    rig.send(ends.out(SYN).sequence(7));
    rig.send(ends.request());
    let before = rig.wire();
    let state = &rig.tables.state[ENDPOINT as usize];
    state.generation.store(GENERATION + 1, Relaxed);

    rig.receive(ends.back(SYN | ACK).acknowledgment(8));
    rig.receive(ends.response());
    rig.send(ends.request().sequence(1100));
    rig.receive(ends.back(RST));
    assert_eq!(rig.reason(Reason::StaleGeneration), 4);
    assert_eq!(rig.wire(), before);
    assert_eq!(rig.sample(slot).exchange, 0);
}

#[test]
fn an_endpoint_there_is_no_room_for_goes_unidentified_and_is_counted() {
    let Some(rig) = Rig::new() else { return };
    let capacity = rig.tables.sizes.capacity as u16;
    let of = |port: u16| Ends::of("10.9.0.1:40000", &format!("10.9.0.2:{port}")).peer();
    for port in 1..=capacity {
        rig.dataplane.identify(of(port));
    }
    let unidentified = || rig.dataplane.unmeasured().unidentified.load(Relaxed);
    assert_eq!(unidentified(), 0);
    rig.dataplane.identify(of(capacity + 1));
    assert_eq!(unidentified(), 1);
    rig.dataplane.forget(of(1).address);
    rig.dataplane.identify(of(capacity + 1));
    assert_eq!(unidentified(), 1, "there is room again");
}

#[test]
fn a_flow_of_an_endpoint_the_tables_have_no_row_for_is_out_of_range() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let beyond = rig.tables.sizes.capacity as u32;
    let peer = weir::seam::Peer {
        endpoint: beyond,
        ..ends.peer()
    };
    rig.flows.register(ends.proxy, peer).expect("there is room");
    rig.send(ends.request());
    assert_eq!(rig.reason(Reason::OutOfRange), 1);
    let started = |endpoint| rig.tables.wire.total(endpoint).started;
    assert!((0..beyond).all(|endpoint| started(endpoint) == 0));
}

#[test]
fn a_released_connection_is_measured_no_more_and_its_slot_starts_afresh() {
    let Some(mut rig) = Rig::with_flows(1) else {
        return;
    };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.send(ends.request());
    rig.receive(ends.response());
    rig.flows.release(slot);
    rig.send(ends.request().sequence(1100));
    assert_eq!(rig.reason(Reason::Unregistered), 1);

    let other = Ends::of("10.9.0.1:40001", "10.9.0.2:8080");
    let again = rig.register(other);
    assert_eq!(again, slot);
    assert_eq!(rig.sample(again).exchange, 0);
    rig.send(other.request());
    rig.receive(other.response());
    assert_eq!(rig.sample(again).exchange, 1);
}

#[test]
fn releasing_late_leaves_the_connection_that_has_the_port_now() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let earlier = rig.register(ends);
    let later = rig.register(ends);
    rig.flows.release(earlier);
    rig.send(ends.request());
    rig.receive(ends.response());
    assert_eq!(rig.sample(later).exchange, 1);
}

#[test]
fn with_all_slots_out_a_connection_goes_unmeasured_and_is_counted() {
    let Some(mut rig) = Rig::with_flows(1) else {
        return;
    };
    rig.register(Ends::v4());
    assert_eq!(
        rig.flows.register(Ends::v6().proxy, Ends::v6().peer()),
        None
    );
    assert_eq!(rig.dataplane.unmeasured().no_room.load(Relaxed), 1);
    rig.send(Ends::v6().request());
    assert_eq!(rig.reason(Reason::Unregistered), 1);
}

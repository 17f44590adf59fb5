//! The two ends of a connection: its handshake, and what closes it.

use weir_common::EndpointWire;

use crate::PAUSE;
use crate::packet::{ACK, FIN, RST, SYN};
use crate::rig::{Ends, Rig, now_ns};

#[test]
fn the_handshake_is_timed_for_known_endpoints() {
    let Some(mut rig) = Rig::new() else { return };
    for ends in [Ends::v4(), Ends::v6()] {
        rig.dataplane.identify(ends.peer());
        let earlier = rig.wire();
        let before = now_ns();
        // A SYN carries more options than a bare acknowledgment: it is still no request.
        rig.send(ends.out(SYN).sequence(u32::MAX).tcp_options(20));
        let answer = ends.back(SYN | ACK).acknowledgment(0).tcp_options(20);
        rig.receive(answer.clone());
        let most = now_ns() - before;
        rig.receive(answer);
        let wire = rig.wire();
        assert_eq!(
            wire.opened - earlier.opened,
            1,
            "the second answer is a copy"
        );
        assert_eq!(wire.connect_count - earlier.connect_count, 1);
        assert!(wire.connect_ns_sum - earlier.connect_ns_sum <= most);
        assert_eq!((wire.started, wire.bytes_out), (0, 0));
    }
}

#[test]
fn a_lost_syn_is_part_of_the_connect_time() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.dataplane.identify(ends.peer());
    rig.send(ends.out(SYN).sequence(7));
    std::thread::sleep(PAUSE);
    rig.send(ends.out(SYN).sequence(7));
    rig.receive(ends.back(SYN | ACK).acknowledgment(8));
    assert!(rig.wire().connect_ns_sum >= PAUSE.as_nanos() as u64);
}

#[test]
fn another_connection_of_the_same_port_starts_the_clock_again() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.dataplane.identify(ends.peer());
    rig.send(ends.out(SYN).sequence(7));
    std::thread::sleep(PAUSE);
    rig.send(ends.out(SYN).sequence(90_000));
    rig.receive(ends.back(SYN | ACK).acknowledgment(8));
    assert_eq!(rig.wire().opened, 0, "an answer to the earlier one");
    rig.receive(ends.back(SYN | ACK).acknowledgment(90_001));
    assert!(rig.wire().connect_ns_sum < PAUSE.as_nanos() as u64);
}

#[test]
fn a_refused_connection_is_a_reset_and_was_never_open() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.dataplane.identify(ends.peer());
    rig.send(ends.out(SYN).sequence(7));
    rig.receive(ends.back(RST | ACK).acknowledgment(8));
    let wire = rig.wire();
    assert_eq!((wire.opened, wire.resets, wire.closed), (0, 1, 0));
}

#[test]
fn endpoints_that_are_unknown_or_forgotten_are_not_timed() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.dataplane.identify(ends.peer());
    rig.dataplane.forget(ends.endpoint);
    rig.send(ends.out(SYN).sequence(7));
    rig.receive(ends.back(SYN | ACK).acknowledgment(8));
    assert_eq!(rig.wire(), EndpointWire::default());
}

#[test]
fn the_end_of_a_connection_is_counted_once_with_or_without_payload() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    // The last request carries our end, the last byte of the response the endpoint's.
    rig.send(ends.out(FIN | ACK).payload(100));
    assert_eq!(rig.wire().closed, 1);
    rig.receive(ends.back(FIN | ACK).payload(10));
    rig.send(ends.out(ACK).sequence(1101));
    assert_eq!(
        rig.sample(slot).exchange,
        1,
        "a half-closed connection is still measured"
    );
    let wire = rig.wire();
    assert_eq!((wire.closed, wire.resets), (1, 0));
}

#[test]
fn a_reset_is_counted_and_closes() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.register(ends);
    rig.send(ends.request());
    rig.receive(ends.back(RST | ACK));
    let wire = rig.wire();
    assert_eq!((wire.resets, wire.closed), (1, 1));
    assert_eq!((wire.started, wire.finished), (1, 0));
}

#[test]
fn our_own_reset_closes_and_is_none_of_the_endpoint() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.register(ends);
    rig.send(ends.out(RST));
    let wire = rig.wire();
    assert_eq!((wire.resets, wire.closed), (0, 1));
}

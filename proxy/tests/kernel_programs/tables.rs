//! Every row of the tables of packets, and packets cut short at every length.

use std::os::fd::AsFd;

use weir::runtime::dataplane::Direction;
use weir_common::{EndpointWire, Reason};

use crate::by_hand::{Prelude, SCHED_CLS, Varying};
use crate::denied::denying;
use crate::fixtures::wire::{Before, Counted, EGRESS, INGRESS, Row};
use crate::fixtures::xdp::{DENIED, FRAMES};
use crate::packet::Packet;
use crate::rig::{Ends, Rig};

/// "The next program decides": what measuring programs answer, whatever they see.
const TC_ACT_UNSPEC: u32 = -1_i32 as u32;

#[test]
fn what_leaves_is_passed_as_it_is_and_counted_as_the_table_says() {
    check(EGRESS, Direction::Egress);
}

#[test]
fn what_comes_is_passed_as_it_is_and_counted_as_the_table_says() {
    check(INGRESS, Direction::Ingress);
}

fn check(table: &[Row], direction: Direction) {
    let Some(mut rig) = Rig::new() else { return };
    let mut port = 1024;
    for row in table {
        for mut ends in row.family.ends() {
            // A connection of its own for each, so that none finds what another left.
            port += 1;
            ends.proxy.set_port(port);
            let slot = row.before.happens(&mut rig, ends);
            let (wire, reasons) = (rig.wire(), rig.dataplane.reasons());
            pass(&rig, direction, &(row.packet)(ends));
            let name = format!("{} from {}", row.name, ends.proxy);
            assert_eq!(Counted::between(&wire, &rig.wire()), row.counted, "{name}");
            assert_eq!(rig.news(&reasons), [(row.reason, 1)], "{name}");
            assert_samples_match(&rig.wire());
            Before::ends(&mut rig, ends, slot);
        }
    }
}

/// Shows the program a packet, which it must leave alone.
fn pass(rig: &Rig, direction: Direction, packet: &Packet) {
    let bytes = packet.bytes();
    let run = rig
        .dataplane
        .run_on(direction, &bytes, packet.segments(), 1);
    let run = run.expect("the program runs");
    assert_eq!((run.action, run.frame), (TC_ACT_UNSPEC, bytes));
}

/// Each exchange that ended and each handshake has its time.
fn assert_samples_match(wire: &EndpointWire) {
    assert_eq!(wire.first_byte_count, wire.finished);
    assert_eq!(wire.connect_count, wire.opened);
}

#[test]
fn packets_cut_short_are_passed_unseen_at_every_length() {
    for (ends, headers) in [(Ends::v4(), 14 + 20 + 20), (Ends::v6(), 14 + 40 + 20)] {
        let Some(mut rig) = Rig::new() else { return };
        rig.register(ends);
        // The kernel hands no frame without an IP header to a test run.
        let lengths = headers - 20..headers + 100;
        for length in lengths.clone() {
            pass(&rig, Direction::Egress, &ends.request().cut(length));
        }
        // A cut inside the payload is not always seen: the length may still fit with the link header counted in.
        let missed = rig.reason(Reason::Measured);
        assert!(missed <= 14, "{missed}");
        assert_eq!(
            rig.reason(Reason::NotMeasured),
            lengths.len() as u64 - missed
        );
    }
}

#[test]
fn frames_are_dropped_or_passed_as_the_table_says() {
    let Some(rig) = denying(&DENIED) else { return };
    for row in FRAMES {
        for frame in row.frames() {
            let reasons = rig.dataplane.reasons();
            let run = rig.dataplane.run_xdp(&frame, 1);
            let run = run.unwrap_or_else(|error| panic!("{}: {error}", row.name));
            let expected = (row.verdict as u32, frame);
            assert_eq!((run.action, run.frame), expected, "{}", row.name);
            let expected = [(row.verdict.reason(), 1)];
            assert_eq!(rig.news(&reasons), expected, "{}", row.name);
        }
    }
}

#[test]
fn a_packet_written_anew_before_every_run_is_new_every_time() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.register(ends);
    let packet = ends.request();
    let bytes = packet.bytes();
    let sequence = Varying {
        at: packet.tcp_at() + 4,
        first: 1000,
        step: 100,
    };
    let program = rig.dataplane.program(Some(Direction::Egress));
    let program = program.expect("it is loaded");
    let headers = &bytes[..packet.tcp_at() + 20];
    let prelude = Prelude::new(SCHED_CLS, headers, Some(sequence), program.as_fd());
    let prelude = prelude.expect("the verifier has no objection");
    let (action, _) = prelude.run(&bytes, 1000).expect("it runs");
    assert_eq!(action, TC_ACT_UNSPEC);
    let wire = rig.wire();
    assert_eq!((wire.started, wire.retransmits), (1, 0));
    assert_eq!(wire.bytes_out, 100_000);
}

//! Frames of every shape: what is measured all the same, and what is passed unseen and counted.

use weir::runtime::dataplane::Direction;
use weir_common::{EndpointWire, Reason};

use crate::packet::{self, ACK, Offload};
use crate::rig::{Ends, Rig};

#[test]
fn payload_begins_behind_the_options_of_both_headers() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    let options = |packet: packet::Packet| packet.ip_options(40).tcp_options(12);
    rig.send(options(ends.out(ACK)));
    assert_eq!(rig.wire().started, 0, "options are no payload");
    rig.send(options(ends.request()));
    rig.receive(options(ends.response()).padding(3));
    assert_eq!(rig.sample(slot).exchange, 1);
    let wire = rig.wire();
    assert_eq!((wire.bytes_out, wire.bytes_in), (100, 200));
}

#[test]
fn extension_headers_and_fragments_are_passed_unseen_and_counted() {
    let Some(mut rig) = Rig::new() else { return };
    let (v4, v6) = (Ends::v4(), Ends::v6());
    rig.register(v4);
    rig.register(v6);
    const MORE: u16 = 0x2000;
    let packets = [
        v6.request().extension_header(),
        v6.request().fragment(8),
        v4.request().fragment(MORE),
        v4.request().fragment(8),
    ];
    let count = packets.len() as u64;
    for packet in packets {
        rig.send(packet);
    }
    assert_eq!(rig.reason(Reason::Unwalked), count);
    assert_eq!(rig.reason(Reason::Measured), 0);
    assert_eq!(rig.wire(), EndpointWire::default());
    // "Do not fragment" is no fragment.
    rig.send(v4.request().fragment(0x4000));
    assert_eq!(rig.reason(Reason::Measured), 1);
}

#[test]
fn packets_too_long_for_their_length_field_are_measured_whole() {
    let Some(mut rig) = Rig::new() else { return };
    let offloads = [
        (Ends::v4(), Offload::ZeroLength),
        (Ends::v6(), Offload::ZeroLength),
        (Ends::v6(), Offload::Jumbo),
    ];
    for (ends, offload) in offloads {
        let slot = rig.register(ends);
        let before = rig.wire();
        rig.send(ends.request().beyond_64k(offload));
        rig.receive(ends.response().beyond_64k(offload));
        let wire = rig.wire();
        assert_eq!(rig.sample(slot).exchange, 1);
        assert_eq!(wire.bytes_out - before.bytes_out, 100);
        assert_eq!(wire.bytes_in - before.bytes_in, 200);
        rig.flows.release(slot);
    }
    assert_eq!(rig.reason(Reason::Unwalked), 0);
}

#[test]
fn packets_cut_short_are_passed_unseen_at_every_length() {
    let Some(mut rig) = Rig::new() else { return };
    let headers = 14 + 20 + 20;
    let ends = Ends::v4();
    rig.register(ends);
    // The kernel hands no frame without an IP header to a test run.
    for length in 34..headers + 100 {
        rig.send(ends.request().cut(length));
    }
    let cut = (headers + 100 - 34) as u64;
    // A cut inside the payload is not always seen: the length may still fit with the link header counted in.
    let missed = rig.reason(Reason::Measured);
    assert!(missed <= 14, "{missed}");
    assert_eq!(rig.reason(Reason::NotMeasured), cut - missed);
}

#[test]
fn other_protocols_and_impossible_headers_are_passed_unseen() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.register(ends);
    let good = ends.request().bytes();
    let changes: [(usize, u8); 5] = [
        (14 + 9, 17),    // UDP
        (12, 0x99),      // no ethertype of ours
        (14, 0x44),      // an IPv4 header shorter than one
        (14, 0x65),      // version 6 in an IPv4 frame
        (34 + 12, 0x10), // a TCP header shorter than one
    ];
    for (at, value) in changes {
        let mut frame = good.clone();
        frame[at] = value;
        let run = rig.dataplane.run_on(Direction::Egress, &frame, 1);
        run.expect("the program runs");
    }
    assert_eq!(rig.reason(Reason::NotMeasured), changes.len() as u64);
    assert_eq!(rig.wire(), EndpointWire::default());
}

//! What the kernel programs make of packets. The packets go through `BPF_PROG_TEST_RUN`, so that each test decides what
//! the kernel sees and when; the last ones send real traffic over a loopback of their own.

mod foreign;
mod killed;
mod namespace;
mod packet;
mod refusal;
mod rig;
mod traffic;
mod tunnel;

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use packet::{ACK, FIN, Offload, RST, SYN};
use rig::{ENDPOINT, Ends, GENERATION, Rig, now_ns};
use weir::runtime::dataplane::Direction;
use weir_common::{EndpointWire, Reason};

#[test]
fn the_first_response_byte_is_timed_from_the_request_over_ipv4() {
    first_response_byte_is_timed(Ends::v4());
}

#[test]
fn the_first_response_byte_is_timed_from_the_request_over_ipv6() {
    first_response_byte_is_timed(Ends::v6());
}

fn first_response_byte_is_timed(ends: Ends) {
    let Some(mut rig) = Rig::new() else { return };
    let slot = rig.register(ends);

    let before_request = now_ns();
    rig.send(ends.request());
    let after_request = now_ns();
    assert_eq!(rig.sample(slot).exchange, 0, "nothing came back yet");
    let before_response = now_ns();
    rig.receive(ends.response());
    let after_response = now_ns();

    let sample = rig.sample(slot);
    assert_eq!(sample.exchange, 1);
    let possible = before_response - after_request..=after_response - before_request;
    assert!(possible.contains(&sample.first_byte_ns), "{sample:?}");
    let wire = rig.wire();
    assert_eq!((wire.started, wire.finished), (1, 1));
    assert_eq!(wire.first_byte_count, 1);
    assert_eq!(wire.first_byte_ns_sum, sample.first_byte_ns);
    assert_eq!((wire.bytes_out, wire.bytes_in), (100, 200));
}

#[test]
fn addresses_of_one_family_mapped_into_the_other_are_the_same_connection() {
    let Some(mut rig) = Rig::new() else { return };
    rig.register(Ends::of("[::ffff:10.9.0.1]:40000", "10.9.0.2:8080"));
    rig.send(Ends::v4().request());
    assert_eq!(rig.wire().started, 1);
}

#[test]
fn a_second_exchange_on_the_connection_is_a_second_sample() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.send(ends.request().sequence(1000));
    rig.receive(ends.response().sequence(5000));
    rig.send(ends.request().sequence(1100));
    rig.receive(ends.response().sequence(5200));
    assert_eq!(rig.sample(slot).exchange, 2);
    let wire = rig.wire();
    assert_eq!((wire.started, wire.finished), (2, 2));
}

#[test]
fn a_response_that_trickles_is_one_sample() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.send(ends.request());
    rig.receive(ends.response().sequence(5000).payload(1));
    let first = rig.sample(slot);
    for byte in 1..50 {
        rig.receive(ends.response().sequence(5000 + byte).payload(1));
    }
    assert_eq!(rig.sample(slot), first);
    assert_eq!(rig.wire().finished, 1);
    assert_eq!(rig.wire().bytes_in, 50);
}

#[test]
fn an_interim_response_and_the_final_one_behind_it_are_one_sample() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.send(ends.request());
    rig.receive(ends.response().sequence(5000).payload(25));
    rig.receive(ends.response().sequence(5025).payload(300));
    assert_eq!(rig.sample(slot).exchange, 1);
    assert_eq!(rig.wire().finished, 1);
}

#[test]
fn a_body_sent_after_an_interim_response_is_timed_to_the_final_one() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.send(ends.request().sequence(1000));
    rig.receive(ends.response().sequence(5000).payload(25));
    std::thread::sleep(PAUSE);
    rig.send(ends.request().sequence(1100));
    rig.receive(ends.response().sequence(5025));
    let sample = rig.sample(slot);
    assert_eq!(sample.exchange, 2);
    assert!(sample.first_byte_ns < PAUSE.as_nanos() as u64, "{sample:?}");
}

/// The programs read the kernel's clock, which cannot be turned by hand: what must be told apart by time is that far
/// apart.
const PAUSE: Duration = Duration::from_millis(20);

#[test]
fn a_long_request_is_timed_from_its_last_segment() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    // 200 KB; sequence numbers wrap around on the way.
    const SEGMENTS: u32 = 200;
    for number in 0..SEGMENTS {
        if number == SEGMENTS - 1 {
            std::thread::sleep(PAUSE);
        }
        let sequence = (u32::MAX - 100_000).wrapping_add(number * 1000);
        rig.send(ends.request().sequence(sequence).payload(1000));
    }
    rig.receive(ends.response());
    let sample = rig.sample(slot);
    assert_eq!(sample.exchange, 1);
    assert!(sample.first_byte_ns < PAUSE.as_nanos() as u64, "{sample:?}");
    let wire = rig.wire();
    assert_eq!((wire.started, wire.finished), (1, 1));
    assert_eq!((wire.bytes_out, wire.retransmits), (200_000, 0));
}

#[test]
fn a_request_sent_again_is_timed_from_the_first_time_and_counted() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.send(ends.request());
    std::thread::sleep(PAUSE);
    rig.send(ends.request());
    rig.receive(ends.response());
    let sample = rig.sample(slot);
    assert!(
        sample.first_byte_ns >= PAUSE.as_nanos() as u64,
        "{sample:?}"
    );
    let wire = rig.wire();
    assert_eq!((wire.started, wire.retransmits), (1, 1));
    assert_eq!(wire.bytes_out, 100, "what is sent again is left out");
}

#[test]
fn a_segment_sent_again_with_new_bytes_behind_it_is_both() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    rig.register(ends);
    rig.send(ends.request().payload(100));
    rig.send(ends.request().payload(150));
    let wire = rig.wire();
    assert_eq!((wire.bytes_out, wire.retransmits), (150, 1));
    assert_eq!(wire.started, 1);
}

#[test]
fn response_bytes_sent_again_do_not_answer_the_next_request() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::v4();
    let slot = rig.register(ends);
    rig.send(ends.request().sequence(1000));
    rig.receive(ends.response().sequence(5000));
    rig.send(ends.request().sequence(1100));
    rig.receive(ends.response().sequence(5000));
    assert_eq!(rig.sample(slot).exchange, 1, "the old response once more");
    rig.receive(ends.response().sequence(5200));
    assert_eq!(rig.sample(slot).exchange, 2);
}

#[test]
fn a_bare_acknowledgment_is_neither_request_nor_response() {
    let Some(mut rig) = Rig::new() else { return };
    for ends in [Ends::v4(), Ends::v6()] {
        rig.register(ends);
        rig.send(ends.out(ACK));
        assert_eq!(rig.wire().started, 0, "{}", ends.proxy);
    }
    let ends = Ends::v4();
    rig.send(ends.request());
    rig.receive(ends.back(ACK));
    // Timestamps and selective acknowledgments make it longer, and short frames are filled up on the wire.
    rig.receive(ends.back(ACK).tcp_options(36));
    rig.receive(ends.back(ACK).padding(6));
    assert_eq!(rig.wire().finished, 0);
    assert_eq!(rig.wire().bytes_in, 0);
}

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
fn a_packet_seen_at_the_other_end_of_loopback_finds_nothing() {
    let Some(mut rig) = Rig::new() else { return };
    let ends = Ends::of("127.0.0.1:40000", "127.0.0.1:8080");
    rig.register(ends);
    rig.send(ends.request());
    rig.receive(ends.request());
    rig.send(ends.response());
    assert_eq!(rig.wire().finished, 0, "the response has only left so far");
    rig.receive(ends.response());
    let wire = rig.wire();
    assert_eq!((wire.started, wire.finished), (1, 1));
    assert_eq!((wire.bytes_out, wire.bytes_in), (100, 200));
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
    assert!(
        rig.tables
            .wire
            .iter()
            .all(|row| row.started.load(Relaxed) == 0)
    );
}

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

//! What is a request, what is a response, and what lies between them.

use crate::PAUSE;
use crate::packet::ACK;
use crate::rig::{Ends, Rig, now_ns};

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

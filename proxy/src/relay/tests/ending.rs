//! How links end, and what that says of the endpoint.

use std::time::Duration;

use super::*;
use crate::metrics::LinkEnd;
use crate::seam::{End, Event};

#[test]
fn a_connection_that_ended_in_order_is_a_success_with_the_time_it_took_to_connect() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    world.advance(Duration::from_secs(30));
    world.ends(endpoint, End::Finished);
    world.ends(client, End::Finished);
    let figures = world.figures(1);
    assert_eq!(
        (figures.leases.succeeded, figures.latency_seconds),
        (1, Some(0.001))
    );
    assert_eq!(world.endings(LinkEnd::Finished), 1);
}

#[test]
fn an_endpoint_that_resets_before_it_has_said_anything_has_failed_and_the_client_is_reset() {
    for (is_told_by_sending, has_said) in
        [(false, false), (true, false), (false, true), (true, true)]
    {
        let mut world = World::new(&[1]);
        let (client, endpoint) = world.pair();
        if has_said {
            world.received(endpoint, b"all of the answer");
        }
        world.received(client, b"x");
        let actions = match is_told_by_sending {
            true => world.breaks(endpoint),
            false => world.ends(endpoint, End::Broken),
        };
        assert_eq!(verbs(&actions), ["abort", "abort"]);
        let leases = world.figures(1).leases;
        let expected = (u64::from(has_said), u64::from(!has_said));
        assert_eq!((leases.succeeded, leases.failed), expected);
        assert_eq!(world.endings(LinkEnd::EndpointReset), 1);
        world.assert_all_gone();
    }
}

#[test]
fn a_client_that_goes_away_says_nothing_of_the_endpoint() {
    for is_told_by_sending in [false, true] {
        let mut world = World::new(&[1]);
        let (client, endpoint) = world.pair();
        world.received(endpoint, b"unread");
        let actions = match is_told_by_sending {
            true => world.breaks(client),
            false => world.ends(client, End::Broken),
        };
        assert_eq!(verbs(&actions), ["abort", "abort"]);
        let leases = world.figures(1).leases;
        assert_eq!((leases.failed, leases.succeeded, leases.neutral), (0, 0, 1));
        assert_eq!(world.endings(LinkEnd::ClientReset), 1);
        world.assert_all_gone();
    }
}

#[test]
fn a_client_that_goes_away_while_its_endpoint_is_awaited_ends_the_attempt() {
    let mut world = World::new(&[1]);
    let (client, _) = world.client();
    assert_eq!(verbs(&world.ends(client, End::Broken)), ["abort", "abort"]);
    assert_eq!(world.figures(1).leases.neutral, 1);
    world.assert_all_gone();
}

#[test]
fn an_endpoint_that_ended_and_reads_no_more_has_done_its_part() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    world.received(endpoint, b"all of the answer");
    world.ends(endpoint, End::Finished);
    world.received(client, b"more, unread");
    let actions = world.breaks(endpoint);
    assert_eq!(
        verbs(&actions),
        ["close", "close"],
        "the answer is still sent"
    );
    assert_eq!(world.read(client), b"all of the answer");
    assert_eq!(world.figures(1).leases.succeeded, 1);
}

#[test]
fn silence_ends_a_connection_and_a_byte_does_not() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    world.advance(Duration::from_secs(599));
    world.received(client, b".");
    world.takes(endpoint, 1);
    assert_eq!(verbs(&world.advance(Duration::from_secs(599))), [""; 0]);
    assert_eq!(
        verbs(&world.advance(Duration::from_secs(1))),
        ["abort", "abort"]
    );
    assert_eq!(world.endings(LinkEnd::Idle), 1);
    assert_eq!(world.figures(1).leases.neutral, 1, "it never said anything");
    world.assert_all_gone();
}

#[test]
fn a_drain_ends_in_order_what_does_not_move_and_waits_for_answers() {
    let mut world = World::new(&[1]);
    let (_, _) = world.pair();
    let (asked, slow) = world.pair();
    world.received(asked, b"a question");
    world.takes(slow, 10);
    let (_, answered) = world.pair();
    world.received(answered, b"unread yet");
    world.report(Event::Drain, &[]);
    let millis = Duration::from_millis;
    assert_eq!(verbs(&world.advance(millis(999))), [""; 0]);
    assert_eq!(verbs(&world.advance(millis(1))), ["close", "close"]);
    assert_eq!(world.endings(LinkEnd::Drained), 1);
    assert_eq!(world.figures(1).leases.neutral, 1, "it never said anything");

    assert_eq!(verbs(&world.advance(Duration::from_secs(5))), [""; 0]);
    world.received(slow, b"an answer");
    world.takes(asked, 9);
    assert_eq!(verbs(&world.advance(millis(999))), [""; 0]);
    assert_eq!(verbs(&world.advance(millis(1))), ["close", "close"]);
    assert_eq!(world.endings(LinkEnd::Drained), 2);
    assert_eq!(world.figures(1).leases.succeeded, 1);
}

#[test]
fn whoever_takes_nothing_is_to_blame_for_silence() {
    for (stalls, failed) in [("endpoint", 1), ("client", 0)] {
        let mut world = World::new(&[1]);
        let (client, endpoint) = world.pair();
        match stalls {
            "endpoint" => world.received(client, b"unread"),
            _ => world.received(endpoint, b"unread"),
        };
        world.advance(Duration::from_secs(600));
        assert_eq!(world.figures(1).leases.failed, failed, "{stalls}");
    }
}

#[test]
fn the_access_log_is_told_of_each_connection_at_its_end() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    world.received(client, b"question");
    world.received(endpoint, b"an answer");
    world.advance(Duration::from_secs(2));
    world.ends(client, End::Finished);
    assert!(world.ids.records.is_empty(), "it is not over");
    world.ends(endpoint, End::Finished);
    let (client, endpoint) = world.pair();
    world.received(client, b"?");
    world.ends(endpoint, End::Broken);
    let [finished, reset] = &world.ids.records[..] else {
        panic!("two records: {:?}", world.ids.records);
    };
    assert_eq!(finished.client.to_string(), "192.0.2.7");
    assert_eq!(finished.protocol, Some("TCP"));
    assert_eq!((finished.bytes_in, finished.bytes_out), (8, 9));
    assert_eq!(finished.connect, Some(Duration::from_millis(1)));
    assert!(finished.ended.since(finished.begun) >= Duration::from_secs(2));
    assert_eq!((finished.attempts, finished.error), (1, None));
    assert!(finished.endpoint.is_some() && !finished.backend.is_empty());
    assert_eq!((reset.bytes_in, reset.error), (1, Some("endpoint-reset")));
}

#[test]
fn many_short_connections_leave_nothing_behind() {
    let mut world = World::new(&[1, 2]);
    for _ in 0..20_000 {
        let (client, endpoint) = world.pair();
        world.ends(client, End::Finished);
        world.ends(endpoint, End::Finished);
    }
    world.assert_all_gone();
    let due = world.advance(Duration::from_secs(3600));
    assert_eq!(verbs(&due), [""; 0]);
    assert_eq!(world.endings(LinkEnd::Finished), 20_000);
}

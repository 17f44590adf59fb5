//! Bytes both ways, and who waits for whom.

use super::*;
use crate::seam::End;

const MIB: usize = 1024 * 1024;

#[test]
fn bytes_go_both_ways_as_they_come() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    for turn in 0..3u8 {
        world.received(client, &[turn; 3]);
        world.received(endpoint, &[turn; 5]);
    }
    assert_eq!(world.read(endpoint), [0, 0, 0, 1, 1, 1, 2, 2, 2]);
    assert_eq!(world.read(client).len(), 15);
    assert_eq!(world.counters.l4_bytes_in.value(), 9);
    assert_eq!(world.counters.l4_bytes_out.value(), 15);
}

#[test]
fn what_comes_before_the_endpoint_is_there_is_kept_in_order_and_bounded() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.client();
    assert_eq!(verbs(&world.received(client, b"one ")), [""; 0]);
    let much = vec![b'x'; 70_000];
    assert_eq!(verbs(&world.received(client, &much)), ["pause"]);
    assert_eq!(
        verbs(&world.received(client, b"!")),
        [""; 0],
        "on its way before"
    );
    assert_eq!(verbs(&world.connected(endpoint)), ["send", "resume"]);
    let sent = world.read(endpoint);
    assert_eq!(
        (&sent[..4], sent.len(), sent.last()),
        (&b"one "[..], 70_005, Some(&b'!'))
    );
}

#[test]
fn a_side_that_takes_too_little_stops_the_other_until_it_has_taken() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.pair();
    for (fast, slow) in [(client, endpoint), (endpoint, client)] {
        let chunk = vec![0; MIB / 8];
        assert_eq!(verbs(&world.received(fast, &chunk)), ["send"]);
        assert_eq!(verbs(&world.received(fast, &chunk)), ["send"]);
        let third = world.received(fast, &chunk);
        assert_eq!(verbs(&third), ["send", "pause"]);
        assert_eq!(third[1], Action::Pause { conn: fast });
        assert_eq!(verbs(&world.takes(slow, MIB / 8)), [""; 0]);
        let resumed = world.takes(slow, MIB / 4 - 10);
        assert_eq!(resumed, [Action::Resume { conn: fast }]);
        world.takes(slow, 10);
    }
}

#[test]
fn either_side_may_end_first_and_the_other_goes_on() {
    for client_first in [true, false] {
        let mut world = World::new(&[1]);
        let (client, endpoint) = world.pair();
        let (first, second) = match client_first {
            true => (client, endpoint),
            false => (endpoint, client),
        };
        world.received(first, b"all I have");
        let actions = world.ends(first, End::Finished);
        assert_eq!(actions, [Action::Shutdown { conn: second }]);
        assert_eq!(world.read(second), b"all I have");
        world.received(second, b"then this");
        assert_eq!(world.read(first), b"then this");
        let actions = world.ends(second, End::Finished);
        assert_eq!(verbs(&actions), ["close", "close"]);
        assert_eq!(world.figures(1).leases.succeeded, 1);
        world.assert_all_gone();
    }
}

#[test]
fn a_client_that_ended_before_the_endpoint_was_there_is_answered() {
    let mut world = World::new(&[1]);
    let (client, endpoint) = world.client();
    world.received(client, b"question");
    assert_eq!(verbs(&world.ends(client, End::Finished)), [""; 0]);
    assert_eq!(verbs(&world.connected(endpoint)), ["send", "shutdown"]);
    assert_eq!(world.read(endpoint), b"question");
    world.received(endpoint, b"answer");
    assert_eq!(world.read(client), b"answer");
    world.ends(endpoint, End::Finished);
    world.assert_all_gone();
}

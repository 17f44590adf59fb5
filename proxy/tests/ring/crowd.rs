//! More at once than the submission queue holds: all of it is done, and cancels do not wait for room.

use weir::runtime::ring::{Completion, limits};

use crate::connections::{conn, listening, name, next};
use crate::has_ring;

/// The queue holds 1024 operations.
const CROWD: u32 = 1300;
const GREETING: &[u8] = b"hello";

#[test]
fn a_crowd_larger_than_the_queue_comes_talks_and_goes() {
    if !has_ring() {
        return;
    }
    limits::raise_descriptors().expect("up to the hard limit anybody may");
    let (mut connections, address) = listening();

    (0..CROWD).for_each(|index| connections.connect(conn(index), address));
    let (mut connected, mut accepted) = (0, 0);
    while connected < CROWD || accepted < CROWD {
        match next(&mut connections) {
            Completion::Connected { .. } => connected += 1,
            Completion::Accepted { socket, .. } => {
                connections.adopt(conn(CROWD + accepted), socket);
                accepted += 1;
            }
            other => panic!("{} among those that come", name(&other)),
        }
    }

    (0..CROWD).for_each(|index| connections.queue_copy(conn(index), GREETING));
    let (mut sent, mut received) = (0, 0);
    while sent < CROWD || received < CROWD {
        match next(&mut connections) {
            Completion::Sent { bytes, .. } => {
                assert_eq!(bytes, GREETING.len());
                sent += 1;
            }
            Completion::Received { conn: from, bytes } => {
                assert!(from.index >= CROWD, "whoever is greeted has not spoken");
                assert_eq!(&bytes[..], GREETING);
                received += 1;
            }
            other => panic!("{} among those that talk", name(&other)),
        }
    }

    // A receive is in flight on each: as many cancels as connections.
    (0..2 * CROWD).for_each(|index| connections.abort(conn(index)));
    while connections.gauges().connections > 0 {
        next(&mut connections);
    }
    assert_eq!(connections.gauges().buffers_held, 0);
}

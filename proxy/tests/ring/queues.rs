//! Queues that are too small for what happens in a turn: nothing is lost, it only comes later.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use weir::runtime::ring::{Completion, Connections, Listener, QueueSizes, Waker};
use weir::snapshot::ListenerId;

use crate::connections::{accepted, conn, name, next};
use crate::has_ring;

const CONNECTIONS: u32 = 100;
/// Far fewer than connections.
const SIZES: QueueSizes = QueueSizes {
    submissions: 8,
    completions: 16,
};

/// Takes one completion of each connection; those `wanted` does not want must be none of a connection's.
fn one_of_each(connections: &mut Connections, wanted: impl Fn(&Completion) -> Option<u32>) {
    let mut came = vec![false; CONNECTIONS as usize];
    while came.contains(&false) {
        let completion = next(connections);
        let index = wanted(&completion);
        let index = index.unwrap_or_else(|| panic!("{}", name(&completion))) as usize;
        assert!(!came[index], "once for each");
        came[index] = true;
    }
}

#[test]
fn what_does_not_fit_the_queues_comes_later_and_is_not_lost() {
    if !has_ring() {
        return;
    }
    let waker = Waker::new().expect("an eventfd");
    let mut connections = Connections::with_queues(waker, SIZES).expect("a ring");
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback");
    let address = listener.address();
    connections.listen(ListenerId(0), listener);
    let mut clients: Vec<TcpStream> = (0..CONNECTIONS)
        .map(|index| accepted(&mut connections, address, conn(index)))
        .collect();
    assert_eq!(connections.gauges().overflows, 0);

    // Each of them is a send, a cancel, and the end of a receive, within one turn.
    for index in 0..CONNECTIONS {
        connections.queue_copy(conn(index), &index.to_be_bytes());
        connections.pause(conn(index));
    }
    one_of_each(&mut connections, |completion| match completion {
        Completion::Sent { conn, bytes: 4 } => Some(conn.index),
        _ => None,
    });
    assert!(connections.gauges().overflows > 0, "it was too much");
    for (index, stream) in clients.iter_mut().enumerate() {
        let mut read = [0; 4];
        stream.read_exact(&mut read).expect("what was sent");
        assert_eq!(u32::from_be_bytes(read), index as u32);
        stream.write_all(b"hello").expect("a write");
    }

    for index in 0..CONNECTIONS {
        connections.resume(conn(index));
    }
    one_of_each(&mut connections, |completion| match completion {
        Completion::Received { conn, bytes } if &bytes[..] == b"hello" => Some(conn.index),
        _ => None,
    });

    for index in 0..CONNECTIONS {
        connections.close(conn(index));
    }
    one_of_each(&mut connections, |completion| match completion {
        Completion::Closed { conn } => Some(conn.index),
        _ => None,
    });
    assert_eq!(connections.gauges().connections, 0);
    assert_eq!(connections.gauges().buffers_held, 0);
}

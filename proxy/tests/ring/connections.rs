//! The ring's verbs one by one, without a worker.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use weir::runtime::ring::{Completion, Connections, Listener, Waker};
use weir::seam::{ConnId, End};
use weir::snapshot::ListenerId;

use crate::{PATIENCE, client, has_ring, nowhere, pattern, read_pattern};

/// Long enough for what would happen to happen.
const A_WHILE: Duration = Duration::from_millis(150);

pub fn conn(index: u32) -> ConnId {
    ConnId {
        index,
        generation: 9,
    }
}

/// A ring with its listener.
pub fn listening() -> (Connections, SocketAddr) {
    let mut connections = new();
    let listener = Listener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("loopback");
    let address = listener.address();
    connections.listen(ListenerId(0), listener);
    (connections, address)
}

fn new() -> Connections {
    Connections::new(Waker::new().expect("an eventfd")).expect("a ring")
}

/// A client, accepted as `conn`.
pub fn accepted(connections: &mut Connections, address: SocketAddr, conn: ConnId) -> TcpStream {
    let stream = client(address);
    match next(connections) {
        Completion::Accepted { socket, .. } => connections.adopt(conn, socket),
        other => panic!("{} instead of an accept", name(&other)),
    }
    stream
}

/// The next completion, whenever it comes.
pub fn next(connections: &mut Connections) -> Completion {
    next_within(connections, PATIENCE).expect("something happens")
}

/// The next completion within this time.
pub fn next_within(connections: &mut Connections, length: Duration) -> Option<Completion> {
    let start = Instant::now();
    loop {
        if let Some(completion) = connections.next_completion() {
            return Some(completion);
        }
        let left = length.checked_sub(start.elapsed())?;
        connections.turn(Some(left)).expect("the ring goes on");
    }
}

pub fn name(completion: &Completion) -> &'static str {
    match completion {
        Completion::Accepted { .. } => "accepted",
        Completion::AcceptFailed { .. } => "accept failed",
        Completion::Connected { .. } => "connected",
        Completion::ConnectFailed { .. } => "connect failed",
        Completion::Received { .. } => "received",
        Completion::ReceiveEnded {
            end: End::Finished, ..
        } => "finished",
        Completion::ReceiveEnded {
            end: End::Broken, ..
        } => "broken",
        Completion::Sent { .. } => "sent",
        Completion::SendFailed { .. } => "send failed",
        Completion::Closed { .. } => "closed",
        Completion::Woken => "woken",
    }
}

fn assert_next(connections: &mut Connections, expected: &str) {
    assert_eq!(name(&next(connections)), expected);
}

/// Waits for the close of the only connection, whatever comes before.
fn wait_for_close(connections: &mut Connections) {
    while !matches!(next(connections), Completion::Closed { .. }) {}
    assert_eq!(connections.gauges(), Default::default());
}

#[test]
fn a_ring_can_be_woken_from_another_thread() {
    if !has_ring() {
        return;
    }
    let waker = Waker::new().expect("an eventfd");
    let mut connections = Connections::new(waker.clone()).expect("a ring");
    for _ in 0..3 {
        let waker = waker.clone();
        let thread = thread::spawn(move || waker.wake());
        assert_next(&mut connections, "woken");
        thread.join().expect("a wake");
    }
    assert!(
        next_within(&mut connections, A_WHILE).is_none(),
        "once each"
    );
}

#[test]
fn a_refused_connection_fails_and_closes() {
    if !has_ring() {
        return;
    }
    let mut connections = new();
    connections.connect(conn(0), nowhere());
    connections.queue_copy(conn(0), b"never sent");
    assert_next(&mut connections, "connect failed");
    connections.abort(conn(0));
    wait_for_close(&mut connections);
}

#[test]
fn a_connection_being_made_can_be_given_up() {
    if !has_ring() {
        return;
    }
    // With its queue full, a listener lets further clients wait.
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
    let socket = socket.expect("a socket");
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    socket.bind(&loopback.into()).expect("loopback");
    socket.listen(0).expect("a listener");
    let address = socket.local_addr().expect("an address").as_socket();
    let address = address.expect("an IP address");
    let _first = client(address);
    let mut connections = new();
    connections.connect(conn(0), address);
    assert!(next_within(&mut connections, A_WHILE).is_none(), "it waits");
    connections.abort(conn(0));
    let start = Instant::now();
    wait_for_close(&mut connections);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn bytes_queued_while_connecting_are_sent_once_it_stands() {
    if !has_ring() {
        return;
    }
    let endpoint = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let mut connections = new();
    connections.connect(conn(0), endpoint.local_addr().expect("an address"));
    connections.queue_copy(conn(0), b"hello ");
    connections.queue_copy(conn(0), b"there");
    connections.close(conn(0));
    assert_next(&mut connections, "connected");
    wait_for_close(&mut connections);
    let mut text = String::new();
    let (mut far, _) = endpoint.accept().expect("a connection");
    far.read_to_string(&mut text).expect("text");
    assert_eq!(text, "hello there");
}

#[test]
fn a_close_sends_what_is_queued_to_a_slow_reader() {
    if !has_ring() {
        return;
    }
    const LENGTH: usize = 16 << 20;
    let (mut connections, address) = listening();
    let mut stream = accepted(&mut connections, address, conn(0));
    for start in (0..LENGTH).step_by(100_000) {
        let piece = pattern(start..LENGTH.min(start + 100_000));
        connections.queue_copy(conn(0), &piece);
    }
    connections.close(conn(0));
    connections.queue_copy(conn(0), b"too late");
    let reader = thread::spawn(move || {
        thread::sleep(A_WHILE);
        read_pattern(&mut stream, LENGTH);
    });
    wait_for_close(&mut connections);
    reader.join().expect("the same bytes");
}

#[test]
fn an_abort_drops_what_is_queued_and_resets() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let mut stream = accepted(&mut connections, address, conn(0));
    for _ in 0..100 {
        connections.queue_copy(conn(0), &[0; 1 << 20]);
    }
    // Some of it leaves, and the rest waits for a reader.
    while next_within(&mut connections, A_WHILE).is_some() {}
    connections.abort(conn(0));
    wait_for_close(&mut connections);
    let mut sink = Vec::new();
    let error = stream.read_to_end(&mut sink).expect_err("a reset").kind();
    assert_eq!(error, ErrorKind::ConnectionReset);
    assert!(sink.len() < 100 << 20);
}

#[test]
fn a_shutdown_ends_our_side_alone() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let mut stream = accepted(&mut connections, address, conn(0));
    connections.queue_copy(conn(0), b"last words");
    connections.shutdown(conn(0));
    assert_next(&mut connections, "sent");
    assert!(next_within(&mut connections, A_WHILE).is_none());
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text and its end");
    assert_eq!(text, "last words");
    stream
        .write_all(b"still here")
        .expect("the other side is open");
    assert_next(&mut connections, "received");
    drop(stream);
    assert_next(&mut connections, "finished");
    connections.close(conn(0));
    wait_for_close(&mut connections);
}

#[test]
fn a_paused_connection_receives_nothing_until_it_is_resumed() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let mut stream = accepted(&mut connections, address, conn(0));
    stream.write_all(b"one").expect("a write");
    assert_next(&mut connections, "received");
    connections.pause(conn(0));
    assert!(next_within(&mut connections, A_WHILE).is_none());
    stream.write_all(b"two").expect("a write");
    drop(stream);
    assert!(next_within(&mut connections, A_WHILE).is_none());
    connections.resume(conn(0));
    assert_next(&mut connections, "received");
    assert_next(&mut connections, "finished");
    connections.close(conn(0));
    wait_for_close(&mut connections);
}

#[test]
fn pausing_and_resuming_in_quick_succession_loses_nothing() {
    if !has_ring() {
        return;
    }
    const LENGTH: usize = 4 << 20;
    let (mut connections, address) = listening();
    let mut stream = accepted(&mut connections, address, conn(0));
    let writer = thread::spawn(move || crate::write_pattern(&mut stream, LENGTH));
    let mut received = Vec::new();
    for turn in 0.. {
        match turn % 5 {
            0 => connections.pause(conn(0)),
            1 | 3 => connections.resume(conn(0)),
            _ => {}
        }
        match next_within(&mut connections, Duration::from_millis(5)) {
            Some(Completion::Received { bytes, .. }) => received.extend_from_slice(&bytes),
            Some(Completion::ReceiveEnded { end, .. }) => {
                assert_eq!(end, End::Finished);
                break;
            }
            _ => {}
        }
    }
    writer.join().expect("all is written");
    assert!(received == pattern(0..LENGTH), "the same bytes");
    connections.close(conn(0));
    wait_for_close(&mut connections);
}

#[test]
fn what_is_asked_of_a_connection_that_is_gone_is_ignored() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let stream = accepted(&mut connections, address, conn(0));
    connections.close(conn(0));
    wait_for_close(&mut connections);
    connections.queue_copy(conn(0), b"x");
    connections.resume(conn(0));
    connections.abort(conn(0));
    connections.close(conn(77));
    drop(stream);

    // Its place may be taken by another, which the old name does not reach.
    let mut stream = client(address);
    let Completion::Accepted { socket, .. } = next(&mut connections) else {
        panic!("a client");
    };
    let successor = ConnId {
        index: 0,
        generation: 10,
    };
    connections.adopt(successor, socket);
    connections.abort(conn(0));
    connections.queue_copy(successor, b"hello");
    connections.close(successor);
    wait_for_close(&mut connections);
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("not reset");
    assert_eq!(text, "hello");
}

#[test]
fn a_listener_that_closes_takes_what_is_queued_and_nothing_after() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let id = ListenerId(0);
    // Nobody takes these before the listener is to close.
    let early: Vec<TcpStream> = (0..20).map(|_| client(address)).collect();
    connections.turn_away(id);
    let late = thread::spawn(move || TcpStream::connect_timeout(&address, PATIENCE));
    thread::sleep(Duration::from_millis(100));
    connections.unlisten(id);

    let mut accepted = 0;
    while connections.is_listening() {
        connections.turn(Some(PATIENCE)).expect("the ring goes on");
        while let Some(completion) = connections.next_completion() {
            if let Completion::Accepted { listener, .. } = completion {
                assert_eq!(listener, id);
                accepted += 1;
            }
        }
    }
    assert_eq!(accepted, early.len());
    let late = late.join().expect("no panic");
    assert!(late.is_err(), "it finds nobody when it tries again");
}

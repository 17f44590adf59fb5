//! A worker that relays: everything arrives, whoever is slow, and every end comes through.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::cores::Relay;
use crate::running::Running;
use crate::{client, has_ring, nowhere, pattern, read_pattern, write_pattern};

/// More than all socket buffers on the way hold together.
const BULK: usize = 96 << 20;

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("an address");
    (listener, address)
}

/// A client and the endpoint's end of what the worker has connected for it.
fn pair(running: &Running, endpoint: &TcpListener) -> (TcpStream, TcpStream) {
    let near = client(running.address);
    let (far, _) = endpoint.accept().expect("the worker connects");
    far.set_read_timeout(Some(crate::PATIENCE))
        .expect("a timeout");
    (near, far)
}

#[test]
fn bulk_arrives_whole_though_its_reader_stalls() {
    if !has_ring() {
        return;
    }
    let (endpoint, address) = listen();
    let running = Running::start(Relay::to(address));
    let (mut near, mut far) = pair(&running, &endpoint);
    let written = AtomicUsize::new(0);
    thread::scope(|scope| {
        scope.spawn(|| {
            for start in (0..BULK).step_by(1 << 20) {
                let piece = pattern(start..start + (1 << 20));
                near.write_all(&piece).expect("the worker reads");
                written.fetch_add(piece.len(), Ordering::Relaxed);
            }
            near.shutdown(Shutdown::Write).expect("an end");
        });
        // The reader sleeps until nothing moves any more.
        let mut before = usize::MAX;
        while before != written.load(Ordering::Relaxed) {
            before = written.load(Ordering::Relaxed);
            thread::sleep(Duration::from_millis(200));
        }
        assert!(before < BULK, "the writer was never stopped");
        assert!(running.said().gauges.buffers_held <= 16);
        read_pattern(&mut far, BULK);
    });
    drop((near, far));
    running.wait_until_idle();
    running.drain();
}

#[test]
fn both_directions_are_busy_at_once() {
    if !has_ring() {
        return;
    }
    const LENGTH: usize = 16 << 20;
    let (endpoint, address) = listen();
    let running = Running::start(Relay::to(address));
    let (near, far) = pair(&running, &endpoint);
    thread::scope(|scope| {
        for end in [&near, &far] {
            let mut writer = end.try_clone().expect("a descriptor");
            let mut reader = end.try_clone().expect("a descriptor");
            scope.spawn(move || {
                write_pattern(&mut writer, LENGTH);
                writer.shutdown(Shutdown::Write).expect("an end");
            });
            scope.spawn(move || read_pattern(&mut reader, LENGTH));
        }
    });
    running.wait_until_idle();
    running.drain();
}

#[test]
fn a_half_closed_connection_still_carries_the_other_half() {
    if !has_ring() {
        return;
    }
    let (endpoint, address) = listen();
    let running = Running::start(Relay::to(address));
    let (mut near, mut far) = pair(&running, &endpoint);
    near.write_all(b"question").expect("a write");
    near.shutdown(Shutdown::Write).expect("an end");
    let mut question = String::new();
    far.read_to_string(&mut question).expect("a question");
    assert_eq!(question, "question");
    far.write_all(b"answer").expect("a write");
    drop(far);
    let mut answer = String::new();
    near.read_to_string(&mut answer).expect("an answer");
    assert_eq!(answer, "answer");
    running.wait_until_idle();
    running.drain();
}

#[test]
fn a_reset_comes_through_as_a_reset() {
    if !has_ring() {
        return;
    }
    let (endpoint, address) = listen();
    let running = Running::start(Relay::to(address));
    let (mut near, far) = pair(&running, &endpoint);
    socket2::SockRef::from(&far)
        .set_linger(Some(Duration::ZERO))
        .expect("a reset on close");
    drop(far);
    let read = near.read(&mut [0; 16]);
    let error = read.expect_err("not an orderly end").kind();
    assert_eq!(error, ErrorKind::ConnectionReset);
    running.wait_until_idle();
    running.drain();
}

#[test]
fn a_refused_connection_is_told() {
    if !has_ring() {
        return;
    }
    let running = Running::start(Relay::to(nowhere()));
    for _ in 0..50 {
        let read = client(running.address).read(&mut [0; 16]);
        let error = read.expect_err("not an orderly end").kind();
        assert_eq!(error, ErrorKind::ConnectionReset);
    }
    running.wait_until_idle();
    running.drain();
}

#[test]
fn many_short_connections_leave_nothing_behind() {
    if !has_ring() {
        return;
    }
    const CLIENTS: usize = 4;
    const EACH: usize = 500;
    let (endpoint, address) = listen();
    let running = Running::start(Relay::to(address));
    let before = running.said().gauges;
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..CLIENTS * EACH {
                let (mut far, _) = endpoint.accept().expect("the worker connects");
                let mut word = [0; 8];
                far.read_exact(&mut word).expect("a word");
                far.write_all(&word).expect("a reader");
            }
        });
        for number in 0..CLIENTS {
            let address = running.address;
            scope.spawn(move || {
                for turn in 0..EACH {
                    let mut near = client(address);
                    let word = ((number * EACH + turn) as u64).to_be_bytes();
                    near.write_all(&word).expect("a write");
                    let mut echo = Vec::new();
                    near.read_to_end(&mut echo).expect("an echo");
                    assert_eq!(echo, word);
                }
            });
        }
    });
    let after = running.wait_until_idle().gauges;
    assert_eq!(after, before);
    running.drain();
}

#[test]
fn slow_readers_do_not_take_the_buffers_of_the_others() {
    if !has_ring() {
        return;
    }
    let (endpoint, address) = listen();
    let running = Running::start(Relay::to(address));
    // Each of these fills the queue to a reader that never reads.
    let stalled: Vec<_> = (0..40).map(|_| pair(&running, &endpoint)).collect();
    for (near, _) in &stalled {
        near.set_nonblocking(true).expect("a flag");
        let piece = [7; 64 * 1024];
        let mut near = near;
        while near.write(&piece).is_ok() {}
    }
    let (mut near, mut far) = pair(&running, &endpoint);
    for _ in 0..100 {
        near.write_all(b"ping").expect("a write");
        let mut word = [0; 4];
        far.read_exact(&mut word).expect("it comes through");
        far.write_all(b"pong").expect("a write");
        near.read_exact(&mut word).expect("it comes back");
    }
    drop((near, far, stalled));
    running.wait_until_idle();
    running.drain();
}

#[test]
fn a_worker_with_busy_connections_can_be_ended() {
    if !has_ring() {
        return;
    }
    let (endpoint, address) = listen();
    let running = Running::start(Relay::to(address));
    let pairs: Vec<_> = (0..20).map(|_| pair(&running, &endpoint)).collect();
    for (near, _) in &pairs {
        let mut near = near;
        near.write_all(&[1; 100_000]).expect("a write");
    }
    running.drain();
    for (mut near, _far) in pairs {
        let read = near.read(&mut [0; 16]);
        assert!(read.is_err(), "the drain of this core resets: {read:?}");
    }
}

//! Receive buffers that run out: nothing is lost, and everyone goes on when they are back.

use std::io::Write;
use std::thread;
use std::time::Duration;

use weir::runtime::ring::{Completion, Connections, Slice};

use crate::connections::{accepted, conn, listening, name, next, next_within};
use crate::{has_ring, pattern, write_pattern};

const A_WHILE: Duration = Duration::from_millis(150);
const LENGTH: usize = 4 << 20;

/// Takes all that comes from connection 0, without giving a buffer back, until nothing comes any more.
fn hold_all(connections: &mut Connections) -> Vec<Slice> {
    let mut held = Vec::new();
    while let Some(completion) = next_within(connections, A_WHILE) {
        match completion {
            Completion::Received { conn: from, bytes } if from == conn(0) => held.push(bytes),
            other => panic!("{}: there was no buffer for that", name(&other)),
        }
    }
    held
}

#[test]
fn a_connection_that_finds_no_buffer_goes_on_when_there_is_one() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let mut stream = accepted(&mut connections, address, conn(0));
    let writer = thread::spawn(move || write_pattern(&mut stream, LENGTH));
    let mut received = Vec::new();
    let mut droughts = 0;
    while received.len() < LENGTH {
        let held = hold_all(&mut connections);
        assert!(
            !held.is_empty(),
            "{} of {LENGTH} bytes came",
            received.len()
        );
        droughts += usize::from(connections.gauges().buffers_held > 0);
        held.iter()
            .for_each(|bytes| received.extend_from_slice(bytes));
        drop(held);
        assert_eq!(connections.gauges().buffers_held, 0);
    }
    writer.join().expect("all is written");
    assert!(received == pattern(0..LENGTH), "the same bytes");
    assert!(droughts >= 3, "4 MiB do not fit {droughts} times");
    assert!(connections.gauges().buffers_exhausted >= 1, "it is counted");
    connections.abort(conn(0));
    while !matches!(next(&mut connections), Completion::Closed { .. }) {}
}

#[test]
fn connections_that_come_in_a_drought_are_served_after_it() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let mut greedy = accepted(&mut connections, address, conn(0));
    let writer = thread::spawn(move || {
        write_pattern(&mut greedy, LENGTH);
        greedy
    });
    let held = hold_all(&mut connections);
    let mut others: Vec<_> = (1..=5)
        .map(|index| accepted(&mut connections, address, conn(index)))
        .collect();
    for stream in &mut others {
        stream.write_all(b"hello").expect("a write");
    }
    assert!(next_within(&mut connections, A_WHILE).is_none());

    let mut left = LENGTH - held.iter().map(|bytes| bytes.len()).sum::<usize>();
    drop(held);
    let mut greeted = 0;
    while greeted < others.len() || left > 0 {
        let Completion::Received { conn: from, bytes } = next(&mut connections) else {
            panic!("bytes are all that is left");
        };
        if from == conn(0) {
            left -= bytes.len();
        } else {
            assert_eq!(&bytes[..], b"hello");
            greeted += 1;
        }
    }
    drop(writer.join().expect("all is written"));
    drop(others);
    for index in 0..=5 {
        connections.abort(conn(index));
    }
    while connections.gauges().connections > 0 {
        next(&mut connections);
    }
    assert_eq!(connections.gauges().buffers_held, 0);
}

#[test]
fn a_connection_can_be_closed_in_a_drought() {
    if !has_ring() {
        return;
    }
    let (mut connections, address) = listening();
    let mut stream = accepted(&mut connections, address, conn(0));
    let writer = thread::spawn(move || {
        // Cut off in the middle.
        let _ = stream.write_all(&vec![0; LENGTH]);
    });
    let held = hold_all(&mut connections);
    connections.abort(conn(0));
    while !matches!(next(&mut connections), Completion::Closed { .. }) {}
    writer.join().expect("it ends");
    drop(held);
    assert_eq!(connections.gauges().buffers_held, 0);
}

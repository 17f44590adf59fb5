//! The real ring on loopback: what connections do when peers stall, vanish or refuse, when buffers and descriptors run
//! out, and that everything goes back to where it was. Small cores stand in for the proxy where HTTP would hide what is
//! looked at.

mod buffers;
mod connections;
mod cores;
mod crowd;
mod descriptors;
mod proxy;
mod queues;
mod relaying;
mod running;

use std::env;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Duration;

use weir::runtime::ring::{Connections, Waker};

/// Whether there is a ring here; if not, the calling test is counted as skipped and must return. Under `CI=true` that is
/// a failure.
fn has_ring() -> bool {
    static ANSWER: OnceLock<Result<(), String>> = OnceLock::new();
    let answer = ANSWER.get_or_init(|| {
        let waker = Waker::new().map_err(|error| error.to_string())?;
        let ring = Connections::new(waker).map_err(|error| error.to_string())?;
        drop(ring);
        Ok(())
    });
    let Err(cause) = answer else { return true };
    let is_ci = env::var("CI").as_deref() == Ok("true");
    assert!(!is_ci, "must not be skipped here: {cause}");
    println!("skipped: needs io_uring, but {cause}");
    if let Some(list) = env::var_os("WEIR_TEST_SKIPS") {
        let list = OpenOptions::new().create(true).append(true).open(list);
        let written = list.and_then(|mut list| writeln!(list, "io_uring: {cause}"));
        written.expect("the list of skipped tests can be written");
    }
    false
}

/// Longer than anything takes here: a test that waits for so long has failed.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes no two stretches of which are the same.
fn pattern(range: Range<usize>) -> Vec<u8> {
    range
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8)
        .collect()
}

/// An address nobody listens on.
fn nowhere() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    listener.local_addr().expect("an address")
}

/// A client that does not wait for ever.
fn client(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("someone listens");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// Writes `length` bytes of the pattern.
fn write_pattern(stream: &mut TcpStream, length: usize) {
    const PIECE: usize = 64 * 1024;
    for start in (0..length).step_by(PIECE) {
        let piece = pattern(start..length.min(start + PIECE));
        stream.write_all(&piece).expect("the reader is there");
    }
}

/// Reads to the end: exactly `length` bytes of the pattern.
fn read_pattern(stream: &mut TcpStream, length: usize) {
    let (mut buffer, mut read) = (vec![0; 64 * 1024], 0);
    loop {
        let count = stream.read(&mut buffer).expect("the writer is there");
        if count == 0 {
            break;
        }
        assert!(
            buffer[..count] == pattern(read..read + count),
            "other bytes than sent, after {read}"
        );
        read += count;
    }
    assert_eq!(read, length, "bytes until the end");
}

//! Load of connections: each is made, sends a few bytes, gets the same bytes back, and is closed. No two that are open at
//! once send the same, so that an answer of somebody else's connection is noticed.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use socket2::{Domain, Socket, Type};

use super::{Edge, timespec};
use crate::pattern;

/// Connections one after the other, so many at a time.
#[derive(Clone, Debug)]
pub struct Dialing {
    pub target: SocketAddr,
    pub at_once: usize,
    /// Not recorded.
    pub warm_up: Duration,
    pub length: Duration,
    /// Ends the run earlier, when so many have been recorded.
    pub most: u64,
}

/// What came of those that were recorded.
#[derive(Clone, Debug)]
pub struct Dialed {
    pub elapsed: Duration,
    /// Connections that got back what they had sent.
    pub complete: u64,
    /// Connections that were refused, broke, or took longer than [`PATIENCE`].
    pub failed: u64,
    /// Why the first of those failed.
    pub failures: Vec<String>,
    /// Connections that got back something else.
    pub wrong: u64,
    /// Nanoseconds from connecting to the whole answer.
    pub latency: Histogram<u64>,
}

/// Bytes sent and expected back.
const LENGTH: usize = 64;
const PATIENCE: Duration = Duration::from_secs(10);

impl Dialing {
    /// Runs on the calling thread, in its namespace, and calls `on_edge` when recording starts and when it has ended.
    pub fn run(&self, mut on_edge: impl FnMut(Edge)) -> io::Result<Dialed> {
        let mut run = Run {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            target: self.target,
            calls: (0..self.at_once).map(|_| None).collect(),
            number: 0,
            is_recording: false,
            dialed: Dialed::nothing(),
        };
        let start = Instant::now();
        let mut recorded_from = start;
        let mut events = Vec::with_capacity(256);
        let mut swept = start;
        for slot in 0..self.at_once {
            run.dial(slot)?;
        }
        loop {
            let now = Instant::now();
            if !run.is_recording && now - start >= self.warm_up {
                on_edge(Edge::Start);
                run.is_recording = true;
                recorded_from = Instant::now();
            }
            let is_over = now.saturating_duration_since(recorded_from) >= self.length
                || run.dialed.complete + run.dialed.failed + run.dialed.wrong >= self.most;
            if run.is_recording && is_over {
                run.dialed.elapsed = now - recorded_from;
                on_edge(Edge::End);
                return Ok(run.dialed);
            }
            if now - swept > Duration::from_secs(1) {
                swept = now;
                run.sweep(now)?;
            }
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(
                &run.epoll,
                room,
                Some(&timespec(Duration::from_millis(100))),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let slot = usize::try_from(event.data.u64()).expect("a slot we gave");
                run.advance(slot)?;
            }
        }
    }
}

impl Dialed {
    pub fn per_second(&self) -> f64 {
        self.complete as f64 / self.elapsed.as_secs_f64()
    }

    fn fail(&mut self, why: String, begun: Instant) {
        self.failed += 1;
        if self.failures.len() < 10 {
            let after = begun.elapsed();
            self.failures.push(format!("{why} after {after:.1?}"));
        }
    }

    fn nothing() -> Self {
        Self {
            elapsed: Duration::ZERO,
            complete: 0,
            failed: 0,
            failures: Vec::new(),
            wrong: 0,
            // Three digits up to a minute: constant memory, no resizing while it runs.
            latency: Histogram::new_with_bounds(1, 60_000_000_000, 3)
                .expect("bounds and digits are in range"),
        }
    }
}

struct Run {
    epoll: OwnedFd,
    target: SocketAddr,
    calls: Vec<Option<Call>>,
    /// Of connections made.
    number: u64,
    is_recording: bool,
    dialed: Dialed,
}

/// One connection.
struct Call {
    stream: TcpStream,
    begun: Instant,
    /// Where its bytes are in the pattern.
    offset: u64,
    has_sent: bool,
    received: usize,
}

enum Outcome {
    Complete,
    Failed(String),
    Wrong,
}

impl Run {
    fn dial(&mut self, slot: usize) -> io::Result<()> {
        let socket = Socket::new(Domain::for_address(self.target), Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        let begun = Instant::now();
        // It is under way; whatever else it is, the first write says so.
        let _ = socket.connect(&self.target.into());
        let stream = TcpStream::from(socket);
        let flags = EventFlags::IN | EventFlags::OUT | EventFlags::ET;
        epoll::add(&self.epoll, &stream, EventData::new_u64(slot as u64), flags)?;
        self.number += 1;
        self.calls[slot] = Some(Call {
            stream,
            begun,
            offset: self.number.wrapping_mul(LENGTH as u64),
            has_sent: false,
            received: 0,
        });
        Ok(())
    }

    fn advance(&mut self, slot: usize) -> io::Result<()> {
        let Some(call) = &mut self.calls[slot] else {
            return Ok(());
        };
        let Some(outcome) = call.advance() else {
            return Ok(());
        };
        if self.is_recording {
            let dialed = &mut self.dialed;
            match outcome {
                Outcome::Complete => {
                    dialed.complete += 1;
                    let nanos = call.begun.elapsed().as_nanos();
                    let nanos = u64::try_from(nanos).unwrap_or(u64::MAX);
                    dialed.latency.saturating_record(nanos);
                }
                Outcome::Failed(why) => dialed.fail(why, call.begun),
                Outcome::Wrong => dialed.wrong += 1,
            }
        }
        self.dial(slot)
    }

    /// Gives up what has taken too long.
    fn sweep(&mut self, now: Instant) -> io::Result<()> {
        for slot in 0..self.calls.len() {
            let begun = self.calls[slot].as_ref().map(|call| call.begun);
            if begun.is_some_and(|begun| now.saturating_duration_since(begun) > PATIENCE) {
                if let Some(begun) = begun.filter(|_| self.is_recording) {
                    self.dialed.fail("unanswered".to_owned(), begun);
                }
                self.dial(slot)?;
            }
        }
        Ok(())
    }
}

impl Call {
    /// Does what can be done now; says what came of the connection when it is over.
    fn advance(&mut self) -> Option<Outcome> {
        if !self.has_sent {
            match self.stream.write(pattern::at(self.offset, LENGTH)) {
                Ok(LENGTH) => self.has_sent = true,
                Err(error) if is_later(&error) => return None,
                Ok(_) => return Some(Outcome::Failed("cut".to_owned())),
                Err(error) => return Some(Outcome::Failed(format!("sending: {error}"))),
            }
        }
        // One byte more than there is to come.
        let mut bytes = [0; LENGTH + 1];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Some(Outcome::Failed("ended".to_owned())),
                Ok(length) => {
                    let offset = self.offset + self.received as u64;
                    self.received += length;
                    if self.received > LENGTH || !pattern::is_at(offset, &bytes[..length]) {
                        return Some(Outcome::Wrong);
                    }
                    if self.received == LENGTH {
                        return Some(Outcome::Complete);
                    }
                }
                Err(error) if is_later(&error) => return None,
                Err(error) => return Some(Outcome::Failed(format!("receiving: {error}"))),
            }
        }
    }
}

/// Not connected, or nothing there yet.
fn is_later(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::NotConnected
    ) || error.raw_os_error() == Some(libc::EINPROGRESS)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    fn against(serve: impl Fn(TcpStream) + Send + 'static) -> Dialed {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let target = listener.local_addr().expect("it is bound");
        std::thread::spawn(move || listener.incoming().flatten().for_each(serve));
        let dialing = Dialing {
            target,
            at_once: 2,
            warm_up: Duration::ZERO,
            length: Duration::from_secs(20),
            most: 20,
        };
        dialing.run(|_| {}).expect("epoll works")
    }

    #[test]
    fn bytes_that_come_back_right_wrong_and_not_at_all_are_told_apart() {
        let echoed = against(|mut stream| {
            let mut bytes = [0; LENGTH];
            if stream.read_exact(&mut bytes).is_ok() {
                let _ = stream.write_all(&bytes);
            }
        });
        assert!(echoed.complete >= 20, "{echoed:?}");
        assert_eq!((echoed.failed, echoed.wrong), (0, 0));
        let swapped = against(|mut stream| {
            let mut bytes = [0; LENGTH];
            if stream.read_exact(&mut bytes).is_ok() {
                bytes[LENGTH - 1] ^= 1;
                let _ = stream.write_all(&bytes);
            }
        });
        assert!(swapped.wrong >= 20, "{swapped:?}");
        let closed = against(drop);
        assert!(closed.failed >= 20, "{closed:?}");
    }
}

//! Load: many keep-alive connections on one thread and one epoll, either as fast as the answers come or at a fixed
//! rate. Requests are ready-made bytes and responses are counted by their length, so that making load costs far less
//! than answering it. At a fixed rate a latency counts from when its request was due, not from when it could be sent:
//! a stall shows with all the requests it held up.

pub mod dialing;
mod progress;

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use progress::{Complete, NotHttp, Progress};

/// What to send, to whom, how fast, how long.
#[derive(Clone, Debug)]
pub struct Load {
    pub target: SocketAddr,
    pub connections: usize,
    /// A whole GET request.
    pub request: Vec<u8>,
    pub pace: Pace,
    /// Not recorded.
    pub warm_up: Duration,
    pub length: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// Each connection sends its next request when it has its response.
    AsAnswered,
    /// Requests are due at even intervals.
    PerSecond(f64),
}

/// Where the recorded part of a run begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    Start,
    End,
}

/// What came of it, after the warm-up.
#[derive(Clone, Debug)]
pub struct Report {
    pub elapsed: Duration,
    pub responses: u64,
    /// Responses with a status of 500 or more.
    pub failures: u64,
    /// Connections that broke with a request outstanding, or could not be made again.
    pub broken: u64,
    pub body_bytes: u64,
    /// Nanoseconds from due to complete.
    pub latency: Histogram<u64>,
}

impl Report {
    pub fn per_second(&self) -> f64 {
        self.responses as f64 / self.elapsed.as_secs_f64()
    }

    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.latency.value_at_quantile(quantile))
    }

    fn empty() -> Self {
        Self {
            elapsed: Duration::ZERO,
            responses: 0,
            failures: 0,
            broken: 0,
            body_bytes: 0,
            // Three digits up to a minute: constant memory, no resizing while it runs.
            latency: Histogram::new_with_bounds(1, 60_000_000_000, 3)
                .expect("bounds and digits are in range"),
        }
    }
}

/// A request for `path`, as [`Load::request`] wants it.
pub fn get_request(path: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nhost: weir.test\r\nuser-agent: load\r\naccept: */*\r\n\r\n")
        .into_bytes()
}

impl Load {
    /// Runs on the calling thread, in its namespace, until its length is over or `stop` is set.
    pub fn run(&self, stop: &AtomicBool) -> io::Result<Report> {
        self.run_observed(stop, |_| {})
    }

    /// The same, and calls `on_edge` when recording starts and when it has ended.
    pub fn run_observed(&self, stop: &AtomicBool, on_edge: impl FnMut(Edge)) -> io::Result<Report> {
        let mut run = Run {
            load: self,
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            connections: Vec::with_capacity(self.connections),
            idle: Vec::with_capacity(self.connections),
            late: VecDeque::new(),
            report: Report::empty(),
            recording: false,
        };
        for index in 0..self.connections {
            let connection = Connection::open(self.target)?;
            run.watch(&connection, index)?;
            run.connections.push(Some(connection));
            run.idle.push(index);
        }
        run.drive(stop, on_edge)?;
        Ok(run.report)
    }
}

struct Run<'a> {
    load: &'a Load,
    epoll: OwnedFd,
    /// Nothing where a broken connection could not be made again.
    connections: Vec<Option<Connection>>,
    idle: Vec<usize>,
    /// When requests without a free connection were due.
    late: VecDeque<Instant>,
    report: Report,
    recording: bool,
}

impl Run<'_> {
    fn drive(&mut self, stop: &AtomicBool, mut on_edge: impl FnMut(Edge)) -> io::Result<()> {
        let start = Instant::now();
        let mut recorded_from = start;
        let mut end = start + self.load.warm_up + self.load.length;
        let mut events = Vec::with_capacity(256);
        let mut scratch = vec![0; 256 * 1024];
        let mut due = start;
        loop {
            let now = Instant::now();
            if now >= end || stop.load(Ordering::Relaxed) {
                self.report.elapsed = now - recorded_from;
                if self.recording {
                    on_edge(Edge::End);
                }
                return Ok(());
            }
            if !self.recording && now >= start + self.load.warm_up {
                on_edge(Edge::Start);
                self.recording = true;
                // What the callback took is not part of the run, and no request was due meanwhile.
                recorded_from = Instant::now();
                due = recorded_from;
                end = recorded_from + self.load.length;
                continue;
            }
            let wake = self.send_due(&mut due, now).min(end);
            let timeout = timespec(wake.saturating_duration_since(now));
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let index = usize::try_from(event.data.u64()).expect("an index we gave");
                self.receive(index, &mut scratch)?;
            }
        }
    }

    /// Sends what is due, and says when the next request will be.
    fn send_due(&mut self, due: &mut Instant, now: Instant) -> Instant {
        let Pace::PerSecond(rate) = self.load.pace else {
            while let Some(index) = self.idle.pop() {
                self.send(index, now);
            }
            return now + Duration::from_millis(50);
        };
        let interval = Duration::from_secs_f64(1.0 / rate);
        while *due <= now {
            self.late.push_back(*due);
            *due += interval;
        }
        while let Some(due) = self.late.front().copied() {
            let Some(index) = self.idle.pop() else { break };
            self.late.pop_front();
            self.send(index, due);
        }
        *due
    }

    fn send(&mut self, index: usize, due: Instant) {
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        connection.due = Some(due);
        // A request fits any send buffer; what does not is a broken connection.
        let sent = connection.stream.write(&self.load.request);
        if !matches!(sent, Ok(count) if count == self.load.request.len()) {
            self.mend(index);
        }
    }

    fn receive(&mut self, index: usize, scratch: &mut [u8]) -> io::Result<()> {
        let Some(connection) = &mut self.connections[index] else {
            return Ok(());
        };
        let count = match connection.stream.read(scratch) {
            Ok(0) => {
                self.mend(index);
                return Ok(());
            }
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(_) => {
                self.mend(index);
                return Ok(());
            }
        };
        match connection.progress.take(&scratch[..count]) {
            Ok(None) => {}
            Ok(Some(response)) => {
                let due = connection.due.take();
                self.record(&response, due);
                self.idle.push(index);
                if response.close {
                    self.mend(index);
                }
            }
            Err(NotHttp) => self.mend(index),
        }
        Ok(())
    }

    fn record(&mut self, response: &Complete, due: Option<Instant>) {
        if !self.recording {
            return;
        }
        self.report.responses += 1;
        self.report.body_bytes += response.body as u64;
        if response.status >= 500 {
            self.report.failures += 1;
        }
        if let Some(due) = due {
            let nanos = u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.report.latency.saturating_record(nanos);
        }
    }

    /// Replaces a connection that ended.
    fn mend(&mut self, index: usize) {
        let outstanding = self.connections[index]
            .take()
            .is_some_and(|old| old.due.is_some());
        if outstanding {
            self.report.broken += 1;
            self.idle.push(index);
        }
        let fresh = Connection::open(self.load.target).and_then(|fresh| {
            self.watch(&fresh, index)?;
            Ok(fresh)
        });
        match fresh {
            Ok(fresh) => self.connections[index] = Some(fresh),
            Err(_) => self.report.broken += 1,
        }
    }

    fn watch(&self, connection: &Connection, index: usize) -> io::Result<()> {
        let data = EventData::new_u64(index as u64);
        Ok(epoll::add(
            &self.epoll,
            &connection.stream,
            data,
            EventFlags::IN,
        )?)
    }
}

struct Connection {
    stream: TcpStream,
    /// When the outstanding request was due.
    due: Option<Instant>,
    progress: Progress,
}

impl Connection {
    fn open(target: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&target, Duration::from_secs(5))?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            stream,
            due: None,
            progress: Progress::default(),
        })
    }
}

fn timespec(length: Duration) -> Timespec {
    Timespec {
        tv_sec: length.as_secs().cast_signed(),
        tv_nsec: length.subsec_nanos().into(),
    }
}

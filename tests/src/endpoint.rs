//! Endpoints that do what a script says, well or badly. A script is a function called for each request whose head has
//! come; it answers through the [`Exchange`] and says what becomes of the connection. The named scripts below cover
//! most scenarios.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::message::{Framing, Head, Wire};
use crate::pattern;
use crate::process::Place;

/// A running endpoint. Dropping it closes its listener and its connections.
pub struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What becomes of the connection after a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for the next request.
    Keep,
    Close,
    Reset,
}

/// What an endpoint saw and did.
#[derive(Debug, Default)]
pub struct Seen {
    pub connections: AtomicU64,
    /// Heads received.
    pub requests: AtomicU64,
    /// Nanoseconds from the last request byte read to the first response byte written, summed: the truth that
    /// measurements are held against.
    first_byte_ns: AtomicU64,
    first_bytes: AtomicU64,
}

struct Shared {
    seen: Seen,
    stopping: AtomicBool,
    /// Open connections, to be shut when the endpoint stops.
    streams: Mutex<Vec<TcpStream>>,
    listener: TcpListener,
}

impl Seen {
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Mean time to the first byte of a response; nothing before the first.
    pub fn first_byte(&self) -> Option<Duration> {
        let sum = self.first_byte_ns.load(Ordering::Relaxed);
        let mean = sum.checked_div(self.first_bytes.load(Ordering::Relaxed))?;
        Some(Duration::from_nanos(mean))
    }
}

impl Endpoint {
    /// Listens at `address` in `place`; port 0 takes a free one.
    pub fn start<S>(place: &Place, address: impl Into<(IpAddr, u16)>, script: S) -> io::Result<Self>
    where
        S: Fn(&mut Exchange<'_>) -> io::Result<Next> + Send + Sync + 'static,
    {
        let (ip, port) = address.into();
        let listener = place.run(|| TcpListener::bind((ip, port)))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            seen: Seen::default(),
            stopping: AtomicBool::new(false),
            streams: Mutex::default(),
            listener,
        });
        let accepting = shared.clone();
        let script = Arc::new(script);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = accepting.listener.accept() {
                if accepting.stopping.load(Ordering::Relaxed) {
                    return;
                }
                let shared = accepting.clone();
                let script = script.clone();
                std::thread::spawn(move || shared.serve(stream, &*script));
            }
        });
        Ok(Self { address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn seen(&self) -> &Seen {
        &self.shared.seen
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // Shutting a listening socket wakes the thread in accept; both only fail for sockets that are gone already.
        let _ = socket2::SockRef::from(&self.shared.listener).shutdown(std::net::Shutdown::Both);
        for stream in self.shared.streams().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Shared {
    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Errors end the connection: to the proxy under test they are all the same.
    fn serve(&self, stream: TcpStream, script: &impl Fn(&mut Exchange<'_>) -> io::Result<Next>) {
        let Ok(twin) = stream.try_clone() else { return };
        self.seen.connections.fetch_add(1, Ordering::Relaxed);
        let id = twin.peer_addr().ok();
        self.streams().push(twin);
        let _ = stream.set_nodelay(true);
        let mut wire = Wire::new(stream);
        let ended = loop {
            match self.serve_one(&mut wire, script) {
                Ok(Next::Keep) => {}
                Ok(end) => break end,
                Err(_) => break Next::Close,
            }
        };
        self.streams().retain(|open| open.peer_addr().ok() != id);
        if ended == Next::Reset {
            let _ = wire.reset();
        }
    }

    fn serve_one(
        &self,
        wire: &mut Wire,
        script: &impl Fn(&mut Exchange<'_>) -> io::Result<Next>,
    ) -> io::Result<Next> {
        let Some(head) = wire.read_head()? else {
            return Ok(Next::Close);
        };
        self.seen.requests.fetch_add(1, Ordering::Relaxed);
        let mut exchange = Exchange {
            head,
            wire,
            seen: &self.seen,
            stopping: &self.stopping,
            received: Some(Instant::now()),
            body_read: false,
        };
        script(&mut exchange)
    }
}

/// One request and the means to answer it.
pub struct Exchange<'a> {
    pub head: Head,
    wire: &'a mut Wire,
    seen: &'a Seen,
    stopping: &'a AtomicBool,
    /// When the last byte read of the request came; taken by the first byte of the response.
    received: Option<Instant>,
    body_read: bool,
}

impl Exchange<'_> {
    /// Reads the request's body, once.
    pub fn read_body(&mut self, sink: impl FnMut(&[u8])) -> io::Result<u64> {
        if std::mem::replace(&mut self.body_read, true) {
            return Ok(0);
        }
        let framing = Framing::of_request(&self.head);
        let length = self.wire.read_body(framing, sink)?;
        self.received = Some(Instant::now());
        Ok(length)
    }

    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(received) = self.received.take() {
            let waited = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.seen.first_byte_ns.fetch_add(waited, Ordering::Relaxed);
            self.seen.first_bytes.fetch_add(1, Ordering::Relaxed);
        }
        self.wire.send(bytes)
    }

    /// Sends a whole response, after the request's body.
    pub fn respond(&mut self, status: u16, body: &[u8]) -> io::Result<Next> {
        self.read_body(|_| {})?;
        let head = format!(
            "HTTP/1.1 {status} Scripted\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        let shown = if self.head.method() == "HEAD" {
            b""
        } else {
            body
        };
        self.send(&[head.as_bytes(), shown].concat())?;
        Ok(Next::Keep)
    }

    /// Waits this long after the last byte of the request, or until the endpoint stops.
    pub fn wait(&mut self, delay: Duration) -> io::Result<()> {
        self.read_body(|_| {})?;
        let since = self.received.unwrap_or_else(Instant::now);
        loop {
            let left = delay.saturating_sub(since.elapsed());
            if left.is_zero() {
                return Ok(());
            }
            if self.stopping.load(Ordering::Relaxed) {
                return Err(ErrorKind::Interrupted.into());
            }
            std::thread::sleep(left.min(Duration::from_millis(100)));
        }
    }
}

/// Answers 200 after a delay.
pub fn answers_after(
    delay: Duration,
) -> impl Fn(&mut Exchange<'_>) -> io::Result<Next> + Send + Sync + 'static {
    move |exchange| {
        exchange.wait(delay)?;
        exchange.respond(200, b"hello from an endpoint\n")
    }
}

/// Answers after a delay, and this many requests of ten with a 500, evenly spread.
pub fn fails_of_ten(
    failures: u64,
    delay: Duration,
) -> impl Fn(&mut Exchange<'_>) -> io::Result<Next> + Send + Sync + 'static {
    let count = AtomicU64::new(0);
    move |exchange| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        // Steps of seven visit all ten residues, so failures are spread over the ten.
        let fails = number * 7 % 10 < failures;
        exchange.wait(delay)?;
        match fails {
            true => exchange.respond(500, b"this one was meant to fail\n"),
            false => exchange.respond(200, b"hello from a flaky endpoint\n"),
        }
    }
}

/// Answers after a delay, in pieces with pauses between them.
pub fn trickles(
    delay: Duration,
    pieces: usize,
    pause: Duration,
) -> impl Fn(&mut Exchange<'_>) -> io::Result<Next> + Send + Sync + 'static {
    move |exchange| {
        exchange.wait(delay)?;
        let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {pieces}\r\n\r\n");
        exchange.send(head.as_bytes())?;
        for _ in 0..pieces {
            std::thread::sleep(pause);
            exchange.send(b".")?;
        }
        Ok(Next::Keep)
    }
}

/// Answers a request with a body by its own bytes, with the same framing; streams, whatever the size.
pub fn echoes(exchange: &mut Exchange<'_>) -> io::Result<Next> {
    let mut body = Vec::new();
    exchange.read_body(|piece| body.extend_from_slice(piece))?;
    if exchange.head.field("transfer-encoding").is_none() {
        return exchange.respond(200, &body);
    }
    let mut message = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    for piece in body.chunks(1000) {
        message.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
        message.extend_from_slice(piece);
        message.extend_from_slice(b"\r\n");
    }
    message.extend_from_slice(b"0\r\n\r\n");
    exchange.send(&message)?;
    Ok(Next::Keep)
}

/// `GET /<length>` gives that many bytes of the [`pattern`]; `POST` checks that it was sent the pattern, and answers
/// with the length that was right.
pub fn patterns(exchange: &mut Exchange<'_>) -> io::Result<Next> {
    if exchange.head.method() == "POST" {
        let mut right = 0;
        exchange.read_body(|piece| {
            if pattern::is_at(right, piece) {
                right += piece.len() as u64;
            }
        })?;
        return exchange.respond(200, right.to_string().as_bytes());
    }
    let length: u64 = exchange.head.target()[1..].parse().unwrap_or(0);
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
    exchange.send(head.as_bytes())?;
    let mut sent = 0;
    while sent < length {
        let left = usize::try_from(length - sent).unwrap_or(usize::MAX);
        let piece = pattern::at(sent, left);
        exchange.send(piece)?;
        sent += piece.len() as u64;
    }
    Ok(Next::Keep)
}

/// Takes requests and never answers.
pub fn never_answers(exchange: &mut Exchange<'_>) -> io::Result<Next> {
    exchange.wait(Duration::from_secs(3600))?;
    Ok(Next::Close)
}

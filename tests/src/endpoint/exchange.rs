//! One request, as a script sees it.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Next, Seen};
use crate::message::{Framing, Head, Wire};

/// One request and the means to answer it.
pub struct Exchange<'a> {
    pub head: Head,
    pub(super) wire: &'a mut Wire,
    pub(super) seen: &'a Seen,
    pub(super) stopping: &'a AtomicBool,
    /// When the last byte read of the request came; taken by the first byte of the response.
    pub(super) received: Option<Instant>,
    pub(super) body_read: bool,
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

    /// The next byte of whatever comes behind the head; nothing once the client's side has ended.
    pub fn next_byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = None;
        let read = self.wire.read_body(Framing::Length(1), |bytes| {
            byte = bytes.first().copied();
        });
        match read {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
            read => read.map(|_| byte),
        }
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

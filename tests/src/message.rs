//! Just enough of HTTP/1.1 to play either side against a proxy: reading heads and bodies off a stream. It is written
//! apart from the proxy's own decoder, so that the two do not share a mistake.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};

/// Start line and fields of a message, as they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    pub start: String,
    pub fields: Vec<(String, String)>,
}

impl Head {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.split("\r\n");
        let start = lines.next()?.to_owned();
        let fields = lines
            .filter(|line| !line.is_empty())
            .map(|line| {
                let (name, value) = line.split_once(':')?;
                Some((name.to_owned(), value.trim().to_owned()))
            })
            .collect::<Option<_>>()?;
        Some(Self { start, fields })
    }

    /// The first field of that name, whatever its case.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    pub fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        self.fields
            .iter()
            .filter(move |(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }

    /// Of a request.
    pub fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// Of a request.
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// Of a response; 0 if there is none.
    pub fn status(&self) -> u16 {
        let code = self.start.split(' ').nth(1);
        code.and_then(|code| code.parse().ok()).unwrap_or(0)
    }

    fn length(&self) -> Option<u64> {
        self.field("content-length")?.parse().ok()
    }

    fn is_chunked(&self) -> bool {
        self.field("transfer-encoding")
            .is_some_and(|coding| coding.to_ascii_lowercase().ends_with("chunked"))
    }
}

/// How a body ends (RFC 9112 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    Length(u64),
    Chunked,
    UntilClose,
}

impl Framing {
    pub fn of_request(head: &Head) -> Self {
        if head.is_chunked() {
            return Self::Chunked;
        }
        head.length().map_or(Self::None, Self::Length)
    }

    pub fn of_response(head: &Head, method: &str) -> Self {
        let status = head.status();
        if method == "HEAD" || matches!(status, 100..200 | 204 | 304) {
            return Self::None;
        }
        if head.is_chunked() {
            return Self::Chunked;
        }
        head.length().map_or(Self::UntilClose, Self::Length)
    }
}

/// A stream with the bytes that were read too far.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    /// What was read; from `start` on it is unread.
    buffer: Vec<u8>,
    start: usize,
    /// Room for one read.
    piece: Box<[u8]>,
}

const PIECE: usize = 32 * 1024;

/// A longer head is an error of the proxy under test.
const HEAD_LIMIT: usize = 256 * 1024;

impl Wire {
    pub fn new(stream: TcpStream) -> Self {
        Self {
            stream,
            buffer: Vec::new(),
            start: 0,
            piece: vec![0; PIECE].into(),
        }
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// Ends our side.
    pub fn finish(&self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)
    }

    /// Resets the connection when it is dropped.
    pub fn reset(self) -> io::Result<()> {
        let socket = socket2::SockRef::from(&self.stream);
        socket.set_linger(Some(std::time::Duration::ZERO))
    }

    /// The next head; nothing if the peer closed before its first byte.
    pub fn read_head(&mut self) -> io::Result<Option<Head>> {
        loop {
            let unread = &self.buffer[self.start..];
            if let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
                let text = String::from_utf8_lossy(&unread[..end]).into_owned();
                self.start += end + 4;
                return Head::parse(&text).map(Some).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidData, format!("no head: {text:?}"))
                });
            }
            if unread.len() > HEAD_LIMIT {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "endless head"));
            }
            let empty = unread.is_empty();
            if self.fill()? == 0 {
                return match empty {
                    true => Ok(None),
                    false => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
    }

    /// Hands the body to `sink` piece by piece and returns its length. Chunk trailers are dropped.
    pub fn read_body(&mut self, framing: Framing, mut sink: impl FnMut(&[u8])) -> io::Result<u64> {
        match framing {
            Framing::None => Ok(0),
            Framing::Length(length) => self.read_exactly(length, &mut sink).map(|()| length),
            Framing::Chunked => self.read_chunks(&mut sink),
            Framing::UntilClose => self.read_all(&mut sink),
        }
    }

    fn read_exactly(&mut self, length: u64, sink: &mut impl FnMut(&[u8])) -> io::Result<()> {
        let mut left = length;
        while left > 0 {
            if self.start == self.buffer.len() && self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let unread = &self.buffer[self.start..];
            let take = unread
                .len()
                .min(usize::try_from(left).unwrap_or(usize::MAX));
            sink(&unread[..take]);
            self.start += take;
            left -= take as u64;
        }
        Ok(())
    }

    fn read_chunks(&mut self, sink: &mut impl FnMut(&[u8])) -> io::Result<u64> {
        let mut total = 0;
        loop {
            let line = self.read_line()?;
            let size = line.split(';').next().unwrap_or_default();
            let size = u64::from_str_radix(size.trim(), 16).map_err(|_| {
                io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("no chunk size: {line:?}"),
                )
            })?;
            if size == 0 {
                while !self.read_line()?.is_empty() {}
                return Ok(total);
            }
            self.read_exactly(size, sink)?;
            total += size;
            self.read_line()?;
        }
    }

    fn read_all(&mut self, sink: &mut impl FnMut(&[u8])) -> io::Result<u64> {
        let mut total = 0;
        loop {
            let unread = &self.buffer[self.start..];
            total += unread.len() as u64;
            sink(unread);
            self.start = self.buffer.len();
            if self.fill()? == 0 {
                return Ok(total);
            }
        }
    }

    fn read_line(&mut self) -> io::Result<String> {
        loop {
            let unread = &self.buffer[self.start..];
            if let Some(end) = unread.windows(2).position(|two| two == b"\r\n") {
                let line = String::from_utf8_lossy(&unread[..end]).into_owned();
                self.start += end + 2;
                return Ok(line);
            }
            if self.fill()? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    /// Reads once more, behind what is unread.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let count = self.stream.read(&mut self.piece)?;
        self.buffer.extend_from_slice(&self.piece[..count]);
        Ok(count)
    }
}

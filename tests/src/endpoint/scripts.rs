//! Scripts most scenarios do with.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::{Exchange, Next, Script};
use crate::pattern;

/// A script from a closure.
pub fn script(
    work: impl Fn(&mut Exchange<'_>) -> io::Result<Next> + Send + Sync + 'static,
) -> Script {
    Box::new(work)
}

/// Answers 200 after a delay.
pub fn answers_after(delay: Duration) -> Script {
    script(move |exchange| {
        exchange.wait(delay)?;
        exchange.respond(200, b"hello from an endpoint\n")
    })
}

/// Answers after a delay, and this many requests of ten with a 500, evenly spread.
pub fn fails_of_ten(failures: u64, delay: Duration) -> Script {
    let count = AtomicU64::new(0);
    script(move |exchange| {
        let number = count.fetch_add(1, Ordering::Relaxed);
        // Steps of seven visit all ten residues, so failures are spread over the ten.
        let fails = number * 7 % 10 < failures;
        exchange.wait(delay)?;
        match fails {
            true => exchange.respond(500, b"this one was meant to fail\n"),
            false => exchange.respond(200, b"hello from a flaky endpoint\n"),
        }
    })
}

/// Answers after a delay, in pieces with pauses between them.
pub fn trickle_after(
    exchange: &mut Exchange<'_>,
    delay: Duration,
    pieces: usize,
    pause: Duration,
) -> io::Result<Next> {
    exchange.wait(delay)?;
    let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {pieces}\r\n\r\n");
    exchange.send(head.as_bytes())?;
    for _ in 0..pieces {
        std::thread::sleep(pause);
        exchange.send(b".")?;
    }
    Ok(Next::Keep)
}

/// Answers a request with a body by its own bytes, with the same framing; streams, whatever the size.
pub fn echo(exchange: &mut Exchange<'_>) -> io::Result<Next> {
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
pub fn pattern_bodies(exchange: &mut Exchange<'_>) -> io::Result<Next> {
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
pub fn never_answer(exchange: &mut Exchange<'_>) -> io::Result<Next> {
    exchange.wait(Duration::from_secs(3600))?;
    Ok(Next::Close)
}

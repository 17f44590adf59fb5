//! Endpoints that answer each request with its own tag - well, badly, too early, half, or not at all.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus as Random;

use super::client::{Tag, a_length};

/// What an endpoint knows of one of its connections.
#[derive(Default)]
pub struct Origin {
    /// Bytes it has understood.
    understood: usize,
    /// What it is about to say.
    pub outbox: Vec<u8>,
    /// It closes when that is said.
    pub closes: bool,
    has_answered_early: bool,
}

/// One request as an endpoint sees it.
pub struct Seen {
    pub tag: Tag,
    pub method: String,
    length: usize,
    is_complete: bool,
}

impl Origin {
    /// Looks at what has come, and may decide on an answer. Gives back a request that has come whole.
    pub fn look(&mut self, received: &[u8], random: &mut Random) -> Option<Seen> {
        let seen = Seen::parse(&received[self.understood..])?;
        if seen.is_complete {
            self.understood += seen.length;
            if !std::mem::take(&mut self.has_answered_early) {
                self.answer(&seen, random);
            }
            return Some(seen);
        }
        if !self.has_answered_early && random.random_ratio(1, 10) {
            self.has_answered_early = true;
            self.answer(&seen, random);
        }
        None
    }

    fn answer(&mut self, seen: &Seen, random: &mut Random) {
        if random.random_ratio(1, 4) {
            let interim = [
                "HTTP/1.1 100 Continue\r\n\r\n",
                "HTTP/1.1 103 Early Hints\r\n\r\n",
            ];
            self.outbox
                .extend(interim[random.random_range(0..2)].bytes());
        }
        let start = self.outbox.len();
        match random.random_range(0..30) {
            // Never.
            0 => return,
            // Nonsense: none of it may look like a tag.
            1 => return self.outbox.extend(nonsense(random)),
            _ => self.closes |= push_response(&mut self.outbox, seen, random),
        }
        match random.random_range(0..30) {
            0 => {
                let end = random.random_range(start..self.outbox.len());
                self.outbox.truncate(end);
                self.closes = true;
            }
            1 => self.outbox.extend(nonsense(random)),
            2 => self.closes = true,
            _ => {}
        }
    }
}

impl Seen {
    /// `None` until the head has come.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let head_length = bytes.windows(4).position(|end| end == b"\r\n\r\n")? + 4;
        let (head, body) = bytes.split_at(head_length);
        let head = String::from_utf8_lossy(head);
        let (method, rest) = head.split_once(" /")?;
        let lower = head.to_ascii_lowercase();
        let field = |name: &str| {
            let value = lower.split(name).nth(1)?;
            value.split("\r\n").next()
        };
        let body_length = if field("\r\ntransfer-encoding:").is_some() {
            const LAST: &[u8] = b"0\r\n\r\n";
            body.windows(LAST.len())
                .position(|end| end == LAST)
                .map(|at| at + LAST.len())
        } else {
            let length =
                field("\r\ncontent-length:").map_or(0, |value| value.trim().parse().unwrap_or(0));
            (length <= body.len()).then_some(length)
        };
        let length = head_length + body_length.unwrap_or(body.len());
        let tag = Tag::parse(rest.split(' ').next()?)?;
        for other in Tag::all_in(&bytes[..length]) {
            assert_eq!(
                other.client, tag.client,
                "bytes of another client's request"
            );
        }
        Some(Self {
            tag,
            method: method.to_owned(),
            length,
            is_complete: body_length.is_some(),
        })
    }
}

/// Whether it ends with the connection.
fn push_response(outbox: &mut Vec<u8>, seen: &Seen, random: &mut Random) -> bool {
    let status = [200, 200, 200, 201, 404, 429, 500, 503, 204, 304][random.random_range(0..10)];
    let payload = seen.tag.body(a_length(random));
    let has_body = seen.method != "HEAD" && status != 204 && status != 304;
    let (framing, body, closes) = match random.random_range(0..8) {
        0 => ("Connection: close\r\n".to_owned(), payload, true),
        1..4 => {
            let chunked = format!("{:x};x\r\n{payload}\r\n0\r\nT: u\r\n\r\n", payload.len());
            ("Transfer-Encoding: chunked\r\n".to_owned(), chunked, false)
        }
        _ => (
            format!("Content-Length: {}\r\n", payload.len()),
            payload,
            false,
        ),
    };
    outbox.extend(format!("HTTP/1.1 {status} Any\r\n{framing}\r\n").bytes());
    if has_body {
        outbox.extend(body.bytes());
    }
    closes
}

fn nonsense(random: &mut Random) -> Vec<u8> {
    const WORDS: &[u8] = b"HTTP/1.1 200\r\n\r\n:0aZ\0\xff ;\t";
    let length = random.random_range(1..60);
    (0..length)
        .map(|_| WORDS[random.random_range(0..WORDS.len())])
        .collect()
}

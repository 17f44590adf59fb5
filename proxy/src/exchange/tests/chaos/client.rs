//! Clients that say what they were made to say, in whatever pieces. Every request has an id, and what is sent of its
//! body is made of that id alone, so that a byte that went astray is seen.

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus as Random;
use rand::seq::IndexedRandom;

use crate::seam::ConnId;

/// Names one request of one client: `<client.request>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag {
    pub client: usize,
    pub request: usize,
}

impl Tag {
    /// A body of roughly this length.
    pub fn body(self, length: usize) -> String {
        let tag = format!("<{}.{}>", self.client, self.request);
        tag.repeat(length / tag.len() + 1)
    }

    /// All tags in these bytes, in order; one cut off at the end is left out.
    pub fn all_in(bytes: &[u8]) -> Vec<Tag> {
        let text = String::from_utf8_lossy(bytes);
        let tags = text.split('<').skip(1);
        tags.filter_map(|rest| Tag::parse(rest.split_once('>')?.0))
            .collect()
    }

    /// As a path or a body spells it, without what is around it.
    pub fn parse(text: &str) -> Option<Tag> {
        let (client, request) = text.split_once('.')?;
        Some(Tag {
            client: client.parse().ok()?,
            request: request.parse().ok()?,
        })
    }
}

pub struct Client {
    pub conn: ConnId,
    /// What it will say.
    script: Vec<u8>,
    said: usize,
}

impl Client {
    pub fn new(conn: ConnId, number: usize, random: &mut Random) -> Self {
        let mut script = Vec::new();
        for request in 0..random.random_range(1..8) {
            let tag = Tag {
                client: number,
                request,
            };
            script.extend(a_request(tag, random).bytes());
        }
        if random.random_ratio(1, 6) {
            // Neither a digit nor a bracket, which could make a tag another's.
            let at = random.random_range(0..script.len());
            script[at] = *b"\0\n\r :/>aX\x7f".choose(random).expect("some");
        }
        Self {
            conn,
            script,
            said: 0,
        }
    }

    /// The next piece; `None` when all has been said.
    pub fn say(&mut self, random: &mut Random) -> Option<&[u8]> {
        let left = self.script.len() - self.said;
        if left == 0 {
            return None;
        }
        let most = if random.random_ratio(1, 2) {
            8 * 1024
        } else {
            40
        };
        let length = random.random_range(1..=left.min(most));
        let start = self.said;
        self.said += length;
        Some(&self.script[start..self.said])
    }
}

fn a_request(tag: Tag, random: &mut Random) -> String {
    let method = ["GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE"][random.random_range(0..7)];
    let version = if random.random_ratio(1, 12) {
        "1.0"
    } else {
        "1.1"
    };
    let connection = match random.random_range(0..12) {
        0 => "Connection: close\r\n",
        1 => "Connection: keep-alive\r\n",
        _ => "",
    };
    let expect = if random.random_ratio(1, 12) {
        "Expect: 100-continue\r\n"
    } else {
        ""
    };
    let (framing, body) = match random.random_range(0..4) {
        0 if version == "1.1" => {
            let payload = tag.body(a_length(random));
            let body = format!("{:x}\r\n{payload}\r\n0\r\n\r\n", payload.len());
            ("Transfer-Encoding: chunked\r\n".to_owned(), body)
        }
        1 => {
            let payload = tag.body(a_length(random));
            (format!("Content-Length: {}\r\n", payload.len()), payload)
        }
        2 if method == "POST" => ("Content-Length: 0\r\n".to_owned(), String::new()),
        _ => Default::default(),
    };
    let Tag { client, request } = tag;
    format!(
        "{method} /{client}.{request} HTTP/{version}\r\nHost: a\r\n{connection}{expect}{framing}\r\n{body}"
    )
}

/// Mostly short, sometimes long enough to stop a reader.
pub fn a_length(random: &mut Random) -> usize {
    match random.random_range(0..40) {
        0 => random.random_range(0..500_000),
        1..10 => random.random_range(0..20_000),
        _ => random.random_range(0..60),
    }
}

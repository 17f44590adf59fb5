//! What was sent of a request, kept as long as it may have to be sent again.
//!
//! | the attempt ended | sent again if all of it was kept, and |
//! |---|---|
//! | before a connection stood | in any case: nobody has seen it |
//! | before any response, where the rule asks for retries | it is idempotent (RFC 9110, section 9.2.2) |
//! | with a status the rule lists | in any case: whoever lists it vouches that such a response means that nothing was done |
//! | on a connection that had been idle, which its endpoint may have closed in the same moment | it is idempotent, or no byte of its body has left (RFC 9112, section 9.3.1) |

use std::io::Write;

use crate::http::RequestFraming;
use crate::http::h1::RequestHead;
use crate::metrics::{RetryReason, Unrepeatable};
use crate::route::{Retry, RetryOn};

/// Bytes of a head, and bytes of a body, that are kept. A request with more of either is sent once.
const MAX_HEAD: usize = 64 * 1024;
pub const MAX_BODY: usize = 64 * 1024;

#[derive(Debug)]
pub struct Replay {
    /// Head and body as sent, from the first byte.
    bytes: Vec<u8>,
    head_length: usize,
    /// Nothing that was sent is missing.
    is_whole: bool,
    is_idempotent: bool,
    has_body: bool,
    /// The head names the endpoint it was written for, and is no use for another.
    names_endpoint: bool,
    /// It may be tried again after it has reached an endpoint.
    outlives_sending: bool,
    place: Place,
}

/// How far the bytes have got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Their connection does not stand yet.
    Here,
    /// On a connection that had been idle.
    Reused,
    /// On a connection made for them.
    Fresh,
}

impl Replay {
    /// `memory` is empty, and used for what is kept.
    pub fn new(head: &RequestHead, names_endpoint: bool, memory: Vec<u8>) -> Self {
        Self {
            bytes: memory,
            head_length: 0,
            is_whole: false,
            is_idempotent: head.method().is_idempotent(),
            has_body: !matches!(
                head.framing(),
                RequestFraming::None | RequestFraming::Length(0)
            ),
            names_endpoint,
            outlives_sending: false,
            place: Place::Here,
        }
    }

    /// What the rule says has become known.
    pub fn keep_for(&mut self, retry: &Retry) {
        self.outlives_sending = match retry.on {
            RetryOn::NoConnection => false,
            RetryOn::Failure(codes) => {
                retry.attempts > 0 && (self.is_idempotent || !codes.is_empty())
            }
        };
    }

    /// The head was written for the first time.
    pub fn on_head(&mut self, head: &[u8]) {
        self.is_whole = head.len() <= MAX_HEAD;
        if self.is_whole {
            self.bytes.extend_from_slice(head);
            self.head_length = head.len();
        }
    }

    /// More of the request was sent.
    pub fn on_body(&mut self, bytes: &[u8]) {
        if !self.is_whole {
            return;
        }
        let is_wanted = match self.place {
            Place::Here => true,
            Place::Reused => self.is_idempotent || self.outlives_sending,
            Place::Fresh => self.outlives_sending,
        };
        if is_wanted && self.bytes.len() - self.head_length + bytes.len() <= MAX_BODY {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.forget();
        }
    }

    /// It goes out on a connection that waits to be made.
    pub fn on_connect(&mut self) {
        self.place = Place::Here;
    }

    /// It goes out on a connection that had been idle.
    pub fn on_reuse(&mut self) {
        self.place = Place::Reused;
        if !self.outlives_idle_connection() && !self.outlives_sending {
            self.forget();
        }
    }

    /// The connection made for it stands.
    pub fn on_connected(&mut self) {
        self.place = Place::Fresh;
        if !self.outlives_sending {
            self.forget();
        }
    }

    /// Whether it may go to another endpoint after this, and if not, why.
    pub fn outlives(&self, reason: RetryReason) -> Result<(), Unrepeatable> {
        let may_be_repeated = match reason {
            RetryReason::NoConnection => self.place == Place::Here,
            RetryReason::NoResponse | RetryReason::Timeout => self.is_idempotent,
            RetryReason::Status => true,
        };
        if !may_be_repeated {
            Err(Unrepeatable::NotIdempotent)
        } else if self.names_endpoint {
            Err(Unrepeatable::NamesEndpoint)
        } else if !self.is_whole {
            Err(Unrepeatable::TooLarge)
        } else {
            Ok(())
        }
    }

    /// Whether it may go to the same endpoint again, if the connection it was put on had been closed.
    pub fn outlives_idle_connection(&self) -> bool {
        let has_sent_body = self.bytes.len() > self.head_length;
        self.is_whole
            && self.place == Place::Reused
            && (self.is_idempotent || (self.has_body && !has_sent_body))
    }

    /// Writes what was sent before. `extra` counts attempts at other endpoints, and is told to them.
    pub fn write(&self, out: &mut Vec<u8>, extra: usize) {
        if extra == 0 {
            out.extend_from_slice(&self.bytes);
            return;
        }
        let (head, body) = self.bytes.split_at(self.head_length);
        let fields = head.strip_suffix(b"\r\n").unwrap_or(head);
        out.extend_from_slice(fields);
        write!(out, "x-retry-attempt: {extra}\r\n\r\n").expect("writing to a Vec cannot fail");
        out.extend_from_slice(body);
    }

    pub fn into_memory(self) -> Vec<u8> {
        self.bytes
    }

    /// It will not be sent again.
    pub fn forget(&mut self) {
        self.is_whole = false;
        self.bytes.clear();
    }
}

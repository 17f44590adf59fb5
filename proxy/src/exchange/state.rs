//! What is remembered of an exchange while it runs.

use crate::balance::{LatencySample, Lease};
use crate::http::h1::{BodyDecoder, BodyForm, RequestHead};
use crate::http::{Method, Persistence, RequestFraming, Status, Version};
use crate::moment::Moment;
use crate::seam::ConnId;

/// Bytes of a request kept to be sent again; a request that is longer cannot be.
const MAX_REPLAY: usize = 64 * 1024;

#[derive(Debug)]
pub struct Exchange {
    pub downstream: ConnId,
    pub upstream: Option<ConnId>,
    pub lease: Option<Lease>,
    pub method: Method,
    /// The client's.
    pub version: Version,
    /// Whether the client's connection outlives the exchange.
    pub persistence: Persistence,
    pub request_body: BodyDecoder,
    pub response: Response,
    pub replay: Replay,
    /// When the latest bytes of the request were handed to a standing connection.
    pub request_sent_at: Moment,
    /// Number of the kernel's latest sample when this attempt began.
    pub sample_before: u64,
    pub latency: Option<LatencySample>,
}

#[derive(Debug)]
pub enum Response {
    /// Its head has not come; so many interim ones have.
    Awaited { interim: u8 },
    Relaying {
        status: Status,
        body: BodyDecoder,
        upstream_persistence: Persistence,
    },
}

impl Exchange {
    pub fn new(downstream: ConnId, head: &RequestHead, memory: Vec<u8>, now: Moment) -> Self {
        Self {
            downstream,
            upstream: None,
            lease: None,
            method: head.method(),
            version: head.version(),
            persistence: head.persistence(),
            request_body: BodyDecoder::of_request(head.framing(), BodyForm::Framed),
            response: Response::Awaited { interim: 0 },
            replay: Replay::new(head, memory),
            request_sent_at: now,
            sample_before: 0,
            latency: None,
        }
    }

    /// Whether the endpoint's connection can take another request when this response is complete.
    pub fn keeps_upstream(&self) -> bool {
        let stays = matches!(
            self.response,
            Response::Relaying {
                upstream_persistence: Persistence::KeepAlive,
                ..
            }
        );
        stays && self.request_body.is_complete()
    }

    /// Whether the client's connection can carry another request when this response is complete.
    pub fn keeps_downstream(&self) -> bool {
        self.persistence.is_keep_alive() && self.request_body.is_complete()
    }
}

/// What was sent of a request on a connection that had been idle. The endpoint may have closed it in the same moment;
/// then the request may be sent again if it is idempotent, or if no byte of its body has left (RFC 9112, section 9.3.1).
#[derive(Debug)]
pub struct Replay {
    bytes: Vec<u8>,
    is_idempotent: bool,
    has_body: bool,
    is_possible: bool,
}

impl Replay {
    fn new(head: &RequestHead, memory: Vec<u8>) -> Self {
        Self {
            bytes: memory,
            is_idempotent: head.method().is_idempotent(),
            has_body: !matches!(
                head.framing(),
                RequestFraming::None | RequestFraming::Length(0)
            ),
            is_possible: false,
        }
    }

    /// The head was sent on a connection that had been idle.
    pub fn begin(&mut self, head: &[u8]) {
        self.is_possible = (self.is_idempotent || self.has_body) && head.len() <= MAX_REPLAY;
        if self.is_possible {
            self.bytes.extend_from_slice(head);
        }
    }

    /// More of the request was sent.
    pub fn on_body(&mut self, bytes: &[u8]) {
        if !self.is_possible {
            return;
        }
        if self.is_idempotent && self.bytes.len() + bytes.len() <= MAX_REPLAY {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.is_possible = false;
        }
    }

    pub fn is_possible(&self) -> bool {
        self.is_possible
    }

    /// Gives the bytes out, once.
    pub fn take(&mut self) -> Vec<u8> {
        self.is_possible = false;
        std::mem::take(&mut self.bytes)
    }

    /// The memory, emptied; nothing if it grew too large to keep.
    pub fn into_memory(mut self) -> Option<Vec<u8>> {
        const KEPT: usize = 4 * 1024;
        self.bytes.clear();
        (self.bytes.capacity() <= KEPT).then_some(self.bytes)
    }
}

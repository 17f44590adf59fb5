//! Copies of requests, for the mirrors of their rules: the endpoint's side of an exchange that has no client. The
//! response is read for its verdict and thrown away. Nothing waits for a copy, and what cannot be copied is counted.
//!
//! ```text
//! begin ─► collect, as the request comes ─► pick ─► (connect) ─► sent ─► response head ─► body ─► outcome
//!   └─────────────┴─────────────────────────┴─► dropped, by reason
//! ```

mod request;
mod response;

use std::net::SocketAddr;
use std::time::Duration;

use super::Proxy;
use super::state::Response;
use super::verdict::Timing;
use crate::balance::{AffinityKey, BackendId, Lease, Outcome, Suggested};
use crate::conn::MirrorId;
use crate::http::Method;
use crate::metrics::Unmirrored;
use crate::moment::Moment;
use crate::seam::ConnId;
use crate::snapshot::Hold;

/// The copy of a request.
#[derive(Debug)]
pub struct Mirrored {
    backend: BackendId,
    key: Option<AffinityKey>,
    source: SocketAddr,
    /// Of the snapshot its request began with, until the response is judged.
    hold: Option<Hold>,
    method: Method,
    /// Time its rule gives one try.
    limit: Option<Duration>,
    /// The head as the client sent it, if the backend's condition asks for it.
    kept_head: Option<Vec<u8>>,
    /// What is to be sent, as far as it has come.
    request: Vec<u8>,
    head_length: usize,
    /// `None` as long as it is collected.
    attempt: Option<Attempt>,
}

/// The only try there is.
#[derive(Debug)]
struct Attempt {
    upstream: ConnId,
    /// Given back at the end.
    lease: Option<Lease>,
    place: Place,
    request_sent_at: Moment,
    /// Number of the kernel's latest sample when the request was sent.
    sample_before: u64,
    timing: Timing,
    response: Response,
    /// Bytes of the response after its head.
    body_length: usize,
}

/// The connection it is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// One that does not stand yet.
    Connecting,
    /// One made for it.
    Fresh,
    /// One that had been idle.
    Reused,
}

#[cfg(test)]
impl Mirrored {
    pub fn upstream(&self) -> Option<ConnId> {
        Some(self.attempt.as_ref()?.upstream)
    }
}

impl Proxy {
    /// It is not sent.
    fn drop_mirrored(&mut self, id: MirrorId, reason: Unmirrored) {
        self.counters.unmirrored.of(reason).increment();
        self.end_mirrored(id);
    }

    /// The try is over. Its connection is the caller's to end or keep.
    fn settle_mirrored(&mut self, id: MirrorId, outcome: Outcome, now: Moment) -> Option<Attempt> {
        let mut attempt = self.end_mirrored(id)?;
        let rate_limit = match &attempt.response {
            Response::Relaying { verdict, .. } => verdict.rate_limit,
            Response::Awaited { .. } => None,
        };
        let suggested = Suggested {
            rate_limit,
            backoff: None,
        };
        self.settle(attempt.lease.take(), outcome, suggested, now);
        Some(attempt)
    }

    /// A drain does not wait for copies when the last client has gone.
    pub(super) fn drain_copies(&mut self, now: Moment) {
        let copies: Vec<MirrorId> = self.mirrored.iter().map(|(id, _)| id).collect();
        for copy in copies {
            if let Some(attempt) = self.settle_mirrored(copy, Outcome::Neutral, now) {
                self.abort(attempt.upstream, now);
            }
        }
    }

    fn end_mirrored(&mut self, id: MirrorId) -> Option<Attempt> {
        let mirrored = self.mirrored.remove(id)?;
        if let Some(hold) = mirrored.hold {
            self.snapshots.release(hold);
        }
        self.recycle([Some(mirrored.request), mirrored.kept_head]);
        mirrored.attempt
    }
}

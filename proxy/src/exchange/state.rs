//! What is remembered of an exchange while it runs.

use std::sync::Arc;

use super::replay::Replay;
use super::verdict::{Timing, Verdict};
use crate::access_log::Record;
use crate::balance::{AffinityKey, BackendId, LatencySpan, Lease, Suggested};
use crate::conn::MirrorId;
use crate::http::h1::{BodyDecoder, BodyForm, RequestHead};
use crate::http::{Method, Persistence, Version};
use crate::moment::Moment;
use crate::route::{Filters, Retry, Timeouts};
use crate::seam::ConnId;
use crate::snapshot::Hold;

#[derive(Debug)]
pub struct Exchange {
    pub downstream: ConnId,
    pub upstream: Option<ConnId>,
    /// `None` until it is known where the request goes.
    pub attempts: Option<Attempts>,
    pub lease: Option<Lease>,
    /// Of the snapshot it began with, as long as another endpoint may be picked.
    pub hold: Option<Hold>,
    pub method: Method,
    /// The client's.
    pub version: Version,
    /// Whether the client's connection outlives the exchange.
    pub persistence: Persistence,
    pub request_body: BodyDecoder,
    /// What the client wants its connection to become.
    pub asked_protocol: Option<Box<[u8]>>,
    /// It has: bodies are what goes either way, to its end.
    pub is_tunnel: bool,
    /// When its head had come whole.
    pub began: Moment,
    pub response: Response,
    pub replay: Replay,
    /// When the latest bytes of the request were handed to a standing connection.
    pub request_sent_at: Moment,
    /// Number of the kernel's latest sample when this attempt began.
    pub sample_before: u64,
    pub timing: Timing,
    /// The request's head as it came, if the backend's condition asks for it.
    pub kept_head: Option<Vec<u8>>,
    /// Copies of the request for mirrors, as long as it comes.
    pub mirrored: Vec<MirrorId>,
    /// For the access log; `None` where there is none.
    pub record: Option<Box<Record>>,
}

/// Where a request goes, and where it has been.
#[derive(Debug)]
pub struct Attempts {
    pub backend: BackendId,
    pub key: Option<AffinityKey>,
    pub retry: Retry,
    pub timeouts: Timeouts,
    pub filters: Option<Arc<Filters>>,
    /// Length of the path's prefix by which its rule was found.
    pub matched: usize,
    /// Rows of the endpoints at which an attempt has failed.
    pub tried: Vec<u32>,
    /// When the next attempt is made, if it has to wait.
    pub next_at: Option<Moment>,
}

impl Attempts {
    pub fn is_mirrored(&self) -> bool {
        let filters = self.filters.as_ref();
        filters.is_some_and(|filters| !filters.mirrors.is_empty())
    }

    pub fn has_left(&self) -> bool {
        self.tried.len() < usize::from(self.retry.attempts)
    }
}

#[derive(Debug)]
pub enum Response {
    /// Its head has not come; so many interim ones have.
    Awaited { interim: u8 },
    Relaying {
        verdict: Verdict,
        body: BodyDecoder,
        upstream_persistence: Persistence,
    },
}

impl Exchange {
    pub fn new(
        downstream: ConnId,
        hold: Hold,
        head: &RequestHead,
        replay: Replay,
        now: Moment,
    ) -> Self {
        Self {
            downstream,
            upstream: None,
            attempts: None,
            lease: None,
            hold: Some(hold),
            method: head.method(),
            version: head.version(),
            persistence: head.persistence(),
            began: now,
            request_body: BodyDecoder::of_request(head.framing(), BodyForm::Framed),
            asked_protocol: None,
            is_tunnel: false,
            response: Response::Awaited { interim: 0 },
            replay,
            request_sent_at: now,
            sample_before: 0,
            timing: Timing {
                span: LatencySpan::default(),
                attempt_began: now,
                first_byte: None,
            },
            kept_head: None,
            mirrored: Vec::new(),
            record: None,
        }
    }

    /// It is known where the request goes.
    pub fn begin_attempts(&mut self, attempts: Attempts) {
        self.replay.keep_for(&attempts.retry);
        self.attempts = Some(attempts);
    }

    /// How long the endpoint is to be left alone if it is ejected now.
    pub fn suggested(&self) -> Suggested {
        let rate_limit = match &self.response {
            Response::Relaying { verdict, .. } => verdict.rate_limit,
            Response::Awaited { .. } => None,
        };
        Suggested {
            rate_limit,
            backoff: self.attempts.as_ref().and_then(|it| it.retry.backoff),
        }
    }

    /// When something is to happen whatever the connections do.
    pub fn due(&self) -> Option<Moment> {
        let next_at = self.attempts.as_ref().and_then(|it| it.next_at);
        next_at.into_iter().chain(self.request_due()).min()
    }

    /// When the rule's time for the whole request is over.
    pub fn request_due(&self) -> Option<Moment> {
        let length = self.attempts.as_ref()?.timeouts.request?;
        Some(self.began + length)
    }

    /// When the rule's time for this attempt is over.
    pub fn attempt_due(&self) -> Option<Moment> {
        let length = self.attempts.as_ref()?.timeouts.backend_request?;
        Some(self.timing.attempt_began + length)
    }

    pub fn filters(&self) -> Option<&Filters> {
        self.attempts.as_ref()?.filters.as_deref()
    }

    /// Attempts at other endpoints before this one.
    pub fn extra_attempts(&self) -> usize {
        self.attempts.as_ref().map_or(0, |it| it.tried.len())
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

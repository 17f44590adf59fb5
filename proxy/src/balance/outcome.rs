//! How an attempt ended, as far as its endpoint is to blame.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Exactly one per lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The endpoint did its part: a final status below 500 (429 included), or a connection that moved bytes or closed
    /// cleanly. `latency` is `None` where nothing could be timed.
    Success { latency: Option<LatencySample> },
    /// The endpoint is to blame: status 500 and above, no connection, a reset or a deadline before the head, a
    /// truncated body.
    Failure,
    /// Says nothing of the endpoint: the client went away, or Weir itself refused before contact.
    Neutral,
}

/// How long the first response byte of one exchange took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencySample {
    /// From the last request byte out to the first response byte in.
    pub length: Duration,
    pub source: LatencySource,
    /// By how much the worker's own measurement of the same exchange was longer: the delay Weir itself adds. Zero when
    /// the worker's clock is the source.
    pub self_delay: Duration,
}

/// Which part of an attempt counts as its latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LatencySpan {
    /// From the last request byte out to the first response byte in.
    #[default]
    FirstByte,
    /// From the start of the attempt, connecting included, to the last byte of its response, by the worker's clock.
    Full,
}

/// Whose clock measured a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LatencySource {
    /// Stamped by kernel programs at the interface: free of the proxy's own queueing.
    Kernel,
    /// Stamped by the worker, where the kernel cannot see the exchange.
    Worker,
}

impl LatencySource {
    /// As `ENDPOINT_STATE` stores it.
    pub(super) const fn code(self) -> u64 {
        match self {
            Self::Kernel => 1,
            Self::Worker => 2,
        }
    }

    pub(super) const fn from_code(code: u64) -> Option<Self> {
        match code {
            1 => Some(Self::Kernel),
            2 => Some(Self::Worker),
            _ => None,
        }
    }

    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Worker => "worker",
        }
    }
}

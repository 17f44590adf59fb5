//! What a response head says of its endpoint: by the backend's condition if it has one, else by the status.

use std::net::SocketAddr;
use std::time::Duration;

use super::Proxy;
use crate::affinity;
use crate::balance::{BackendId, LatencySample, LatencySource, LatencySpan, Outcome};
use crate::condition::Answered;
use crate::conn::ExchangeId;
use crate::http::{NoWait, Status, rate_limit};
use crate::metrics::RateLimitHint;
use crate::moment::Moment;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub status: Status,
    pub is_healthy: bool,
    /// How long the endpoint asked to be left alone.
    pub rate_limit: Option<Duration>,
}

/// When the parts of an attempt were.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    pub span: LatencySpan,
    pub attempt_began: Moment,
    pub first_byte: Option<LatencySample>,
}

impl Verdict {
    /// The response has been relayed to its end.
    pub fn outcome(self, timing: &Timing, now: Moment) -> Outcome {
        if !self.is_healthy {
            return Outcome::Failure;
        }
        let latency = match timing.span {
            LatencySpan::FirstByte => timing.first_byte,
            LatencySpan::Full => Some(LatencySample {
                length: now.since(timing.attempt_began),
                source: LatencySource::Worker,
                self_delay: Duration::ZERO,
            }),
        };
        Outcome::Success { latency }
    }
}

impl Proxy {
    /// The response head that was parsed last, whose bytes are `head`, is the final one of this exchange.
    pub(super) fn judge(&mut self, id: ExchangeId, head: &[u8], now: Moment) -> Option<Verdict> {
        let exchange = self.exchanges.get_mut(id)?;
        let backend = exchange.attempts.as_ref()?.backend;
        let (kept_head, downstream) = (exchange.kept_head.take(), exchange.downstream);
        let Some(kept_head) = kept_head else {
            return Some(self.judge_for(backend, None, head, now));
        };
        let source = self.downstream(downstream)?.source();
        let verdict = self.judge_for(backend, Some((&kept_head, source)), head, now);
        self.exchanges.get_mut(id)?.kept_head = Some(kept_head);
        Some(verdict)
    }

    /// The same for this backend. `request` is the head of the client's request where the backend's condition reads it.
    pub(super) fn judge_for(
        &mut self,
        backend: BackendId,
        request: Option<(&[u8], SocketAddr)>,
        head: &[u8],
        now: Moment,
    ) -> Verdict {
        let status = self.response_head.status();
        let by_condition = self.judge_by_condition(backend, request, head);
        let is_healthy = by_condition.unwrap_or(status.code() < 500);
        // Whoever did well is not ejected, whatever it asks for.
        let is_limited = status == Status::TOO_MANY_REQUESTS && !is_healthy;
        Verdict {
            status,
            is_healthy,
            rate_limit: is_limited.then(|| self.rate_limit(head, now)).flatten(),
        }
    }

    #[cold]
    fn rate_limit(&self, head: &[u8], now: Moment) -> Option<Duration> {
        let unix_now = self.settings.since_1970(now);
        let wait = rate_limit(self.response_head.fields(), head, unix_now);
        let hint = match wait {
            Ok(_) => RateLimitHint::Read,
            Err(NoWait::Unusable) => RateLimitHint::Unusable,
            Err(NoWait::Missing) => RateLimitHint::Missing,
        };
        self.counters.rate_limit_hints.of(hint).increment();
        wait.ok()
    }

    /// Whether the endpoint is healthy; `None` without a condition, or without an answer to it.
    fn judge_by_condition(
        &mut self,
        backend: BackendId,
        request: Option<(&[u8], SocketAddr)>,
        head: &[u8],
    ) -> Option<bool> {
        let backend = self.snapshots.backend(backend)?;
        let condition = self.snapshots.policy_of(backend)?.condition.as_ref()?;
        let request = match request {
            Some((bytes, source)) => {
                // It could be read before.
                self.request_head.parse(bytes, &self.settings.limits).ok()?;
                Some(affinity::Request {
                    bytes,
                    head: &self.request_head,
                    source,
                })
            }
            None => None,
        };
        let answered = Answered {
            request,
            bytes: head,
            head: &self.response_head,
        };
        match condition.holds(&answered) {
            Ok(is_unhealthy) => Some(!is_unhealthy),
            Err(undecided) => {
                self.counters.undecided.of(undecided).increment();
                None
            }
        }
    }
}

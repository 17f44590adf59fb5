//! The next attempt, where one came to nothing and the request may be tried again. The attempt before is recorded first,
//! so that the next pick knows of it.
//!
//! ```text
//! attempt ─► failure, or a status the rule lists ─► may it? ─► record ─► (wait) ─► pick elsewhere ─► attempt
//! ```

use std::time::Duration;

use super::state::{Exchange, Response};
use super::verdict::Verdict;
use super::{Failure, Proxy};
use crate::balance::{BackendId, Lease, NoEndpoint, Outcome, Suggested};
use crate::conn::ExchangeId;
use crate::http::{ResponseFraming, Status};
use crate::metrics::RetryReason;
use crate::moment::Moment;
use crate::route::{Retry, RetryBudget, RetryOn};
use crate::seam::ConnId;

impl Proxy {
    /// The attempt has come to nothing: the next one, if there may be one. Else the client is told.
    pub(super) fn fail_attempt(&mut self, id: ExchangeId, failure: Failure, now: Moment) {
        match failure.retry_reason() {
            Some(reason) if self.takes_retry(id, reason, now) => {
                let exchange = self.exchanges.get(id);
                let suggested = exchange.map(Exchange::suggested).unwrap_or_default();
                let outcome = failure.outcome();
                if let Some(upstream) = self.give_up_attempt(id, outcome, suggested, now) {
                    self.abort(upstream, now);
                }
                self.try_again(id, reason, now);
            }
            _ => self.fail(id, failure, now),
        }
    }

    /// Whether a response of this status is not passed on, because the request is tried again.
    pub(super) fn takes_retry_for_status(
        &mut self,
        id: ExchangeId,
        status: Status,
        now: Moment,
    ) -> bool {
        let attempts = self.exchanges.get(id).and_then(|it| it.attempts.as_ref());
        let is_listed = attempts.is_some_and(|attempts| match attempts.retry.on {
            RetryOn::NoConnection => false,
            RetryOn::Failure(codes) => codes.contains(status.code()),
        });
        is_listed && self.takes_retry(id, RetryReason::Status, now)
    }

    /// A response that is not passed on. Its connection stays if that was all of it.
    pub(super) fn fail_attempt_by_status(
        &mut self,
        id: ExchangeId,
        upstream: ConnId,
        verdict: Verdict,
        now: Moment,
    ) {
        self.take_latency(id, upstream, now);
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        let outcome = verdict.outcome(&exchange.timing, now);
        exchange.timing.first_byte = None;
        let suggested = Suggested {
            rate_limit: verdict.rate_limit,
            ..exchange.suggested()
        };
        let is_whole = matches!(
            self.response_head.framing(),
            ResponseFraming::None | ResponseFraming::Length(0)
        );
        let keeps = is_whole
            && exchange.request_body.is_complete()
            && self.response_head.persistence().is_keep_alive()
            && !self.is_draining;
        self.give_up_attempt(id, outcome, suggested, now);
        if keeps {
            self.after_exchange_upstream(upstream, keeps, now);
        } else {
            self.abort(upstream, now);
        }
        self.try_again(id, RetryReason::Status, now);
    }

    /// Whether the request may be tried again. If so, that is counted and taken off the budget.
    fn takes_retry(&mut self, id: ExchangeId, reason: RetryReason, now: Moment) -> bool {
        if !self.wants_retry(id, reason) {
            return false;
        }
        let replay = self.exchanges.get(id).map(|it| &it.replay);
        if let Some(Err(cause)) = replay.map(|replay| replay.outlives(reason)) {
            self.counters.unrepeatable.of(cause).increment();
            return false;
        }
        // A request that has reached nobody is no load to anybody.
        if reason != RetryReason::NoConnection && !self.takes_from_budget(id, now) {
            self.counters.retries_over_budget.increment();
            return false;
        }
        self.counters.retries.of(reason).increment();
        true
    }

    /// Whether the rule has the request tried again, if it can be.
    fn wants_retry(&self, id: ExchangeId, reason: RetryReason) -> bool {
        let Some(exchange) = self.exchanges.get(id) else {
            return false;
        };
        let (Some(attempts), Some(lease)) = (&exchange.attempts, &exchange.lease) else {
            return false;
        };
        let Some(backend) = self.snapshots.backend(attempts.backend) else {
            return false;
        };
        let is_tried = |row| row == lease.index() || attempts.tried.contains(&row);
        let is_wanted = match attempts.retry.on {
            RetryOn::NoConnection => {
                reason == RetryReason::NoConnection && backend.has_untried(is_tried)
            }
            RetryOn::Failure(_) => true,
        };
        let is_unanswered = matches!(exchange.response, Response::Awaited { interim: 0 });
        is_wanted && attempts.has_left() && is_unanswered
    }

    fn takes_from_budget(&mut self, id: ExchangeId, now: Moment) -> bool {
        let attempts = self.exchanges.get(id).and_then(|it| it.attempts.as_ref());
        let Some(backend) = attempts.map(|attempts| attempts.backend) else {
            return false;
        };
        let budget = self.retry_budget(backend);
        self.retry_budgets.take(backend.place, budget, now)
    }

    fn retry_budget(&self, backend: BackendId) -> RetryBudget {
        let backend = self.snapshots.backend(backend);
        let policy = backend.and_then(|backend| self.snapshots.policy_of(backend));
        policy.map(|policy| policy.retry_budget).unwrap_or_default()
    }

    /// Records what became of the attempt. Its connection is the caller's to end or keep.
    fn give_up_attempt(
        &mut self,
        id: ExchangeId,
        outcome: Outcome,
        suggested: Suggested,
        now: Moment,
    ) -> Option<ConnId> {
        let exchange = self.exchanges.get_mut(id)?;
        let (lease, upstream) = (exchange.lease.take(), exchange.upstream.take());
        if let (Some(attempts), Some(lease)) = (&mut exchange.attempts, &lease) {
            attempts.tried.push(lease.index());
        }
        self.settle(lease, outcome, suggested, now);
        upstream
    }

    /// Makes the next attempt, or waits for its moment.
    fn try_again(&mut self, id: ExchangeId, reason: RetryReason, now: Moment) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        let Some(attempts) = &mut exchange.attempts else {
            return;
        };
        let wait = wait_before(&attempts.retry, attempts.tried.len(), reason);
        // While a body comes there must be somebody to send it to.
        if wait.is_zero() || !exchange.request_body.is_complete() {
            return self.next_attempt(id, now);
        }
        // Half as much again at most, so that requests which failed together do not come back together.
        let half = u64::try_from(wait.as_nanos() / 2).unwrap_or(u64::MAX);
        let more = Duration::from_nanos(self.balancer.draw_below(half.max(1)));
        attempts.next_at = Some(now + wait + more);
        let downstream = exchange.downstream;
        self.touch(downstream, now);
    }

    /// The wait is over.
    pub(super) fn next_attempt(&mut self, id: ExchangeId, now: Moment) {
        match self.pick_next(id, now) {
            Ok(lease) => self.attempt_next(id, lease, now),
            Err(failure) => self.fail(id, failure, now),
        }
    }

    /// Another endpoint, as long as there is one.
    fn pick_next(&mut self, id: ExchangeId, now: Moment) -> Result<Lease, Failure> {
        let attempts = self
            .exchanges
            .get_mut(id)
            .and_then(|it| it.attempts.as_mut());
        let attempts = attempts.ok_or(Failure::NoBackend)?;
        attempts.next_at = None;
        let picked = match self.snapshots.backend(attempts.backend) {
            Some(backend) => match attempts.key {
                Some(key) => self.balancer.pick_bound(backend, key, &attempts.tried, now),
                None => self.balancer.pick_again(backend, &attempts.tried, now),
            },
            None => Err(NoEndpoint),
        };
        if let Ok(lease) = &picked
            && attempts.tried.contains(&lease.index())
        {
            self.counters.retries_at_same.increment();
        }
        self.count_pick(picked)
    }
}

/// How long the next attempt waits at least. `tried` counts those made, 1 or more.
fn wait_before(retry: &Retry, tried: usize, reason: RetryReason) -> Duration {
    const MOST_DOUBLINGS: usize = 6;
    let first = match (retry.backoff, reason) {
        (Some(backoff), _) => backoff,
        (None, RetryReason::NoConnection) => Duration::ZERO,
        (None, _) => Retry::DEFAULT_BACKOFF,
    };
    let doublings = tried.saturating_sub(1).min(MOST_DOUBLINGS);
    first.saturating_mul(1 << doublings)
}

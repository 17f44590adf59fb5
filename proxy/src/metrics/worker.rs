//! The counters of one worker. The worker holds them in an `Arc` and is their only writer; whoever scrapes sums over
//! workers.

use super::counter::{Counter, CounterOf, Gauge};
use super::durations::Durations;
use super::labels::{
    LinkEnd, LocalCause, RateLimitHint, ResponseClass, RetryReason, Unmirrored, Unrepeatable,
};
use crate::affinity::Unbound;
use crate::balance::{Bucket, Detour, Lease, Method, NoEndpoint};
use crate::condition::Undecided;

/// Everything one worker counts. Figures of single endpoints are not here: they lie in the shared tables.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Client connections accepted and kept.
    pub downstream_accepted: Counter,
    /// Client connections turned away before a byte was read.
    pub downstream_refused: Counter,
    /// Client connections beyond the budget, accepted only to be told so.
    pub downstream_shed: Counter,
    /// Times accepting rested because there was no room for another client.
    pub accept_rested: Counter,
    pub downstream_active: Gauge,
    /// Bytes received from clients.
    pub downstream_bytes_in: Counter,
    /// Bytes sent to clients.
    pub downstream_bytes_out: Counter,

    /// Connections to endpoints begun.
    pub upstream_opened: Counter,
    /// Of those, the ones that never stood.
    pub upstream_connect_failed: Counter,
    /// Attempts that found an idle connection.
    pub upstream_reused: Counter,
    /// Idle connections to endpoints closed to make room for others.
    pub upstream_evicted: Counter,
    pub upstream_active: Gauge,
    /// Bytes received from endpoints.
    pub upstream_bytes_in: Counter,
    /// Bytes sent to endpoints.
    pub upstream_bytes_out: Counter,
    /// Requests sent again because the idle connection they were put on had died.
    pub stale_retries: Counter,
    /// Further attempts at requests, by what became of the one before.
    pub retries: CounterOf<RetryReason>,
    /// Requests that were not tried again because of the retry budget.
    pub retries_over_budget: Counter,
    /// Requests that were not tried again because they cannot be repeated.
    pub unrepeatable: CounterOf<Unrepeatable>,
    /// Further attempts at an endpoint that had had the request, for want of another.
    pub retries_at_same: Counter,
    /// Connections to endpoints closed after use because enough idle ones were kept.
    pub upstream_surplus: Counter,

    /// Copies of requests sent to the mirrors of their rules.
    pub mirrored: Counter,
    /// Copies that were to be sent and were not.
    pub unmirrored: CounterOf<Unmirrored>,

    /// Clients of L4 services taken in.
    pub l4_accepted: Counter,
    /// Clients of L4 services turned away before an endpoint was picked.
    pub l4_refused: Counter,
    pub l4_active: Gauge,
    /// Connections of clients of L4 services, by how they ended.
    pub l4_endings: CounterOf<LinkEnd>,
    /// Further endpoints tried because no connection to the one before came to stand.
    pub l4_retries: Counter,
    /// Bytes received from clients of L4 services.
    pub l4_bytes_in: Counter,
    /// Bytes received from endpoints for them.
    pub l4_bytes_out: Counter,

    /// Requests whose head was read.
    pub requests: Counter,
    /// Final responses sent, ours included.
    pub responses: CounterOf<ResponseClass>,
    /// Connections that became tunnels.
    pub tunnels: Counter,
    /// Responses we made ourselves, by cause.
    pub local_replies: CounterOf<LocalCause>,
    /// Requests whose client went away before the response ended.
    pub client_cancelled: Counter,

    /// Picks, by how they were decided.
    pub selections: CounterOf<Method>,
    /// Requests without a usable affinity value, where one was wanted.
    pub unbound: CounterOf<Unbound>,
    /// Requests whose value did not lead to the endpoint it is bound to, or to one that is ejected.
    pub detours: CounterOf<Detour>,
    /// Picks of an endpoint of another bucket than the first.
    pub failovers: Counter,
    /// Ejections that did not happen because too many of the backend were out already.
    pub ejections_prevented: Counter,
    /// Responses the backend's condition said nothing of.
    pub undecided: CounterOf<Undecided>,
    /// What unhealthy responses of status 429 said of how long to wait.
    pub rate_limit_hints: CounterOf<RateLimitHint>,
    /// Outcomes of attempts whose endpoint was gone by then.
    pub late_outcomes: Counter,
    /// Picks that found nothing.
    pub no_endpoint: Counter,
    /// Response heads timed by the kernel.
    pub kernel_samples: Counter,
    /// Response heads timed by the worker's clock, because the kernel had no sample of the exchange.
    pub worker_samples: Counter,

    /// Records for the access log that found no room.
    pub access_log_dropped: Counter,

    /// Connections the ring holds, downstream and upstream, those that are being closed included.
    pub ring_connections: Gauge,
    /// Receive buffers in use.
    pub ring_buffers: Gauge,
    /// Receives that found no buffer.
    pub buffers_exhausted: Counter,
    /// Turns that brought more completions than fit their queue.
    pub ring_overflows: Counter,
    /// Connections that could not be accepted for want of descriptors or memory.
    pub accept_failed: Counter,
    /// How long turns of the loop took, from waking up to going to sleep again.
    pub turns: Durations,
    /// By how much it woke up after the moment it had meant to, those times it did.
    pub wakes_late: Durations,
    /// 1 if it was to be on one CPU only, and is not.
    pub unpinned: Gauge,
}

impl WorkerCounters {
    /// An endpoint was picked or not, and perhaps not the one that was meant at first.
    pub fn on_pick(&self, picked: &Result<Lease, NoEndpoint>) {
        let lease = match picked {
            Ok(lease) => lease,
            Err(NoEndpoint) => return self.no_endpoint.increment(),
        };
        self.selections.of(lease.method()).increment();
        if let Some(detour) = lease.detour() {
            self.detours.of(detour).increment();
        }
        if lease.bucket() != Bucket::default() {
            self.failovers.increment();
        }
    }
}

//! One request and its response: route, key, pick, connect, relay, outcome. This page is the whole life of an exchange
//! in order; the neighbours hold what the steps are made of.
//!
//! ```text
//! client's bytes ─► head ─► begin ─► pick ─► attempt ─► (connect) ─► request relayed
//!                                      ▲                  │
//!                                      └──── try again ◄──┤
//!                                                         │
//!        next request ◄─ finish ◄─ response relayed ◄─ response head ◄─ endpoint's bytes
//!                          │
//!                          └─► exactly one outcome: the lease goes back to the balancer
//! ```
//!
//! [`Proxy`] is the [`Core`](crate::seam::Core) of one worker: sans-IO, told events, asked for actions.

mod attempt;
mod budget;
mod downstream;
mod events;
mod failure;
mod farewell;
mod journal;
mod mirror;
mod passing;
mod relay;
mod replay;
mod responses;
mod retry;
mod retry_budget;
mod settings;
mod stall;
mod state;
mod tunnel;
mod upstream;
mod verdict;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use weir_common::{FlowSampleCells, Table};

pub use failure::Failure;
pub use settings::Settings;

use crate::balance::{BackendId, Balancer, Lease, Outcome, Suggested, Verdict};
use crate::conn::{Conn, DownstreamState, ExchangeId, MirrorId, Outbox, Pool, Slab};
use crate::http::Persistence;
use crate::http::h1::{HeadError, RequestHead, ResponseHead};
use crate::metrics::WorkerCounters;
use crate::moment::Moment;
use crate::route::{NoHost, Request};
use crate::seam::ConnId;
use crate::snapshot::{ListenerId, Snapshot, Snapshots};
use crate::timer::Deadlines;
use farewell::Leaving;
use journal::Journal;
use mirror::Mirrored;
use replay::Replay;
use retry_budget::RetryBudgets;
use state::{Attempts, Exchange, Response};

/// Everything one worker serves with.
pub struct Proxy {
    snapshots: Snapshots,
    settings: Settings,
    balancer: Balancer,
    /// The kernel's first-byte samples, by flow slot.
    samples: Table<FlowSampleCells>,
    counters: Arc<WorkerCounters>,
    conns: Slab<ConnId, Conn>,
    downstreams: usize,
    /// Those being closed left out.
    upstreams: usize,
    exchanges: Slab<ExchangeId, Exchange>,
    mirrored: Slab<MirrorId, Mirrored>,
    pool: Pool,
    deadlines: Deadlines<ConnId>,
    out: Outbox,
    /// Clients whose next request has come already.
    ready: Vec<ConnId>,
    is_draining: bool,
    /// Draining, clients are taken in until then.
    last_client_at: Option<Moment>,
    leaving: Vec<Leaving>,
    /// Parsed heads, kept for their memory.
    request_head: RequestHead,
    response_head: ResponseHead,
    spare_memory: Vec<Vec<u8>>,
    /// The path of the request being passed on, if its rule rewrites it.
    rewritten: Vec<u8>,
    /// Where the client of the request being redirected is to go.
    location: Vec<u8>,
    retry_budgets: RetryBudgets,
    journal: Journal,
}

impl Proxy {
    pub fn new(
        snapshot: Arc<Snapshot>,
        settings: Settings,
        balancer: Balancer,
        samples: Table<FlowSampleCells>,
        counters: Arc<WorkerCounters>,
    ) -> Self {
        Self {
            snapshots: Snapshots::new(snapshot),
            settings,
            balancer,
            samples,
            counters,
            conns: Slab::default(),
            downstreams: 0,
            upstreams: 0,
            exchanges: Slab::default(),
            mirrored: Slab::default(),
            pool: Pool::default(),
            deadlines: Deadlines::default(),
            out: Outbox::default(),
            ready: Vec::new(),
            is_draining: false,
            last_client_at: None,
            leaving: Vec::new(),
            request_head: RequestHead::default(),
            response_head: ResponseHead::default(),
            spare_memory: Vec::new(),
            rewritten: Vec::new(),
            location: Vec::new(),
            retry_budgets: RetryBudgets::default(),
            journal: Journal::default(),
        }
    }

    /// A request head has come whole, and was read: an exchange begins.
    fn begin(&mut self, downstream: ConnId, head: &[u8], now: Moment) {
        self.counters.requests.increment();
        let memory = self.spare_memory.pop().unwrap_or_default();
        let names_endpoint = self.request_head.host(head).is_none();
        let replay = Replay::new(&self.request_head, names_endpoint, memory);
        let Some(client) = self.downstream(downstream) else {
            return;
        };
        let (listener, source, is_shed) = (client.listener, client.source(), client.is_shed);
        let hold = match self.revision_for(listener) {
            Some(revision) => self.snapshots.hold_of(revision),
            None => self.snapshots.hold(),
        };
        let revision = hold.revision();
        let mut exchange = Exchange::new(downstream, hold, &self.request_head, replay, now);
        exchange.asked_protocol = self.request_head.upgrade(head).map(Box::from);
        let id = self.exchanges.insert(exchange);
        if let Some(client) = self.downstream(downstream) {
            client.state = DownstreamState::InExchange(id);
        }
        self.begin_record(id, source.ip(), head, now);
        if is_shed {
            self.fail(id, Failure::Shed, now);
            return self.touch(downstream, now);
        }
        let picked = self
            .route(revision, listener, head)
            .and_then(|mut attempts| {
                self.record_backend(id, attempts.backend);
                let lease = self.pick(&mut attempts, source, head, now)?;
                Ok((attempts, lease))
            });
        match picked {
            Ok((attempts, lease)) => {
                let is_mirrored = attempts.is_mirrored();
                self.begin_attempts(id, attempts, head);
                self.attempt(id, lease, head, now);
                if is_mirrored {
                    self.mirror(id, source, head, now);
                }
            }
            Err(failure) => self.fail(id, failure, now),
        }
        self.touch(downstream, now);
    }

    /// The backend the request is for, by its place. Where a rule splits its requests, the draw is made here, once.
    fn route(
        &mut self,
        revision: u64,
        listener: ListenerId,
        head: &[u8],
    ) -> Result<Attempts, Failure> {
        let snapshot = self.snapshots.of(revision).ok_or(Failure::NoRoute)?;
        let listener = snapshot.listener(listener).ok_or(Failure::NoRoute)?;
        let request = Request::new(&self.request_head, head);
        let rule = listener.rules.find(request).ok_or(Failure::NoRoute)?;
        let handling = &*rule.handling;
        let matched = rule.matches.path.prefix_length();
        if let Some(redirect) = handling.redirect() {
            self.location.clear();
            let port = listener.address.port();
            return match redirect.write(&mut self.location, request, port, matched) {
                Ok(()) => Err(Failure::Redirected(redirect.status)),
                Err(NoHost) => Err(Failure::RequestHead(HeadError::HostMissing)),
            };
        }
        let share = handling
            .split
            .draw(|limit| self.balancer.draw_below(limit))
            .ok_or(Failure::NoBackend)?;
        Ok(Attempts {
            backend: BackendId {
                place: share.backend,
                revision,
            },
            key: None,
            retry: handling.retry,
            timeouts: handling.timeouts,
            filters: handling.filters_of(share).cloned(),
            matched,
            tried: Vec::new(),
            next_at: None,
        })
    }

    /// The response has been relayed to its end.
    fn finish(&mut self, id: ExchangeId, now: Moment) {
        let Some(mut exchange) = self.end_exchange(id) else {
            return;
        };
        self.end_record(exchange.take_record(), None, now);
        let outcome = match &exchange.response {
            Response::Relaying { verdict, .. } => verdict.outcome(&exchange.timing, now),
            Response::Awaited { .. } => Outcome::Failure,
        };
        let suggested = exchange.suggested();
        let keeps_upstream = exchange.keeps_upstream() && !self.is_draining;
        let keeps_downstream = exchange.keeps_downstream();
        self.settle(exchange.lease, outcome, suggested, now);
        if let Some(upstream) = exchange.upstream {
            self.after_exchange_upstream(upstream, keeps_upstream, now);
        }
        if exchange.is_tunnel {
            self.close(exchange.downstream, now);
        } else {
            self.after_exchange_downstream(exchange.downstream, keeps_downstream, now);
        }
        self.recycle([Some(exchange.replay.into_memory()), exchange.kept_head]);
    }

    /// The exchange cannot go on for a reason of our own or the endpoint's: the client is told if it still can be.
    fn fail(&mut self, id: ExchangeId, failure: Failure, now: Moment) {
        let Some(mut exchange) = self.end_exchange(id) else {
            return;
        };
        let record = exchange.take_record();
        let keeps = exchange.keeps_downstream()
            && !failure.ends_connection()
            && !self.is_parting(exchange.downstream);
        let suggested = exchange.suggested();
        let outcome = match failure {
            // Earlier tries had used up the time.
            Failure::RequestDeadline if exchange.extra_attempts() > 0 => Outcome::Neutral,
            _ => failure.outcome(),
        };
        self.settle(exchange.lease, outcome, suggested, now);
        if let Some(upstream) = exchange.upstream {
            self.abort(upstream, now);
        }
        let told = match exchange.response {
            Response::Awaited { .. } => {
                let persistence = if keeps {
                    Persistence::KeepAlive
                } else {
                    Persistence::Close
                };
                let told = self.reply(
                    exchange.downstream,
                    failure,
                    exchange.method,
                    exchange.version,
                    persistence,
                    now,
                );
                self.after_exchange_downstream(exchange.downstream, keeps, now);
                told
            }
            // A reset tells even a client that reads until the end of the connection that something is missing.
            Response::Relaying { .. } => {
                self.abort(exchange.downstream, now);
                0
            }
        };
        self.end_record(record, Some((failure, told)), now);
        self.recycle([Some(exchange.replay.into_memory()), exchange.kept_head]);
    }

    /// The client went away.
    fn cancel(&mut self, id: ExchangeId, now: Moment) {
        let Some(mut exchange) = self.end_exchange(id) else {
            return;
        };
        self.end_record_cancelled(exchange.take_record(), now);
        self.counters.client_cancelled.increment();
        let outcome = match &exchange.response {
            Response::Relaying { verdict, .. } if !verdict.is_healthy => Outcome::Failure,
            _ => Outcome::Neutral,
        };
        let suggested = exchange.suggested();
        self.settle(exchange.lease, outcome, suggested, now);
        if let Some(upstream) = exchange.upstream {
            self.abort(upstream, now);
        }
        self.abort(exchange.downstream, now);
        self.recycle([Some(exchange.replay.into_memory()), exchange.kept_head]);
    }

    fn end_exchange(&mut self, id: ExchangeId) -> Option<Exchange> {
        let mut exchange = self.exchanges.remove(id)?;
        if let Some(hold) = exchange.hold.take() {
            self.snapshots.release(hold);
        }
        if !exchange.mirrored.is_empty() {
            self.forget_copies(std::mem::take(&mut exchange.mirrored));
        }
        Some(exchange)
    }

    fn settle(
        &mut self,
        lease: Option<Lease>,
        outcome: Outcome,
        suggested: Suggested,
        now: Moment,
    ) {
        let verdict = lease.and_then(|lease| {
            self.balancer
                .finish_suggesting(lease, outcome, suggested, now)
        });
        match verdict {
            Some(Verdict::Ejected(ejection)) => self.snapshots.log_ejection(&ejection),
            Some(Verdict::Spared) => self.counters.ejections_prevented.increment(),
            Some(Verdict::TooLate) => self.counters.late_outcomes.increment(),
            None => {}
        }
    }

    fn recycle(&mut self, memory: [Option<Vec<u8>>; 2]) {
        const SPARES: usize = 64;
        /// More than most requests need.
        const KEPT: usize = 4 * 1024;
        for mut memory in memory.into_iter().flatten() {
            if self.spare_memory.len() < SPARES && memory.capacity() <= KEPT {
                memory.clear();
                self.spare_memory.push(memory);
            }
        }
    }
}

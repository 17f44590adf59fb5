//! One try at an endpoint: pick, connect unless a connection is idle, send the request, start the clock.

use std::net::SocketAddr;

use super::passing::Passing;
use super::state::Attempts;
use super::{Failure, Proxy};
use crate::affinity;
use crate::balance::{AffinityKey, Backend, Lease, NoEndpoint};
use crate::condition::Condition;
use crate::conn::{Conn, ExchangeId, UpstreamState};
use crate::moment::Moment;
use crate::seam::{Action, ConnId, Peer};

/// The connection an attempt is made on.
#[derive(Clone, Copy, Debug)]
enum Road {
    Idle(ConnId),
    New(ConnId),
}

impl Road {
    fn upstream(self) -> ConnId {
        match self {
            Self::Idle(conn) | Self::New(conn) => conn,
        }
    }
}

impl Proxy {
    /// Where the request goes for the first time: to the endpoint of its affinity key if it has one, else to the better
    /// of two.
    pub(super) fn pick(
        &mut self,
        attempts: &mut Attempts,
        source: SocketAddr,
        head: &[u8],
        now: Moment,
    ) -> Result<Lease, Failure> {
        let backend = self.snapshots.backend(attempts.backend);
        let backend = backend.ok_or(Failure::NoBackend)?;
        attempts.key = self.affinity_key(backend, source, head);
        let picked = match attempts.key {
            Some(key) => self.balancer.pick_bound(backend, key, &[], now),
            None => self.balancer.pick(backend, now),
        };
        self.count_pick(picked)
    }

    pub(super) fn count_pick(&self, picked: Result<Lease, NoEndpoint>) -> Result<Lease, Failure> {
        self.counters.on_pick(&picked);
        picked.map_err(|_| Failure::NoEndpoint)
    }

    /// What binds the request to an endpoint; `None` where nothing is asked for, or nothing usable found.
    pub(super) fn affinity_key(
        &self,
        backend: &Backend,
        source: SocketAddr,
        head: &[u8],
    ) -> Option<AffinityKey> {
        let affinity = self.snapshots.policy_of(backend)?.affinity.as_ref()?;
        let request = affinity::Request {
            bytes: head,
            head: &self.request_head,
            source,
        };
        match affinity.key(&request) {
            Ok(key) => Some(key),
            Err(unbound) => {
                self.counters.unbound.of(unbound).increment();
                None
            }
        }
    }

    /// It is known where the request goes.
    pub(super) fn begin_attempts(&mut self, id: ExchangeId, attempts: Attempts, head: &[u8]) {
        let backend = self.snapshots.backend(attempts.backend);
        let policy = backend.and_then(|backend| self.snapshots.policy_of(backend));
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        if let Some(policy) = policy {
            exchange.timing.span = policy.latency;
            if policy
                .condition
                .as_ref()
                .is_some_and(Condition::reads_request)
            {
                let mut memory = self.spare_memory.pop().unwrap_or_default();
                memory.extend_from_slice(head);
                exchange.kept_head = Some(memory);
            }
            if attempts.retry.is_budgeted() {
                let place = attempts.backend.place;
                self.retry_budgets.on_request(place, policy.retry_budget);
            }
        }
        exchange.begin_attempts(attempts);
    }

    /// Sends the request to the endpoint picked first.
    pub(super) fn attempt(&mut self, id: ExchangeId, lease: Lease, head: &[u8], now: Moment) {
        let road = self.road_to(id, &lease, now);
        let start = self.out.made_length();
        self.write_request_head(id, road.upstream(), head);
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.replay.on_head(self.out.made_since(start));
        }
        self.set_out(id, lease, road, start, now);
    }

    /// An idle connection to the endpoint leased, else a new one.
    fn road_to(&mut self, id: ExchangeId, lease: &Lease, now: Moment) -> Road {
        match self.take_idle(lease) {
            Some(idle) => Road::Idle(idle),
            None => Road::New(self.connect(lease, UpstreamState::Connecting(id), now)),
        }
    }

    /// Sends what was made of the request from `start` on; on a connection that stands its clock starts.
    fn set_out(&mut self, id: ExchangeId, lease: Lease, road: Road, start: usize, now: Moment) {
        let upstream = road.upstream();
        self.send_made(upstream, start);
        let sample_before = self.sample_number(upstream);
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        exchange.lease = Some(lease);
        exchange.upstream = Some(upstream);
        exchange.timing.attempt_began = now;
        match road {
            Road::New(_) => {
                exchange.replay.on_connect();
                self.set_attempt_deadline(id, upstream, now + self.settings.connect);
            }
            Road::Idle(_) => {
                exchange.replay.on_reuse();
                self.counters.upstream_reused.increment();
                self.start_clock(id, upstream, sample_before, now);
            }
        }
    }

    /// A new connection to the endpoint leased, for this.
    pub(super) fn connect(&mut self, lease: &Lease, state: UpstreamState, now: Moment) -> ConnId {
        let peer = Peer {
            address: lease.address(),
            endpoint: lease.index(),
            generation: lease.generation(),
        };
        self.make_room_for_upstream(now);
        self.upstreams += 1;
        let conn = self.conns.insert(Conn::upstream(peer, state));
        self.counters.upstream_opened.increment();
        self.counters.upstream_active.raise();
        self.out.push(Action::Connect { conn, peer });
        conn
    }

    fn write_request_head(&mut self, id: ExchangeId, upstream: ConnId, head: &[u8]) {
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let downstream = exchange.downstream;
        let Some(client) = self.downstream(downstream).map(|client| client.client) else {
            return;
        };
        let Some(endpoint) = self.upstream(upstream).map(|upstream| upstream.address) else {
            return;
        };
        // Only an HTTP/1.0 request without Host needs the endpoint spelled out.
        let spelled = match self.request_head.host(head) {
            Some(_) => String::new(),
            None => endpoint.to_string(),
        };
        let attempts = self.exchanges.get(id).and_then(|it| it.attempts.as_ref());
        let passing = Passing {
            client,
            fallback_host: spelled.as_bytes(),
            filters: attempts.and_then(|attempts| attempts.filters.as_deref()),
            matched: attempts.map_or(0, |attempts| attempts.matched),
        };
        let (request, rewritten) = (&mut self.request_head, &mut self.rewritten);
        passing.write(self.out.made_mut(), head, request, rewritten);
    }

    /// The request is on its way: from here the endpoint's time counts.
    pub(super) fn start_clock(
        &mut self,
        id: ExchangeId,
        upstream: ConnId,
        sample_before: u64,
        now: Moment,
    ) {
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.request_sent_at = now;
            exchange.sample_before = sample_before;
        }
        if let Some(upstream) = self.upstream(upstream) {
            upstream.state = UpstreamState::InExchange(id);
        }
        self.touch(upstream, now);
    }

    /// The idle connection died before it could have read the request: once more, on a fresh one, to the same endpoint.
    pub(super) fn attempt_afresh(&mut self, id: ExchangeId, now: Moment) {
        let lease = self.exchanges.get_mut(id).and_then(|it| it.lease.take());
        if let Some(lease) = lease {
            self.counters.stale_retries.increment();
            let state = UpstreamState::Connecting(id);
            let road = Road::New(self.connect(&lease, state, now));
            self.send_again(id, lease, road, now);
        }
    }

    /// Sends the request to the endpoint picked next.
    pub(super) fn attempt_next(&mut self, id: ExchangeId, lease: Lease, now: Moment) {
        let road = self.road_to(id, &lease, now);
        self.send_again(id, lease, road, now);
    }

    /// Sends what was sent before.
    fn send_again(&mut self, id: ExchangeId, lease: Lease, road: Road, now: Moment) {
        let start = self.out.made_length();
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let downstream = exchange.downstream;
        exchange
            .replay
            .write(self.out.made_mut(), exchange.extra_attempts());
        self.set_out(id, lease, road, start, now);
        // The client may have been paused for the sake of the connection before.
        self.resume_if_drained(road.upstream(), downstream);
    }
}

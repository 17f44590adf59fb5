//! One try at an endpoint: pick, connect unless a connection is idle, send the request, start the clock.

use std::net::IpAddr;

use super::{Failure, Proxy};
use crate::affinity;
use crate::balance::{AffinityKey, Backend, Lease};
use crate::conn::{Conn, ExchangeId, UpstreamState};
use crate::http::h1::{Forwarding, Scheme, encode};
use crate::moment::Moment;
use crate::seam::{Action, ConnId, Peer};

impl Proxy {
    /// By the request's affinity key if it has one, else the better of two.
    pub(super) fn pick(
        &mut self,
        backend: usize,
        client: IpAddr,
        head: &[u8],
        now: Moment,
    ) -> Result<Lease, Failure> {
        let backends = self.snapshot.backends();
        let backend = backends.get(backend).ok_or(Failure::NoBackend)?;
        let picked = match self.affinity_key(backend, client, head) {
            Some(key) => self.balancer.pick_bound(backend, key, &[], now),
            None => self.balancer.pick(backend, now),
        };
        let Ok(lease) = picked else {
            self.counters.no_endpoint.increment();
            return Err(Failure::NoEndpoint);
        };
        self.counters.selections.of(lease.method()).increment();
        Ok(lease)
    }

    /// What binds the request to an endpoint; `None` where nothing is asked for, or nothing usable found.
    fn affinity_key(&self, backend: &Backend, client: IpAddr, head: &[u8]) -> Option<AffinityKey> {
        let affinity = self.snapshot.policy_of(backend)?.affinity.as_ref()?;
        let request = affinity::Request {
            bytes: head,
            head: &self.request_head,
            client,
        };
        match affinity.key(&request) {
            Ok(key) => Some(key),
            Err(unbound) => {
                self.counters.unbound.of(unbound).increment();
                None
            }
        }
    }

    /// Sends the request head to the endpoint picked, on an idle connection if there is one.
    pub(super) fn attempt(&mut self, id: ExchangeId, lease: Lease, head: &[u8], now: Moment) {
        let reused = self.take_idle(&lease);
        let upstream = reused.unwrap_or_else(|| self.connect(id, &lease, now));
        let start = self.out.made_length();
        self.write_request_head(id, upstream, head);
        self.send_made(upstream, start);

        let sample_before = self.sample_number(upstream);
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        exchange.lease = Some(lease);
        exchange.upstream = Some(upstream);
        if reused.is_some() {
            self.counters.upstream_reused.increment();
            exchange.replay.begin(self.out.made_since(start));
            self.start_clock(id, upstream, sample_before, now);
        }
    }

    fn connect(&mut self, id: ExchangeId, lease: &Lease, now: Moment) -> ConnId {
        let peer = Peer {
            address: lease.address(),
            endpoint: lease.index(),
            generation: lease.generation(),
        };
        self.make_room_for_upstream(now);
        self.upstreams += 1;
        let conn = self.conns.insert(Conn::upstream(
            peer.address,
            peer.endpoint,
            peer.generation,
            id,
        ));
        self.counters.upstream_opened.increment();
        self.counters.upstream_active.raise();
        self.out.push(Action::Connect { conn, peer });
        self.set_deadline(conn, now + self.settings.connect);
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
        let forwarding = Forwarding {
            client,
            scheme: Scheme::Http,
            fallback_host: spelled.as_bytes(),
        };
        encode::write_request(self.out.made_mut(), head, &self.request_head, &forwarding);
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
        self.set_deadline(upstream, now + self.settings.first_byte);
    }

    /// The idle connection died before it could have read the request: once more, on a fresh one, to the same endpoint.
    pub(super) fn attempt_again(&mut self, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        let Some(lease) = exchange.lease.take() else {
            return;
        };
        let (bytes, downstream) = (exchange.replay.take(), exchange.downstream);
        self.counters.stale_retries.increment();
        let upstream = self.connect(id, &lease, now);
        let start = self.out.made_length();
        self.out.made_mut().extend_from_slice(&bytes);
        self.send_made(upstream, start);
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.lease = Some(lease);
            exchange.upstream = Some(upstream);
        }
        // It may have been paused for the sake of the connection that died.
        self.resume_if_drained(upstream, downstream);
    }
}

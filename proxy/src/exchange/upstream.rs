//! The endpoint's side: connections made, reused and ended; response heads collected, bodies relayed; the latency of
//! the first byte taken from the kernel where it has measured this very exchange.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::state::Response;
use super::{Failure, Proxy};
use crate::balance::{LatencySample, LatencySource, Lease};
use crate::conn::{ExchangeId, Inbox, Input, PartialHead, UpstreamState};
use crate::http::Method;
use crate::http::h1::{HeadScan, encode};
use crate::moment::Moment;
use crate::seam::{ConnId, ConnectFault, End};

impl Proxy {
    /// An idle connection to the endpoint leased, if there is one.
    pub(super) fn take_idle(&mut self, lease: &Lease) -> Option<ConnId> {
        loop {
            let conn = self.pool.take(lease.index())?;
            let upstream = self.upstream(conn)?;
            if upstream.generation == lease.generation() {
                return Some(conn);
            }
            // The row belongs to another endpoint by now.
            upstream.state = UpstreamState::Closing;
            self.upstreams -= 1;
            self.out.push(crate::seam::Action::Close { conn });
        }
    }

    pub(super) fn on_connected(&mut self, conn: ConnId, now: Moment) {
        let id = match self.upstream(conn).map(|upstream| upstream.state) {
            Some(UpstreamState::Connecting(id)) => id,
            Some(UpstreamState::Mirroring(id)) => return self.on_mirror_connected(conn, id, now),
            _ => return,
        };
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.replay.on_connected();
        }
        let sample_before = self.sample_number(conn);
        self.start_clock(id, conn, sample_before, now);
    }

    pub(super) fn on_connect_failed(&mut self, conn: ConnId, fault: ConnectFault, now: Moment) {
        let Some(state) = self.upstream(conn).map(|upstream| upstream.state) else {
            return;
        };
        let failure = match fault {
            ConnectFault::Endpoint => Failure::ConnectFailed,
            ConnectFault::Host => Failure::HostExhausted,
        };
        match state {
            UpstreamState::Connecting(id) => {
                self.counters.upstream_connect_failed.increment();
                self.fail_attempt(id, failure, now);
            }
            UpstreamState::Mirroring(id) => {
                self.counters.upstream_connect_failed.increment();
                self.fail_mirrored(id, failure, now);
            }
            UpstreamState::InExchange(_) | UpstreamState::Idle | UpstreamState::Closing => {}
        }
    }

    pub(super) fn on_upstream_bytes(&mut self, conn: ConnId, mut input: Input<'_>, now: Moment) {
        while !input.is_empty() {
            let Some(state) = self.upstream(conn).map(|upstream| upstream.state) else {
                return;
            };
            let id = match state {
                UpstreamState::InExchange(id) => id,
                UpstreamState::Mirroring(id) => match self.read_mirrored(conn, id, input, now) {
                    Ok(consumed) => {
                        input = input.skip(consumed);
                        continue;
                    }
                    Err(failure) => return self.fail_mirrored(id, failure, now),
                },
                // Bytes nobody asked for: whatever comes next could not be trusted.
                UpstreamState::Idle => return self.close_idle(conn, now),
                UpstreamState::Connecting(_) | UpstreamState::Closing => return,
            };
            let Some(exchange) = self.exchanges.get(id) else {
                return;
            };
            let read = match exchange.response {
                Response::Awaited { .. } => self.read_response_head(conn, id, input, now),
                Response::Relaying { .. } => self.read_response_body(conn, id, input, now),
            };
            match read {
                Ok(consumed) => input = input.skip(consumed),
                Err(failure) => return self.fail(id, failure, now),
            }
            self.finish_if_complete(id, now);
        }
    }

    fn read_response_head(
        &mut self,
        conn: ConnId,
        id: ExchangeId,
        input: Input<'_>,
        now: Moment,
    ) -> Result<usize, Failure> {
        let Some(exchange) = self.exchanges.get(id) else {
            return Ok(input.bytes().len());
        };
        let method = exchange.method;
        self.collect_head(conn, method, input, |proxy, head, rest| {
            proxy.on_response_head(id, conn, head, rest, now)
        })
    }

    /// Keeps what has come of a response head until it is whole; then it has been read, and is handed on with what
    /// follows it. Tells how many bytes were of it.
    pub(super) fn collect_head(
        &mut self,
        conn: ConnId,
        method: Method,
        input: Input<'_>,
        on_head: impl FnOnce(&mut Self, &[u8], &[u8]) -> Result<(), Failure>,
    ) -> Result<usize, Failure> {
        let Some(entry) = self.conns.get_mut(conn) else {
            return Ok(input.bytes().len());
        };
        let (head, limits) = (&mut self.response_head, &self.settings.limits);
        let mut read = |scan: &mut HeadScan, bytes: &[u8]| {
            head.read(scan, bytes, method, limits)
                .map_err(Failure::ResponseHead)
        };
        let mut kept = entry.inbox.take();
        // An endpoint's bytes have no turn to wait for.
        let Some(Inbox::Head(partial)) = kept.as_deref_mut() else {
            let mut scan = HeadScan::response();
            let Some(length) = read(&mut scan, input.bytes())? else {
                let partial = PartialHead::new(input.bytes(), scan);
                entry.inbox = Some(Box::new(Inbox::Head(partial)));
                return Ok(input.bytes().len());
            };
            let (head, rest) = input.bytes().split_at(length);
            on_head(self, head, rest)?;
            return Ok(length);
        };
        let Some(count) = partial.add(input.bytes(), read)? else {
            entry.inbox = kept;
            return Ok(input.bytes().len());
        };
        let (head, rest) = partial.split(input.bytes(), count);
        on_head(self, head, rest)?;
        Ok(count)
    }

    fn read_response_body(
        &mut self,
        conn: ConnId,
        id: ExchangeId,
        input: Input<'_>,
        now: Moment,
    ) -> Result<usize, Failure> {
        let consumed = self
            .relay_response(id, input, now)
            .map_err(Failure::ResponseBody)?;
        self.touch(conn, now);
        Ok(consumed)
    }

    fn finish_if_complete(&mut self, id: ExchangeId, now: Moment) {
        let is_complete = self.exchanges.get(id).is_some_and(
            |exchange| matches!(&exchange.response, Response::Relaying { body, .. } if body.is_complete()),
        );
        if is_complete {
            self.finish(id, now);
        }
    }

    pub(super) fn on_upstream_ended(&mut self, conn: ConnId, end: End, now: Moment) {
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        let has_partial_head = entry.inbox.is_some();
        let Some(state) = entry.as_upstream().map(|upstream| upstream.state) else {
            return;
        };
        match state {
            UpstreamState::Idle => self.close_idle(conn, now),
            UpstreamState::InExchange(id) if self.is_tunnel(id) => {
                self.on_tunnel_endpoint_ended(id, end, now);
            }
            UpstreamState::InExchange(id) => {
                self.on_ended_in_exchange(conn, id, end, has_partial_head, now)
            }
            UpstreamState::Mirroring(id) => self.on_mirror_ended(conn, id, end, now),
            UpstreamState::Connecting(id) => self.fail_attempt(id, Failure::ConnectFailed, now),
            UpstreamState::Closing => {}
        }
    }

    fn on_ended_in_exchange(
        &mut self,
        conn: ConnId,
        id: ExchangeId,
        end: End,
        has_partial_head: bool,
        now: Moment,
    ) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        match &mut exchange.response {
            Response::Awaited { interim: 0 }
                if !has_partial_head && exchange.replay.outlives_idle_connection() =>
            {
                self.close(conn, now);
                self.attempt_afresh(id, now);
            }
            Response::Awaited { .. } => self.fail_attempt(id, Failure::UpstreamClosed, now),
            Response::Relaying { body, .. } => {
                // After a reset nobody knows whether all of it came, even if only the close could tell the end.
                let ended = match end {
                    End::Finished => body.on_end(),
                    End::Broken => Err(crate::http::h1::BodyError::Truncated),
                };
                let needs_chunks = body.needs_chunks();
                let downstream = exchange.downstream;
                match ended {
                    Ok(()) => {
                        if needs_chunks {
                            self.send_text(id, downstream, encode::LAST_CHUNK);
                        }
                        self.finish(id, now);
                    }
                    Err(error) => self.fail(id, Failure::ResponseBody(error), now),
                }
            }
        }
    }

    /// The exchange is over; the connection waits for the next one or ends.
    pub(super) fn after_exchange_upstream(&mut self, conn: ConnId, keeps: bool, now: Moment) {
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        let owes_bytes = entry.queued > 0;
        let Some(upstream) = entry.as_upstream() else {
            return;
        };
        upstream.state = UpstreamState::Idle;
        let endpoint = upstream.endpoint;
        let is_configured = self.snapshots.current().has(upstream.row());
        if owes_bytes {
            // The endpoint has answered without reading all, and may never read the rest.
            self.abort(conn, now);
        } else if !keeps || !is_configured {
            self.close(conn, now);
        } else if self.pool.put(endpoint, conn) {
            self.resume(conn);
            self.set_deadline(conn, now + self.settings.upstream_idle);
        } else {
            self.counters.upstream_surplus.increment();
            self.close(conn, now);
        }
    }

    pub(super) fn close_idle(&mut self, conn: ConnId, now: Moment) {
        self.pool.remove(conn);
        self.close(conn, now);
    }

    /// Number of the kernel's latest sample of this connection; 0 where it does not measure.
    pub(super) fn sample_number(&mut self, conn: ConnId) -> u64 {
        let slot = self.upstream(conn).and_then(|upstream| upstream.slot);
        let sample = slot.and_then(|slot| self.samples.get(slot.0 as usize));
        sample.map_or(0, |sample| sample.exchange.load(Ordering::Acquire))
    }

    /// The response head is here: how long did its first byte take?
    pub(super) fn take_latency(&mut self, id: ExchangeId, conn: ConnId, now: Moment) {
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let (sent_at, sample_before) = (exchange.request_sent_at, exchange.sample_before);
        let first_byte = self.first_byte(conn, sent_at, sample_before, now);
        if let Some(exchange) = self.exchanges.get_mut(id) {
            exchange.timing.first_byte = Some(first_byte);
        }
    }

    /// How long the first byte took after what was sent at this moment, when the kernel's latest sample had this number.
    pub(super) fn first_byte(
        &mut self,
        conn: ConnId,
        sent_at: Moment,
        sample_before: u64,
        now: Moment,
    ) -> LatencySample {
        let slot = self.upstream(conn).and_then(|upstream| upstream.slot);
        let sample = slot.and_then(|slot| self.samples.get(slot.0 as usize));
        let by_worker = now.since(sent_at);
        let by_kernel = sample.and_then(|sample| {
            let number = sample.exchange.load(Ordering::Acquire);
            let length = Duration::from_nanos(sample.first_byte_ns.load(Ordering::Acquire));
            (number != sample_before).then_some(length)
        });
        match by_kernel {
            Some(length) => {
                self.counters.kernel_samples.increment();
                let self_delay = by_worker.saturating_sub(length);
                LatencySample {
                    length,
                    source: LatencySource::Kernel,
                    self_delay,
                }
            }
            None => {
                self.counters.worker_samples.increment();
                LatencySample {
                    length: by_worker,
                    source: LatencySource::Worker,
                    self_delay: Duration::ZERO,
                }
            }
        }
    }
}

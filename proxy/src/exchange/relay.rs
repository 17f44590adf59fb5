//! Bodies on their way, in both directions: each read is passed on at once, and a side that takes too little stops the
//! other from being read.

use std::ops::Range;

use super::Proxy;
use super::state::Response;
use crate::conn::{DownstreamState, ExchangeId, Input, Side, UpstreamState};
use crate::http::h1::{BodyError, encode};
use crate::moment::Moment;
use crate::seam::{Action, ConnId, Source};

/// Bytes queued to one side at which the other is no longer read, and at which it is read again.
const HIGH_WATER: usize = 256 * 1024;
const LOW_WATER: usize = 64 * 1024;

impl Proxy {
    /// Passes request body on to the endpoint. Tells how many bytes were of it.
    pub(super) fn relay_request(
        &mut self,
        id: ExchangeId,
        input: Input<'_>,
        now: Moment,
    ) -> Result<usize, BodyError> {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return Ok(input.bytes().len());
        };
        let step = exchange.request_body.next(input.bytes())?;
        exchange
            .replay
            .on_body(&input.bytes()[step.forward.clone()]);
        exchange.request_sent_at = now;
        if let Some(record) = &mut exchange.record {
            record.bytes_in += step.consumed as u64;
        }
        let (downstream, upstream) = (exchange.downstream, exchange.upstream);
        let is_mirrored = !exchange.mirrored.is_empty();
        if let Some(upstream) = upstream {
            self.forward(upstream, input, step.forward.clone());
            self.pause_if_full(upstream, downstream);
            self.touch(upstream, now);
        }
        if is_mirrored {
            self.mirror_body(id, &input.bytes()[step.forward], now);
        }
        Ok(step.consumed)
    }

    /// Passes response body on to the client. Tells how many bytes were of it.
    pub(super) fn relay_response(
        &mut self,
        id: ExchangeId,
        input: Input<'_>,
        now: Moment,
    ) -> Result<usize, BodyError> {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return Ok(input.bytes().len());
        };
        let Response::Relaying { body, .. } = &mut exchange.response else {
            return Ok(0);
        };
        let step = body.next(input.bytes())?;
        let needs_chunks = body.needs_chunks();
        if let Some(record) = &mut exchange.record {
            record.bytes_out += step.forward.len() as u64;
        }
        let (downstream, upstream) = (exchange.downstream, exchange.upstream);
        if needs_chunks {
            self.forward_chunk(id, downstream, input, step.forward);
        } else {
            self.forward(downstream, input, step.forward);
        }
        self.touch(downstream, now);
        if let Some(upstream) = upstream {
            self.pause_if_full(downstream, upstream);
        }
        Ok(step.consumed)
    }

    fn forward(&mut self, to: ConnId, input: Input<'_>, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        if let Some(range) = input.range_in_event(&range) {
            self.send(to, Source::Received, range);
        } else {
            let start = self.out.made_length();
            self.out.made_mut().extend_from_slice(&input.bytes()[range]);
            self.send_made(to, start);
        }
    }

    /// Passes on what came in one read as one chunk.
    fn forward_chunk(&mut self, id: ExchangeId, to: ConnId, input: Input<'_>, range: Range<usize>) {
        // An empty chunk would be the last.
        if range.is_empty() {
            return;
        }
        let start = self.out.made_length();
        encode::write_chunk_size(self.out.made_mut(), range.len());
        self.record_head(id, start);
        self.send_made(to, start);
        self.forward(to, input, range);
        self.send_text(id, to, encode::CHUNK_END);
    }

    /// Sends what stands around a body and is no part of it.
    pub(super) fn send_text(&mut self, id: ExchangeId, to: ConnId, text: &[u8]) {
        let start = self.out.made_length();
        self.out.made_mut().extend_from_slice(text);
        self.record_head(id, start);
        self.send_made(to, start);
    }

    /// Queues all bytes made from `start` on.
    pub(super) fn send_made(&mut self, to: ConnId, start: usize) {
        let range = start..self.out.made_length();
        self.send(to, Source::Made, range);
    }

    fn send(&mut self, to: ConnId, source: Source, range: Range<usize>) {
        if let Some(conn) = self.conns.get_mut(to) {
            conn.queued += range.len();
            self.out.push(Action::Send {
                conn: to,
                source,
                range,
            });
        }
    }

    /// The socket took bytes: the other side may be read again.
    pub(super) fn on_sent(&mut self, conn: ConnId, bytes: usize, now: Moment) {
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        entry.queued = entry.queued.saturating_sub(bytes);
        let id = match &entry.side {
            Side::Downstream(client) => {
                self.counters.downstream_bytes_out.add(bytes as u64);
                match client.state {
                    DownstreamState::InExchange(id) => id,
                    DownstreamState::Lingering => {
                        return self.set_deadline(conn, now + self.settings.linger);
                    }
                    DownstreamState::Closing => {
                        return self.set_deadline(conn, now + self.settings.stall);
                    }
                    DownstreamState::Idle => return self.go_on_if_drained(conn, now),
                    DownstreamState::ReadingHead => return,
                }
            }
            Side::Upstream(endpoint) => {
                self.counters.upstream_bytes_out.add(bytes as u64);
                match endpoint.state {
                    UpstreamState::InExchange(id) => id,
                    _ => return,
                }
            }
        };
        self.touch(conn, now);
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let other = if exchange.downstream == conn {
            exchange.upstream
        } else {
            Some(exchange.downstream)
        };
        if let Some(other) = other {
            self.resume_if_drained(conn, other);
        }
    }

    /// Whether so much is queued that nothing should be added.
    pub(super) fn is_full(&self, conn: ConnId) -> bool {
        self.conns
            .get(conn)
            .is_some_and(|conn| conn.queued > HIGH_WATER)
    }

    fn pause_if_full(&mut self, to: ConnId, from: ConnId) {
        if self.is_full(to) {
            self.pause(from);
        }
    }

    /// A client that had left its answers unread takes them: its next requests may have theirs.
    fn go_on_if_drained(&mut self, conn: ConnId, now: Moment) {
        let Some(entry) = self.conns.get(conn).filter(|entry| entry.is_paused) else {
            return;
        };
        let (is_drained, has_next) = (entry.queued <= LOW_WATER, entry.inbox.is_some());
        self.set_deadline(conn, now + self.settings.idle);
        if is_drained {
            self.resume(conn);
            self.ready.extend(has_next.then_some(conn));
        }
    }

    /// Reads from `from` again once little is queued to `to`, unless `from` is a client ahead of its turn.
    pub(super) fn resume_if_drained(&mut self, to: ConnId, from: ConnId) {
        let is_drained = self
            .conns
            .get(to)
            .is_some_and(|conn| conn.queued <= LOW_WATER);
        let is_ahead = self
            .conns
            .get(from)
            .is_some_and(|conn| conn.inbox.is_some());
        if is_drained && !is_ahead {
            self.resume(from);
        }
    }

    pub(super) fn pause(&mut self, conn: ConnId) {
        if let Some(entry) = self.conns.get_mut(conn).filter(|entry| !entry.is_paused) {
            entry.is_paused = true;
            self.out.push(Action::Pause { conn });
        }
    }

    pub(super) fn resume(&mut self, conn: ConnId) {
        if let Some(entry) = self.conns.get_mut(conn).filter(|entry| entry.is_paused) {
            entry.is_paused = false;
            self.out.push(Action::Resume { conn });
        }
    }
}

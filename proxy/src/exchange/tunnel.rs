//! Connections that become something else than HTTP (RFC 9110, section 7.8): once the endpoint has answered an `Upgrade`
//! with 101, bytes go both ways as they come, and each side may end its own without the other's end.
//!
//! ```text
//! request with Upgrade ─► 101 ─► bytes ⇄ bytes ─► one side ends ─► the other does, too, or nothing moves ─► closed
//!                    └──► any other response: an ordinary exchange
//! ```

use super::state::Response;
use super::{Failure, Proxy};
use crate::balance::LatencySpan;
use crate::conn::ExchangeId;
use crate::http::h1::{BodyDecoder, BodyError};
use crate::moment::Moment;
use crate::route::Timeouts;
use crate::seam::{Action, ConnId, End};

impl Proxy {
    /// Whether an endpoint switches to what the client asked for. Its bytes mean nothing to a client that speaks something
    /// else; a version may be left out.
    pub(super) fn is_asked_switch(&self, id: ExchangeId, head: &[u8]) -> bool {
        let exchange = self.exchanges.get(id);
        let asked = exchange.and_then(|exchange| exchange.asked_protocol.as_deref());
        let (Some(asked), Some(given)) = (asked, self.response_head.protocol(head)) else {
            return false;
        };
        let mut name = asked.split(|byte| *byte == b'/');
        given.eq_ignore_ascii_case(asked)
            || name
                .next()
                .is_some_and(|name| given.eq_ignore_ascii_case(name))
    }

    /// The 101 has been passed on.
    pub(super) fn open_tunnel(&mut self, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        exchange.is_tunnel = true;
        exchange.request_body = BodyDecoder::of_tunnel();
        exchange.replay.forget();
        // Neither limits nor lengths of messages mean anything for it.
        exchange.timing.span = LatencySpan::FirstByte;
        if let Some(attempts) = &mut exchange.attempts {
            attempts.timeouts = Timeouts::default();
        }
        let (downstream, upstream) = (exchange.downstream, exchange.upstream);
        self.counters.tunnels.increment();
        if let Some(upstream) = upstream {
            self.stop_measuring(upstream);
            self.touch(upstream, now);
        }
        self.touch(downstream, now);
        // What came behind the request was not to be sent before.
        let is_ahead = self
            .conns
            .get(downstream)
            .is_some_and(|it| it.inbox.is_some());
        self.resume(downstream);
        self.ready.extend(is_ahead.then_some(downstream));
    }

    /// What the kernel would measure of this connection from now on is no exchange.
    pub(super) fn stop_measuring(&mut self, conn: ConnId) {
        let slot = self.upstream(conn).and_then(|it| it.slot.take());
        if slot.is_some() {
            self.out.push(Action::Unmeasure { conn });
        }
    }

    pub(super) fn is_tunnel(&self, id: ExchangeId) -> bool {
        self.exchanges.get(id).is_some_and(|it| it.is_tunnel)
    }

    /// The client sends no more.
    pub(super) fn on_tunnel_client_ended(&mut self, id: ExchangeId, end: End, now: Moment) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        if end == End::Broken {
            return self.cancel(id, now);
        }
        // A tunnel may end anywhere.
        let _ = exchange.request_body.on_end();
        let upstream = exchange.upstream;
        match &exchange.response {
            Response::Relaying { body, .. } if body.is_complete() => self.finish(id, now),
            _ => self.end_side(upstream),
        }
    }

    /// The endpoint sends no more.
    pub(super) fn on_tunnel_endpoint_ended(&mut self, id: ExchangeId, end: End, now: Moment) {
        let Some(exchange) = self.exchanges.get_mut(id) else {
            return;
        };
        if end == End::Broken {
            return self.fail(id, Failure::ResponseBody(BodyError::Truncated), now);
        }
        if let Response::Relaying { body, .. } = &mut exchange.response {
            // As above.
            let _ = body.on_end();
        }
        let downstream = exchange.downstream;
        if exchange.request_body.is_complete() {
            self.finish(id, now);
        } else {
            self.end_side(Some(downstream));
        }
    }

    /// Ends our side behind what is queued.
    fn end_side(&mut self, conn: Option<ConnId>) {
        if let Some(conn) = conn {
            self.out.push(Action::Shutdown { conn });
        }
    }

    /// Nothing has moved on this connection, nor, unless it does not take what is queued to it, on the other.
    pub(super) fn on_tunnel_due(&mut self, conn: ConnId, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let is_stuck = self.conns.get(conn).is_some_and(|conn| conn.queued > 0);
        if !is_stuck {
            self.finish(id, now);
        } else if exchange.downstream == conn {
            self.cancel(id, now);
        } else {
            self.fail(id, Failure::UpstreamStalled, now);
        }
    }
}

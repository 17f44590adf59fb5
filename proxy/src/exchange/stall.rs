//! What happens when nothing happens: each connection has one deadline, whose meaning is that of its state.

use std::time::Duration;

use super::state::{Exchange, Response};
use super::{Failure, Proxy};
use crate::conn::{DownstreamState, ExchangeId, Side, UpstreamState};
use crate::moment::Moment;
use crate::seam::{Action, ConnId};

impl Proxy {
    pub(super) fn set_deadline(&mut self, conn: ConnId, due: Moment) {
        if let Some(entry) = self.conns.get_mut(conn) {
            self.deadlines.set(&mut entry.deadline, conn, due);
        }
    }

    /// A closed connection leaves its entries in the queue until their moment comes. Once they are far more than there
    /// are connections they are dropped, so that many short connections do not fill the memory.
    pub(super) fn forget_old_deadlines(&mut self) {
        const FEW: usize = 1024;
        if self.deadlines.entries() > FEW + 4 * self.conns.len() {
            let conns = &self.conns;
            self.deadlines.retain(|conn, moment| {
                conns
                    .get(conn)
                    .is_some_and(|conn| conn.deadline.is_queued_at(moment))
            });
        }
    }

    /// Something moved on this connection, in the middle of an exchange.
    pub(super) fn touch(&mut self, conn: ConnId, now: Moment) {
        let Some(entry) = self.conns.get(conn) else {
            return;
        };
        match &entry.side {
            Side::Downstream(client) => {
                // A client's connection watches over its exchange, too.
                if let DownstreamState::InExchange(id) = client.state
                    && let Some(exchange) = self.exchanges.get(id)
                {
                    let stalled = now + self.patience(exchange, entry.queued);
                    let due = exchange.due();
                    self.set_deadline(conn, due.map_or(stalled, |due| due.min(stalled)));
                }
            }
            Side::Upstream(endpoint) => {
                if let UpstreamState::InExchange(id) = endpoint.state
                    && let Some(exchange) = self.exchanges.get(id)
                {
                    let length = match exchange.response {
                        Response::Awaited { .. } => self.settings.first_byte,
                        Response::Relaying { .. } => self.patience(exchange, entry.queued),
                    };
                    let stalled = now + length;
                    let due = exchange.attempt_due();
                    self.set_deadline(conn, due.map_or(stalled, |due| due.min(stalled)));
                }
            }
        }
    }

    /// An attempt has no more time than its rule allows.
    pub(super) fn set_attempt_deadline(&mut self, id: ExchangeId, conn: ConnId, due: Moment) {
        let limit = self.exchanges.get(id).and_then(Exchange::attempt_due);
        self.set_deadline(conn, limit.map_or(due, |limit| limit.min(due)));
    }

    /// How long nothing may move on a connection. Of a tunnel only one that does not take what is queued is in arrears.
    fn patience(&self, exchange: &Exchange, queued: usize) -> Duration {
        match exchange.is_tunnel && queued == 0 {
            true => self.settings.tunnel,
            false => self.settings.stall,
        }
    }

    pub(super) fn on_tick(&mut self, now: Moment) {
        while let Some((conn, entry)) = self.deadlines.pop(now) {
            let Some(due) = self.conns.get_mut(conn) else {
                continue;
            };
            if !self.deadlines.is_due(&mut due.deadline, conn, entry, now) {
                continue;
            }
            match &due.side {
                Side::Downstream(client) => {
                    let state = client.state;
                    self.on_downstream_due(conn, state, now);
                }
                Side::Upstream(endpoint) => {
                    let state = endpoint.state;
                    self.on_upstream_due(conn, state, now);
                }
            }
        }
    }

    fn on_downstream_due(&mut self, conn: ConnId, state: DownstreamState, now: Moment) {
        match state {
            DownstreamState::Idle | DownstreamState::Lingering => self.close(conn, now),
            DownstreamState::ReadingHead => self.reject(conn, Failure::RequestTimeout, now),
            DownstreamState::InExchange(id) => self.on_exchange_due(conn, id, now),
            DownstreamState::Closing => self.abort(conn, now),
        }
    }

    fn on_exchange_due(&mut self, conn: ConnId, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let next_at = exchange.attempts.as_ref().and_then(|it| it.next_at);
        if exchange.request_due().is_some_and(|due| due <= now) {
            self.on_time_up(id, Failure::RequestDeadline, now);
        } else if next_at.is_some_and(|next_at| next_at <= now) {
            self.next_attempt(id, now);
            self.touch(conn, now);
        } else {
            self.on_client_stalled(conn, id, now);
        }
    }

    /// The time a rule gives is over. Whoever is waited for has used it up.
    fn on_time_up(&mut self, id: ExchangeId, failure: Failure, now: Moment) {
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let queued = |conn| self.conns.get(conn).is_some_and(|conn| conn.queued > 0);
        let waits_for_body =
            !exchange.request_body.is_complete() && !exchange.upstream.is_some_and(queued);
        match exchange.response {
            Response::Awaited { .. } if waits_for_body => {
                self.fail(id, Failure::RequestTimeout, now);
            }
            Response::Awaited { .. } => self.fail_attempt(id, failure, now),
            Response::Relaying { .. } if queued(exchange.downstream) => self.cancel(id, now),
            Response::Relaying { .. } => self.fail(id, failure, now),
        }
    }

    /// Nothing moved between us and the client. That may be right, if it is not its turn.
    fn on_client_stalled(&mut self, conn: ConnId, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        if exchange.is_tunnel {
            return self.on_tunnel_due(conn, id, now);
        }
        let Some(entry) = self.conns.get(conn) else {
            return;
        };
        let owes_bytes = !exchange.request_body.is_complete() && !entry.is_paused;
        if entry.queued > 0 {
            self.cancel(id, now);
        } else if owes_bytes {
            self.fail(id, Failure::RequestTimeout, now);
        } else {
            self.touch(conn, now);
        }
    }

    fn on_upstream_due(&mut self, conn: ConnId, state: UpstreamState, now: Moment) {
        match state {
            UpstreamState::Connecting(id) => {
                self.counters.upstream_connect_failed.increment();
                self.fail_attempt(id, Failure::ConnectTimeout, now);
            }
            UpstreamState::InExchange(id) => self.on_endpoint_stalled(conn, id, now),
            UpstreamState::Mirroring(id) => self.on_mirror_due(id, now),
            UpstreamState::Idle => self.close_idle(conn, now),
            UpstreamState::Closing => self.abort(conn, now),
        }
    }

    /// Nothing moved between us and the endpoint. That may be right, if we wait for the client.
    fn on_endpoint_stalled(&mut self, conn: ConnId, id: ExchangeId, now: Moment) {
        let Some(exchange) = self.exchanges.get(id) else {
            return;
        };
        let Some(entry) = self.conns.get(conn) else {
            return;
        };
        if exchange.attempt_due().is_some_and(|due| due <= now) {
            return self.on_time_up(id, Failure::AttemptDeadline, now);
        }
        if exchange.is_tunnel {
            return self.on_tunnel_due(conn, id, now);
        }
        let waits_for_body = !exchange.request_body.is_complete() && entry.queued == 0;
        match exchange.response {
            _ if waits_for_body => self.touch(conn, now),
            Response::Awaited { .. } => self.fail_attempt(id, Failure::FirstByteTimeout, now),
            Response::Relaying { .. } if entry.is_paused => self.touch(conn, now),
            Response::Relaying { .. } => self.fail(id, Failure::UpstreamStalled, now),
        }
    }

    /// Closes behind what is queued.
    pub(super) fn close(&mut self, conn: ConnId, now: Moment) {
        if self.is_closing(conn) {
            return;
        }
        self.mark_closing(conn);
        self.out.push(Action::Close { conn });
        self.set_deadline(conn, now + self.settings.stall);
    }

    /// Closes at once, with a reset.
    pub(super) fn abort(&mut self, conn: ConnId, _now: Moment) {
        self.mark_closing(conn);
        if let Some(entry) = self.conns.get_mut(conn) {
            // Nothing is waited for any more, also if its deadline comes at the same moment.
            entry.deadline.clear();
            self.out.push(Action::Abort { conn });
        }
    }

    fn is_closing(&self, conn: ConnId) -> bool {
        self.conns.get(conn).is_none_or(|conn| match &conn.side {
            Side::Downstream(client) => client.state == DownstreamState::Closing,
            Side::Upstream(endpoint) => endpoint.state == UpstreamState::Closing,
        })
    }

    fn mark_closing(&mut self, conn: ConnId) {
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        entry.inbox = None;
        match &mut entry.side {
            Side::Downstream(client) => client.state = DownstreamState::Closing,
            Side::Upstream(endpoint) => {
                self.upstreams -= usize::from(endpoint.state != UpstreamState::Closing);
                endpoint.state = UpstreamState::Closing;
            }
        }
    }
}

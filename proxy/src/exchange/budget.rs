//! Connections are bounded, because descriptors are. A client beyond the budget is taken in as far as a small reserve
//! goes, only to be told 503; then accepting rests. Idle connections to endpoints make room for new ones.

use std::net::SocketAddr;

use super::Proxy;
use crate::conn::Conn;
use crate::moment::Moment;
use crate::seam::{Action, ConnId, Socket};
use crate::snapshot::ListenerId;

impl Proxy {
    pub(super) fn on_accepted(
        &mut self,
        listener: ListenerId,
        peer: SocketAddr,
        socket: Socket,
        now: Moment,
    ) {
        let is_late = self.last_client_at.is_some_and(|last| now >= last);
        if is_late || self.revision_for(listener).is_none() {
            self.counters.downstream_refused.increment();
            self.out.push(Action::Refuse { socket });
            return;
        }
        let is_shed = self.downstreams >= self.settings.max_downstreams;
        let conn = self.conns.insert(Conn::downstream(peer, listener));
        self.downstreams += 1;
        self.counters.downstream_accepted.increment();
        self.counters.downstream_active.raise();
        self.out.push(Action::Adopt { conn, socket });
        // Whoever is shed has its place until its request is there to be answered, but not for long.
        let patience = if is_shed {
            self.counters.downstream_shed.increment();
            self.settings.linger
        } else if self.is_draining || self.is_gone(listener) {
            self.settings.grace
        } else {
            self.settings.idle
        };
        if let Some(client) = self.downstream(conn) {
            client.is_shed = is_shed;
        }
        self.set_deadline(conn, now + patience);
        if self.room_for_clients() == 0 {
            self.counters.accept_rested.increment();
        }
    }

    /// A client of somebody else on this worker. `None` if there are as many as there may be.
    pub fn lend_client(&mut self) -> Option<ConnId> {
        if self.downstreams >= self.settings.max_downstreams {
            return None;
        }
        self.downstreams += 1;
        Some(self.conns.reserve())
    }

    pub fn take_back_client(&mut self, conn: ConnId) {
        self.downstreams -= 1;
        self.conns.release(conn);
    }

    /// A connection of somebody else to an endpoint.
    pub fn lend_upstream(&mut self, now: Moment) -> ConnId {
        self.make_room_for_upstream(now);
        self.upstreams += 1;
        self.conns.reserve()
    }

    pub fn take_back_upstream(&mut self, conn: ConnId) {
        self.upstreams -= 1;
        self.conns.release(conn);
    }

    /// Clients that would be taken in now, be it to be told that they are too many.
    pub(super) fn room_for_clients(&self) -> usize {
        let most = self
            .settings
            .max_downstreams
            .saturating_add(self.settings.max_shed);
        most.saturating_sub(self.downstreams)
    }

    /// One more connection to an endpoint is wanted. Each client has one in use at most, and copies of requests have only
    /// what clients leave, so with a limit not below that of clients there is an idle one to close; if there is none all
    /// the same, descriptors decide.
    pub(super) fn make_room_for_upstream(&mut self, now: Moment) {
        if self.upstreams < self.settings.max_upstreams {
            return;
        }
        if let Some(oldest) = self.pool.take_oldest() {
            self.counters.upstream_evicted.increment();
            self.close(oldest, now);
        }
    }
}

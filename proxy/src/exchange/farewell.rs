//! Parting without losing a request. A client that was not told that its connection ends may send its next request at
//! any moment, so that it gets a while for that: what comes is served, and the answer says that it was the last.
//!
//! Reasons to part are a drain, and a new snapshot in which the client's listener is missing. Then the snapshot before
//! goes on serving the listener for that while. Connections to endpoints that are gone are simply closed when idle.

use std::sync::Arc;

use super::Proxy;
use crate::conn::{Conn, DownstreamState, Side, UpstreamState};
use crate::moment::Moment;
use crate::seam::ConnId;
use crate::snapshot::{Hold, ListenerId, Snapshot};

/// Listeners that are gone, and by which snapshot their last requests are served.
#[derive(Debug)]
pub struct Leaving {
    listeners: Vec<ListenerId>,
    hold: Hold,
    until: Moment,
}

impl Proxy {
    pub(super) fn on_replaced(&mut self, snapshot: Arc<Snapshot>, now: Moment) {
        let before = self.snapshots.hold();
        self.snapshots.replace(snapshot);
        let gone = self.listeners_beyond_current(&before);
        if gone.is_empty() || self.settings.grace.is_zero() {
            self.snapshots.release(before);
        } else {
            self.leaving.push(Leaving {
                listeners: gone.clone(),
                hold: before,
                until: now + self.settings.grace,
            });
        }
        let current = self.snapshots.current();
        let idle = self.idle(|conn| match &conn.side {
            Side::Downstream(client) => gone.contains(&client.listener),
            Side::Upstream(endpoint) => !current.has(endpoint.row()),
        });
        for conn in idle {
            self.part_from_idle(conn, now);
        }
    }

    /// Finishes what runs; after a while nothing new is begun.
    pub(super) fn on_drain(&mut self, now: Moment) {
        if self.is_draining {
            return;
        }
        self.is_draining = true;
        self.last_client_at = Some(now + self.settings.grace);
        self.pool.clear();
        for conn in self.idle(|_| true) {
            self.part_from_idle(conn, now);
        }
    }

    /// Revision of the snapshot that serves requests of this listener. `None` if no new ones are taken.
    pub(super) fn revision_for(&self, listener: ListenerId) -> Option<u64> {
        let current = self.snapshots.current();
        if current.rules(listener).is_some() {
            return Some(current.revision);
        }
        let mut leaving = self.leaving.iter();
        let leaving = leaving.find(|leaving| leaving.listeners.contains(&listener))?;
        Some(leaving.hold.revision())
    }

    /// Whether this client is to be told that its connection ends.
    pub(super) fn is_parting(&self, conn: ConnId) -> bool {
        let Some(Side::Downstream(client)) = self.conns.get(conn).map(|conn| &conn.side) else {
            return false;
        };
        self.is_draining || self.is_gone(client.listener)
    }

    pub(super) fn is_gone(&self, listener: ListenerId) -> bool {
        self.snapshots.current().rules(listener).is_none()
    }

    /// Whether another request of this client would be served.
    pub(super) fn may_send_another(&self, conn: ConnId) -> bool {
        let Some(Side::Downstream(client)) = self.conns.get(conn).map(|conn| &conn.side) else {
            return false;
        };
        !self.settings.grace.is_zero() && self.revision_for(client.listener).is_some()
    }

    pub(super) fn next_parting(&self) -> Option<Moment> {
        self.leaving.iter().map(|leaving| leaving.until).min()
    }

    /// Lets snapshots go whose listeners have no client left that could send a request.
    pub(super) fn part(&mut self, now: Moment) {
        let grace = self.settings.grace;
        for mut leaving in std::mem::take(&mut self.leaving) {
            if leaving.until <= now && !self.is_awaiting_requests(&leaving.listeners) {
                self.snapshots.release(leaving.hold);
                continue;
            }
            if leaving.until <= now {
                leaving.until = now + grace;
            }
            self.leaving.push(leaving);
        }
    }

    fn is_awaiting_requests(&self, listeners: &[ListenerId]) -> bool {
        self.conns.iter().any(|(_, conn)| match &conn.side {
            Side::Downstream(client) => {
                let is_awaiting = matches!(
                    client.state,
                    DownstreamState::Idle | DownstreamState::ReadingHead
                );
                is_awaiting && listeners.contains(&client.listener)
            }
            Side::Upstream(_) => false,
        })
    }

    fn listeners_beyond_current(&self, before: &Hold) -> Vec<ListenerId> {
        let current = self.snapshots.current();
        let Some(before) = self.snapshots.of(before.revision()) else {
            return Vec::new();
        };
        let before = before.listeners().map(|(id, _)| id);
        before.filter(|id| current.rules(*id).is_none()).collect()
    }

    fn idle(&self, is_wanted: impl Fn(&Conn) -> bool) -> Vec<ConnId> {
        let is_idle = |conn: &Conn| match &conn.side {
            Side::Downstream(client) => client.state == DownstreamState::Idle,
            Side::Upstream(endpoint) => endpoint.state == UpstreamState::Idle,
        };
        let idle = self.conns.iter();
        idle.filter(|(_, conn)| is_idle(conn) && is_wanted(conn))
            .map(|(id, _)| id)
            .collect()
    }

    fn part_from_idle(&mut self, conn: ConnId, now: Moment) {
        match self.conns.get(conn).map(|conn| &conn.side) {
            Some(Side::Downstream(_)) if !self.settings.grace.is_zero() => {
                self.set_deadline(conn, now + self.settings.grace)
            }
            Some(Side::Downstream(_)) => self.close(conn, now),
            Some(Side::Upstream(_)) => self.close_idle(conn, now),
            None => {}
        }
    }
}

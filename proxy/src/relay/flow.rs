//! Bytes on their way, in both directions: each read is passed on at once, and a side that takes too little stops the
//! other from being read. Each side ends by itself: what it sent is passed on, then its end.

use super::link::{LinkId, Phase};
use super::{ConnIds, Relay, Role};
use crate::balance::Outcome;
use crate::metrics::LinkEnd;
use crate::moment::Moment;
use crate::seam::{Action, ConnId, End, Source};

/// Bytes queued to one side at which the other is no longer read, and at which it is read again.
const HIGH_WATER: usize = 256 * 1024;
const LOW_WATER: usize = 64 * 1024;
/// Bytes kept for an endpoint that is not there yet.
const EARLY: usize = 64 * 1024;

impl Relay {
    pub(super) fn on_received(
        &mut self,
        conn: ConnId,
        bytes: &[u8],
        now: Moment,
        ids: &mut impl ConnIds,
    ) {
        let Some(owner) = self.ends.owner(conn) else {
            return;
        };
        let Some(link) = self.links.get_mut(owner.link) else {
            return;
        };
        match (link.phase, owner.role) {
            (Phase::Preamble, _) => self.on_preamble(owner.link, bytes, now, ids),
            (Phase::Connecting, Role::Client) => {
                link.early.extend_from_slice(bytes);
                link.count(Role::Client, bytes.len());
                self.counters.l4_bytes_in.add(bytes.len() as u64);
                if link.early.len() > EARLY {
                    self.pause(conn);
                }
            }
            (Phase::Open, role) => {
                link.count(role, bytes.len());
                let Some((from, to)) = link.ends(role, conn) else {
                    return;
                };
                from.has_sent = true;
                to.queued += bytes.len();
                let (to, is_full) = (to.conn, to.queued > HIGH_WATER);
                link.is_asked = role == Role::Client;
                self.out.push(Action::Send {
                    conn: to,
                    source: Source::Received,
                    range: 0..bytes.len(),
                });
                match role {
                    Role::Client => self.counters.l4_bytes_in.add(bytes.len() as u64),
                    Role::Endpoint => self.counters.l4_bytes_out.add(bytes.len() as u64),
                }
                if is_full {
                    self.pause(conn);
                }
                self.touch(owner.link, now);
            }
            (Phase::Connecting | Phase::Closing, _) => {}
        }
    }

    pub(super) fn on_sent(&mut self, conn: ConnId, bytes: usize, now: Moment) {
        let Some(owner) = self.ends.owner(conn) else {
            return;
        };
        let Some(link) = self.links.get_mut(owner.link) else {
            return;
        };
        let is_open = link.phase == Phase::Open;
        let Some((to, from)) = link.ends(owner.role, conn) else {
            return;
        };
        to.queued = to.queued.saturating_sub(bytes);
        let resumed = (is_open && to.queued <= LOW_WATER).then_some(from.conn);
        if let Some(from) = resumed {
            self.resume(from);
        }
        self.touch(owner.link, now);
    }

    pub(super) fn on_receive_ended(&mut self, conn: ConnId, end: End, now: Moment) {
        let Some(owner) = self.ends.owner(conn) else {
            return;
        };
        let Some(link) = self.links.get_mut(owner.link) else {
            return;
        };
        match (link.phase, owner.role, end) {
            (Phase::Closing, _, _) => {}
            (Phase::Preamble, _, _) => {
                self.give_up(owner.link, Outcome::Neutral, LinkEnd::NoHeader, now);
            }
            (_, Role::Client, End::Broken) => {
                self.give_up(owner.link, Outcome::Neutral, LinkEnd::ClientReset, now);
            }
            // Told to the endpoint once it is there.
            (Phase::Connecting, Role::Client, End::Finished) => link.client.has_ended = true,
            (Phase::Connecting, Role::Endpoint, _) => {}
            (Phase::Open, Role::Endpoint, End::Broken) => self.on_endpoint_reset(owner.link, now),
            (Phase::Open, role, End::Finished) => {
                let Some((from, to)) = link.ends(role, conn) else {
                    return;
                };
                from.has_ended = true;
                match (to.has_ended, to.conn) {
                    (true, _) => self.complete(owner.link, now),
                    (false, to) => {
                        self.out.push(Action::Shutdown { conn: to });
                        self.touch(owner.link, now);
                    }
                }
            }
        }
    }

    pub(super) fn on_send_failed(&mut self, conn: ConnId, now: Moment) {
        let Some(owner) = self.ends.owner(conn) else {
            return;
        };
        let Some(link) = self.links.get_mut(owner.link) else {
            return;
        };
        if link.phase == Phase::Closing {
            return;
        }
        let Some((to, _)) = link.ends(owner.role, conn) else {
            return;
        };
        match (owner.role, to.has_ended) {
            (Role::Client, _) => {
                self.give_up(owner.link, Outcome::Neutral, LinkEnd::ClientReset, now);
            }
            // It had said all it had to say, and reads no more: the client is to have that.
            (Role::Endpoint, true) => self.complete(owner.link, now),
            (Role::Endpoint, false) => self.on_endpoint_reset(owner.link, now),
        }
    }

    pub(super) fn pause(&mut self, conn: ConnId) {
        if self.change_paused(conn, true) {
            self.out.push(Action::Pause { conn });
        }
    }

    pub(super) fn resume(&mut self, conn: ConnId) {
        if self.change_paused(conn, false) {
            self.out.push(Action::Resume { conn });
        }
    }

    /// Whether that is a change.
    fn change_paused(&mut self, conn: ConnId, is_paused: bool) -> bool {
        let Some(owner) = self.ends.owner(conn) else {
            return false;
        };
        let Some(link) = self.links.get_mut(owner.link) else {
            return false;
        };
        let end = match owner.role {
            Role::Client => Some(&mut link.client),
            Role::Endpoint => link.endpoint.as_mut(),
        };
        end.is_some_and(|end| std::mem::replace(&mut end.is_paused, is_paused) != is_paused)
    }

    /// Something moved.
    pub(super) fn touch(&mut self, id: LinkId, now: Moment) {
        let Some(link) = self.links.get(id) else {
            return;
        };
        let patience = match link.phase {
            Phase::Open if self.is_draining() && !link.is_busy() => self.settings.grace,
            Phase::Open => self.settings.idle,
            Phase::Closing => self.settings.flush,
            // The time for a header, or to connect, does not grow.
            Phase::Preamble | Phase::Connecting => return,
        };
        self.set_deadline(id, now + patience);
    }
}

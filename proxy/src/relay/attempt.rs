//! Where a client goes: its backend is drawn once, then endpoints are tried until a connection stands.

use super::link::{End, LinkId, Phase};
use super::{ConnIds, Relay, Role};
use crate::affinity::client_key;
use crate::balance::{BackendId, Lease, NoEndpoint, Outcome};
use crate::metrics::LinkEnd;
use crate::moment::Moment;
use crate::seam::{Action, ConnId, ConnectFault, Peer, Source};

impl Relay {
    /// A client is there: it is drawn where it goes.
    pub(super) fn begin(&mut self, id: LinkId, now: Moment, ids: &mut impl ConnIds) {
        match self.pick_first(id, now) {
            Some(lease) => self.attempt(id, lease, now, ids),
            None => self.give_up(id, Outcome::Neutral, LinkEnd::NoEndpoint, now),
        }
    }

    fn pick_first(&mut self, id: LinkId, now: Moment) -> Option<Lease> {
        let link = self.links.get_mut(id)?;
        let snapshot = self.snapshots.of(link.hold.as_ref()?.revision())?;
        let service = snapshot.l4_service(link.listener)?;
        let share = service
            .split
            .draw(|limit| self.balancer.draw_below(limit))?;
        let backend = snapshot.backend(BackendId {
            place: share.backend,
            revision: snapshot.revision,
        })?;
        let policy = snapshot.policy_of(backend);
        let is_bound = policy.is_some_and(|policy| policy.affinity.is_some());
        link.sends_header = policy.and_then(|policy| policy.sends_header);
        link.backend = Some(backend.id);
        if let Some(record) = &mut link.record {
            record.backend.set(backend.namespace.as_bytes());
            record.backend.push(b"/");
            record.backend.push(backend.name.as_bytes());
        }
        link.more_tries = service.more_tries;
        link.key = is_bound.then(|| client_key(link.address.ip()));
        let picked = match link.key {
            Some(key) => self.balancer.pick_bound(backend, key, &[], now),
            None => self.balancer.pick(backend, now),
        };
        self.counted(picked)
    }

    fn pick_next(&mut self, id: LinkId, now: Moment) -> Option<Lease> {
        let link = self.links.get(id)?;
        let tried = &link.tried;
        if tried.len() > usize::from(link.more_tries) {
            return None;
        }
        let backend = self.snapshots.backend(link.backend?)?;
        if !backend.has_untried(|row| tried.contains(&row)) {
            return None;
        }
        let picked = match link.key {
            Some(key) => self.balancer.pick_bound(backend, key, tried, now),
            None => self.balancer.pick_again(backend, tried, now),
        };
        self.counted(picked)
    }

    fn counted(&self, picked: Result<Lease, NoEndpoint>) -> Option<Lease> {
        self.counters.on_pick(&picked);
        picked.ok()
    }

    fn attempt(&mut self, id: LinkId, lease: Lease, now: Moment, ids: &mut impl ConnIds) {
        let peer = Peer {
            address: lease.address(),
            endpoint: lease.index(),
            generation: lease.generation(),
        };
        let conn = ids.endpoint(now);
        self.ends.insert(conn, id, Role::Endpoint);
        self.counters.upstream_opened.increment();
        self.counters.upstream_active.raise();
        self.out.push(Action::Connect { conn, peer });
        if let Some(link) = self.links.get_mut(id) {
            if let Some(record) = &mut link.record {
                record.endpoint = Some(lease.address());
                record.attempts += 1;
            }
            link.endpoint = Some(End::new(conn));
            link.lease = Some(lease);
            link.attempt_began = now;
        }
        self.set_deadline(id, now + self.settings.connect);
    }

    pub(super) fn on_connected(&mut self, conn: ConnId, now: Moment) {
        let Some(id) = self.connecting(conn) else {
            return;
        };
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.phase = Phase::Open;
        link.connect = Some(now.since(link.attempt_began));
        if let Some(record) = &mut link.record {
            record.connect = link.connect;
        }
        let (hold, early) = (link.hold.take(), std::mem::take(&mut link.early));
        let (client, has_ended) = (link.client.conn, link.client.has_ended);
        link.is_asked = !early.is_empty();
        if let Some(hold) = hold {
            self.snapshots.release(hold);
        }
        let start = self.out.made_length();
        self.write_preamble(id);
        self.out.made_mut().extend_from_slice(&early);
        self.send_made(id, conn, start);
        match has_ended {
            true => self.out.push(Action::Shutdown { conn }),
            false => self.resume(client),
        }
        self.touch(id, now);
    }

    /// Queues all bytes made from `start` on to the endpoint.
    fn send_made(&mut self, id: LinkId, conn: ConnId, start: usize) {
        let range = start..self.out.made_length();
        if range.is_empty() {
            return;
        }
        if let Some(endpoint) = self.links.get_mut(id).and_then(|it| it.endpoint.as_mut()) {
            endpoint.queued += range.len();
        }
        self.out.push(Action::Send {
            conn,
            source: Source::Made,
            range,
        });
    }

    pub(super) fn on_connect_failed(
        &mut self,
        conn: ConnId,
        fault: ConnectFault,
        now: Moment,
        ids: &mut impl ConnIds,
    ) {
        // The driver keeps a connection until it is told to end it.
        self.out.push(Action::Abort { conn });
        let Some(id) = self.connecting(conn) else {
            return;
        };
        self.counters.upstream_connect_failed.increment();
        match fault {
            ConnectFault::Endpoint => self.try_another(id, now, ids),
            ConnectFault::Host => self.give_up(id, Outcome::Neutral, LinkEnd::HostExhausted, now),
        }
    }

    /// The time to connect is over.
    pub(super) fn on_connect_due(&mut self, id: LinkId, now: Moment, ids: &mut impl ConnIds) {
        let endpoint = self.links.get(id).and_then(|link| link.endpoint.as_ref());
        if let Some(conn) = endpoint.map(|endpoint| endpoint.conn) {
            self.counters.upstream_connect_failed.increment();
            self.out.push(Action::Abort { conn });
            self.try_another(id, now, ids);
        }
    }

    /// No connection stood: the failure is recorded before the next pick, which avoids who had it.
    fn try_another(&mut self, id: LinkId, now: Moment, ids: &mut impl ConnIds) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.endpoint = None;
        let lease = link.lease.take();
        link.tried.extend(lease.as_ref().map(Lease::index));
        self.settle(lease, Outcome::Failure, now);
        match self.pick_next(id, now) {
            Some(lease) => {
                self.counters.l4_retries.increment();
                self.attempt(id, lease, now, ids);
            }
            None => self.give_up(id, Outcome::Neutral, LinkEnd::NoConnection, now),
        }
    }

    /// The link that waits for this very connection.
    fn connecting(&self, conn: ConnId) -> Option<LinkId> {
        let owner = self.ends.owner(conn)?;
        let link = self.links.get(owner.link)?;
        let is_awaited = link
            .endpoint
            .as_ref()
            .is_some_and(|endpoint| endpoint.conn == conn);
        (link.phase == Phase::Connecting && is_awaited).then_some(owner.link)
    }
}

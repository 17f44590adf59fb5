//! One TCP connection of a client and the one to its endpoint: accept, pick, connect, bytes both ways, outcome. The
//! sibling of [`exchange`](crate::exchange) for what has no requests.
//!
//! ```text
//! accepted ─► pick ─► connect ─► open: bytes both ways, each side ends by itself ─► closing ─► gone
//!               ▲         │                                                            ▲
//!               └─ other ◄┘ no connection                        reset, idle, no endpoint ┘
//! ```
//!
//! A lease is held for as long as the connection lives, so that `pending` counts connections. Its outcome: success if
//! both sides ended in order, or the endpoint reset it after it had sent something, with the time it took to connect as
//! its latency; failure if no connection stood or the endpoint reset it before; neutral if the client went away. A connection that is open never moves, whatever is reloaded.

mod attempt;
mod ending;
mod flow;
mod link;
mod preamble;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::access_log::Record;
use crate::balance::Balancer;
use crate::conn::{Outbox, Slab};
use crate::metrics::WorkerCounters;
use crate::moment::Moment;
use crate::proxy_protocol::Addresses;
use crate::seam::{Action, ConnId, Event, Socket};
use crate::snapshot::{Hold, L4Service, ListenerId, Snapshot, Snapshots, Transport};
use crate::timer::Deadlines;
use link::{Ends, Link, LinkId, Phase};

/// How long anything may take.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// For a PROXY header to arrive, where one is wanted.
    pub header: Duration,
    /// For a connection to an endpoint to stand.
    pub connect: Duration,
    /// Without a byte in either direction.
    pub idle: Duration,
    /// For the last bytes to be taken, once both sides have ended.
    pub flush: Duration,
    /// For clients that were on their way to a listener when it was removed; for a connection to move something when a
    /// stop waits for it.
    pub grace: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(5),
            connect: Duration::from_secs(5),
            idle: Duration::from_secs(600),
            flush: Duration::from_secs(60),
            grace: Duration::from_secs(1),
        }
    }
}

/// Names of connections, and the right to have them; and the access log. All are shared with whoever else serves on the
/// same worker.
pub trait ConnIds {
    /// `None`: there is no room for another client.
    fn client(&mut self) -> Option<ConnId>;

    /// Makes room if there is none.
    fn endpoint(&mut self, now: Moment) -> ConnId;

    /// The connection is gone.
    fn give_back(&mut self, conn: ConnId, role: Role);

    /// What the access log is to be told of a client; `None` without a log.
    fn begin_record(&mut self, client: IpAddr, now: Moment) -> Option<Box<Record>>;

    fn end_record(&mut self, record: Box<Record>, now: Moment);
}

/// Which end of a link a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Endpoint,
}

/// All TCP services of one worker.
pub struct Relay {
    snapshots: Snapshots,
    settings: Settings,
    balancer: Balancer,
    counters: Arc<WorkerCounters>,
    links: Slab<LinkId, Link>,
    ends: Ends,
    deadlines: Deadlines<LinkId>,
    out: Outbox,
    /// Draining, clients are taken in until then.
    last_client_at: Option<Moment>,
    /// Snapshots with services that are gone, each until its moment.
    leaving: Vec<(Hold, Moment)>,
}

impl Relay {
    /// `balancer` may have the rows of another one on the same thread.
    pub fn new(
        snapshot: Arc<Snapshot>,
        settings: Settings,
        balancer: Balancer,
        counters: Arc<WorkerCounters>,
    ) -> Self {
        Self {
            snapshots: Snapshots::new(snapshot),
            settings,
            balancer,
            counters,
            links: Slab::default(),
            ends: Ends::default(),
            deadlines: Deadlines::default(),
            out: Outbox::default(),
            last_client_at: None,
            leaving: Vec::new(),
        }
    }

    /// Whether the events of this listener are for us.
    pub fn serves(&self, listener: ListenerId) -> bool {
        self.service(listener).is_some()
    }

    /// Whether the events of this connection are.
    pub fn has(&self, conn: ConnId) -> bool {
        self.ends.owner(conn).is_some()
    }

    pub fn on_event(&mut self, event: Event<'_>, now: Moment, ids: &mut impl ConnIds) {
        self.out.begin_event();
        match event {
            Event::Accepted {
                listener,
                peer,
                socket,
            } => self.on_accepted(listener, peer, socket, now, ids),
            Event::Connected { conn, .. } => self.on_connected(conn, now),
            Event::ConnectFailed { conn, fault } => self.on_connect_failed(conn, fault, now, ids),
            Event::Received { conn, bytes } => self.on_received(conn, bytes, now, ids),
            Event::ReceiveEnded { conn, end } => self.on_receive_ended(conn, end, now),
            Event::Sent { conn, bytes } => self.on_sent(conn, bytes, now),
            Event::SendFailed { conn } => self.on_send_failed(conn, now),
            Event::Closed { conn } => self.on_closed(conn, now, ids),
            Event::Tick => self.on_tick(now, ids),
            Event::Replaced { snapshot } => self.on_replaced(snapshot.clone(), now),
            Event::Books(books) => self.balancer.count(books),
            Event::Drain => self.on_drain(now),
        }
    }

    pub fn next_action(&mut self) -> Option<Action> {
        self.out.pop()
    }

    pub fn made(&self) -> &[u8] {
        self.out.made()
    }

    pub fn next_deadline(&self) -> Option<Moment> {
        let leaving = self.leaving.iter().map(|(_, until)| *until);
        leaving.chain(self.deadlines.next()).min()
    }

    /// Revision of the oldest snapshot anything here may still ask.
    pub fn oldest_snapshot(&self) -> u64 {
        self.snapshots.oldest()
    }

    /// Whether no connection is left.
    pub fn is_drained(&self) -> bool {
        self.ends.is_empty()
    }

    /// The service of a listener, and the snapshot it is of: the current one, or one it has just left.
    fn service(&self, listener: ListenerId) -> Option<(&Arc<Snapshot>, &L4Service)> {
        let current = self.snapshots.current();
        let leaving = self.leaving.iter().rev();
        let leaving = leaving.filter_map(|(hold, _)| self.snapshots.of(hold.revision()));
        std::iter::once(current)
            .chain(leaving)
            .find_map(|snapshot| Some((snapshot, snapshot.l4_service(listener)?)))
            .filter(|(_, service)| service.transport == Transport::Tcp)
    }

    fn on_accepted(
        &mut self,
        listener: ListenerId,
        peer: SocketAddr,
        socket: Socket,
        now: Moment,
        ids: &mut impl ConnIds,
    ) {
        let is_late = self.last_client_at.is_some_and(|last| now >= last);
        let found = self.service(listener);
        let found = found.map(|(it, service)| (it.revision, service.address, service.reads_header));
        let (Some((revision, destination, reads_header)), false) = (found, is_late) else {
            self.counters.l4_refused.increment();
            return self.out.push(Action::Refuse { socket });
        };
        let Some(conn) = ids.client() else {
            self.counters.l4_refused.increment();
            return self.out.push(Action::Refuse { socket });
        };
        self.out.push(Action::Adopt { conn, socket });
        self.counters.l4_accepted.increment();
        self.counters.l4_active.raise();
        let hold = self.snapshots.hold_of(revision);
        let addresses = Addresses {
            source: SocketAddr::new(peer.ip().to_canonical(), peer.port()),
            destination,
        };
        let mut link = Link::new(conn, listener, addresses, hold, now);
        link.record = ids.begin_record(addresses.source.ip(), now);
        if let Some(record) = &mut link.record {
            record.protocol = Some("TCP");
        }
        let id = self.links.insert(link);
        self.ends.insert(conn, id, Role::Client);
        match reads_header {
            true => self.set_deadline(id, now + self.settings.header),
            false => {
                self.enter(id, Phase::Connecting);
                self.begin(id, now, ids);
            }
        }
    }

    fn on_drain(&mut self, now: Moment) {
        self.last_client_at = Some(now + self.settings.grace);
        let links: Vec<LinkId> = self.links.iter().map(|(id, _)| id).collect();
        for link in links {
            self.touch(link, now);
        }
    }

    fn is_draining(&self) -> bool {
        self.last_client_at.is_some()
    }

    fn enter(&mut self, id: LinkId, phase: Phase) {
        if let Some(link) = self.links.get_mut(id) {
            link.phase = phase;
        }
    }

    /// Clients on their way to a service that is gone are still served.
    fn on_replaced(&mut self, snapshot: Arc<Snapshot>, now: Moment) {
        let before = self.snapshots.hold();
        let has_lost_any = {
            let services = self.snapshots.current().l4_services();
            let mut numbers = services.map(|(id, _)| id);
            numbers.any(|id| snapshot.l4_service(id).is_none())
        };
        self.snapshots.replace(snapshot);
        match has_lost_any && !self.settings.grace.is_zero() {
            true => self.leaving.push((before, now + self.settings.grace)),
            false => self.snapshots.release(before),
        }
    }
}

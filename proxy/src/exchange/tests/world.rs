//! A driver without sockets: it reports to a [`Proxy`] what the test makes happen, carries out what the proxy wants on
//! simulated connections, and moves a clock by hand. The books are checked after every event and once more when the
//! world ends, so every test is also one of conservation.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::setup::{Connects, FLOWS, Setup};
use super::wire::{Ending, News, Side, Stage, Wire};
use crate::balance::shared::SharedTables;
use crate::balance::{Balancer, EndpointRows, Figures};
use crate::exchange::{Proxy, Settings};
use crate::metrics::WorkerCounters;
use crate::moment::Moment;
use crate::seam::{Action, ConnId, Core, End, Event, FlowSlot, Socket, Source};
use crate::snapshot::{Lineage, ListenerId, Plan};

/// Address of every client.
pub const CLIENT: &str = "192.0.2.7";

pub struct World {
    pub proxy: Proxy,
    pub tables: SharedTables,
    pub counters: Arc<WorkerCounters>,
    pub now: Moment,
    pub connects: Connects,
    /// Places of endpoints that fare otherwise.
    pub connects_of: BTreeMap<usize, Connects>,
    /// Nothing is reported before the test says so.
    pub(super) is_manual: bool,
    is_measured: bool,
    pub lineage: Lineage,
    /// Where clients connect.
    pub listener: ListenerId,
    pub(super) wires: BTreeMap<ConnId, Wire>,
    /// In the order in which they were begun.
    pub(super) upstreams: Vec<ConnId>,
    next_socket: i32,
    /// The socket the proxy is to decide about, and what it decided.
    accepted: Option<Socket>,
    adopted: Option<ConnId>,
}

impl World {
    /// One healthy endpoint, default settings.
    pub fn new() -> Self {
        Self::of(Setup::default())
    }

    pub fn with_settings(change: impl FnOnce(&mut Settings)) -> Self {
        let mut setup = Setup::default();
        change(&mut setup.settings);
        Self::of(setup)
    }

    pub fn of(setup: Setup) -> Self {
        let tables = setup.tables();
        let rows = EndpointRows::new(tables.clone());
        let lineage = Lineage::begin(setup.plan(), rows).expect("rows enough");
        let counters = Arc::new(WorkerCounters::default());
        let proxy = Proxy::new(
            lineage.current().clone(),
            setup.settings,
            Balancer::new(tables.clone(), 0, setup.seed),
            tables.samples.clone(),
            counters.clone(),
        );
        Self {
            proxy,
            tables,
            counters,
            now: Moment::from_nanos(1_000_000_000),
            connects: setup.connects,
            connects_of: BTreeMap::new(),
            is_manual: false,
            is_measured: setup.is_measured,
            lineage,
            listener: ListenerId(0),
            wires: BTreeMap::new(),
            upstreams: Vec::new(),
            next_socket: 0,
            accepted: None,
            adopted: None,
        }
    }

    // What tests make happen.

    pub fn client(&mut self) -> ConnId {
        self.try_client().expect("the proxy takes another client")
    }

    /// A client connects; `None` if it is turned away.
    pub fn try_client(&mut self) -> Option<ConnId> {
        self.next_socket += 1;
        let socket = Socket(self.next_socket);
        self.accepted = Some(socket);
        self.adopted = None;
        let peer: SocketAddr = format!("[::ffff:{CLIENT}]:4711").parse().expect("literal");
        self.report(
            Event::Accepted {
                listener: self.listener,
                peer,
                socket,
            },
            &[],
        );
        assert_eq!(self.accepted, None, "an accepted socket is decided about");
        self.settle();
        self.adopted
    }

    /// The other end of this connection sends.
    pub fn send(&mut self, conn: ConnId, bytes: impl AsRef<[u8]>) {
        self.wire(conn).peer_sends(bytes.as_ref());
        self.settle();
    }

    /// The other end sends no more.
    pub fn finish(&mut self, conn: ConnId) {
        self.wire(conn).peer_ends(End::Finished);
        self.settle();
    }

    /// The other end resets the connection.
    pub fn reset(&mut self, conn: ConnId) {
        self.wire(conn).peer_ends(End::Broken);
        self.settle();
    }

    /// The other end stops reading.
    pub fn stall(&mut self, conn: ConnId) {
        self.wire(conn).is_stalled = true;
    }

    /// The other end, stalled, reads this many bytes.
    pub fn let_through(&mut self, conn: ConnId, bytes: usize) {
        self.tell(conn, News::Sent(bytes));
        self.settle();
    }

    /// This is served from now on.
    pub fn replace(&mut self, plan: Plan) {
        let draft = self.lineage.draft(plan).expect("rows enough");
        let snapshot = self.lineage.adopt(draft).clone();
        let snapshot = &snapshot;
        self.report(Event::Replaced { snapshot }, &[]);
        self.settle();
    }

    pub fn drain(&mut self) {
        self.report(Event::Drain, &[]);
        self.settle();
    }

    /// Time goes by; the proxy is woken whenever it asked to be.
    pub fn advance(&mut self, length: Duration) {
        let until = self.now + length;
        while let Some(due) = self.proxy.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.report(Event::Tick, &[]);
            assert!(
                self.proxy.next_deadline() > Some(self.now) || self.proxy.next_deadline().is_none(),
                "a deadline that has come comes again at once"
            );
            self.settle();
        }
        self.now = until;
    }

    /// The kernel has measured the first byte of what runs on this connection.
    pub fn kernel_measures(&mut self, conn: ConnId, first_byte: Duration) {
        let sample = &self.tables.samples[conn.index as usize];
        let nanos = u64::try_from(first_byte.as_nanos()).expect("a short time");
        sample.first_byte_ns.store(nanos, Relaxed);
        sample.exchange.fetch_add(1, Relaxed);
    }

    // What tests look at.

    /// What the other end got since this was asked last.
    pub fn read(&mut self, conn: ConnId) -> String {
        String::from_utf8(self.read_bytes(conn)).expect("text")
    }

    pub fn read_bytes(&mut self, conn: ConnId) -> Vec<u8> {
        self.wire(conn).read()
    }

    /// The newest connection to an endpoint.
    pub fn endpoint(&self) -> ConnId {
        *self.upstreams.last().expect("a connection to an endpoint")
    }

    /// How the proxy has ended this connection.
    pub fn ending(&self, conn: ConnId) -> Ending {
        self.wires[&conn].ending
    }

    /// Neither side has ended it.
    pub fn is_open(&self, conn: ConnId) -> bool {
        !self.wires[&conn].is_gone() && self.ending(conn) == Ending::No
    }

    /// The kernel was told to measure this connection no more.
    pub fn is_unmeasured(&self, conn: ConnId) -> bool {
        self.wires[&conn].is_unmeasured
    }

    pub fn is_paused(&self, conn: ConnId) -> bool {
        self.wires[&conn].is_paused
    }

    pub fn queued(&self, conn: ConnId) -> usize {
        self.wires[&conn].queued()
    }

    pub fn figures(&self, place: usize) -> Figures {
        let endpoint = self.lineage.current().endpoints().nth(place);
        Figures::read(&self.tables, endpoint.expect("an endpoint"), self.now)
    }

    /// Leases of the first endpoint that ended as success, failure, neutral.
    pub fn outcomes(&self) -> [u64; 3] {
        let leases = self.figures(0).leases;
        [leases.succeeded, leases.failed, leases.neutral]
    }

    // The driver.

    pub(super) fn wire(&mut self, conn: ConnId) -> &mut Wire {
        self.wires.get_mut(&conn).expect("a connection there was")
    }

    /// Reports all there is to report until nothing happens any more.
    pub(super) fn settle(&mut self) {
        while !self.is_manual
            && let Some((conn, news)) = self.all_news().into_iter().next()
        {
            self.tell(conn, news);
        }
    }

    /// What the driver could report now.
    pub(super) fn all_news(&self) -> Vec<(ConnId, News)> {
        let of_wire = |(conn, wire): (&ConnId, &Wire)| {
            let (conn, news) = (*conn, wire.news());
            news.into_iter().map(move |news| (conn, news))
        };
        let is_wanted = |(conn, news): &(ConnId, News)| match news {
            News::Connected => self.connects_to(*conn) == Connects::Succeed,
            News::ConnectFailed => matches!(self.connects_to(*conn), Connects::Fail(_)),
            _ => true,
        };
        self.wires
            .iter()
            .flat_map(of_wire)
            .filter(is_wanted)
            .collect()
    }

    pub(super) fn tell(&mut self, conn: ConnId, news: News) {
        self.wire(conn).on_news(&news);
        let slot = FlowSlot(conn.index);
        let is_measured = self.is_measured && (conn.index as usize) < FLOWS;
        match &news {
            News::Connected => {
                let slot = is_measured.then_some(slot);
                self.report(Event::Connected { conn, slot }, &[]);
            }
            News::ConnectFailed => {
                let Connects::Fail(fault) = self.connects_to(conn) else {
                    return;
                };
                self.report(Event::ConnectFailed { conn, fault }, &[]);
            }
            News::Sent(bytes) => self.report(
                Event::Sent {
                    conn,
                    bytes: *bytes,
                },
                &[],
            ),
            News::SendFailed => self.report(Event::SendFailed { conn }, &[]),
            News::Received(bytes) => self.report(Event::Received { conn, bytes }, bytes),
            News::Ended(end) => self.report(Event::ReceiveEnded { conn, end: *end }, &[]),
            News::Closed => self.report(Event::Closed { conn }, &[]),
        }
    }

    fn connects_to(&self, conn: ConnId) -> Connects {
        let own = self.connects_of.get(&self.place_of(conn));
        own.copied().unwrap_or(self.connects)
    }

    /// Which endpoint this connection leads to.
    pub fn place_of(&self, conn: ConnId) -> usize {
        match self.wires[&conn].side {
            Side::Endpoint(peer) => peer.endpoint as usize,
            Side::Client => unreachable!("upstreams lead to endpoints"),
        }
    }

    pub(super) fn report(&mut self, event: Event<'_>, received: &[u8]) {
        self.proxy.on_event(event, self.now);
        while let Some(action) = self.proxy.next_action() {
            self.carry_out(action, received);
        }
        self.check_books();
    }

    fn carry_out(&mut self, action: Action, received: &[u8]) {
        match action {
            Action::Adopt { conn, socket } => {
                assert_eq!(self.accepted.take(), Some(socket), "the socket accepted");
                self.adopted = Some(conn);
                self.put(conn, Side::Client);
            }
            Action::Refuse { socket } => {
                assert_eq!(self.accepted.take(), Some(socket), "the socket accepted");
            }
            Action::Connect { conn, peer } => {
                self.put(conn, Side::Endpoint(peer));
                self.upstreams.push(conn);
            }
            Action::Send {
                conn,
                source,
                range,
            } => {
                let bytes = match source {
                    Source::Received => received[range].to_vec(),
                    Source::Made => self.proxy.made()[range].to_vec(),
                };
                self.living(conn).on_send(&bytes);
            }
            Action::Pause { conn } => self.living(conn).on_pause(),
            Action::Resume { conn } => self.living(conn).on_resume(),
            Action::Unmeasure { conn } => self.living(conn).is_unmeasured = true,
            Action::Shutdown { conn } => self.living(conn).on_end(Ending::Shutdown),
            Action::Close { conn } => self.living(conn).on_end(Ending::Close),
            Action::Abort { conn } => self.living(conn).on_end(Ending::Abort),
        }
    }

    fn put(&mut self, conn: ConnId, side: Side) {
        let is_in_use = |(old, wire): (&ConnId, &Wire)| old.index == conn.index && !wire.is_gone();
        assert!(
            !self.wires.iter().any(is_in_use),
            "{conn:?} is still in use"
        );
        let earlier = self.wires.insert(conn, Wire::new(side));
        assert!(earlier.is_none(), "{conn:?} was used before");
    }

    fn living(&mut self, conn: ConnId) -> &mut Wire {
        let wire = self.wires.get_mut(&conn).expect("a connection there was");
        assert_ne!(wire.stage, Stage::Gone, "{conn:?} is gone");
        wire
    }

    /// The connection on which an endpoint has got a request it has not looked at.
    fn busy_endpoint(&self) -> ConnId {
        let is_busy = |conn: &ConnId| !self.wires[conn].unread().is_empty();
        let mut busy = self.upstreams.iter().copied().filter(is_busy);
        let conn = busy.next().expect("a request has come");
        assert_eq!(busy.next(), None, "more than one request has come");
        conn
    }

    pub fn busy_endpoint_place(&self) -> usize {
        self.place_of(self.busy_endpoint())
    }

    /// What the endpoint has got that has got a request.
    pub fn busy_endpoint_read(&mut self) -> String {
        let conn = self.busy_endpoint();
        self.read(conn)
    }

    /// The newest connection to this endpoint.
    pub fn endpoint_of(&self, place: usize) -> ConnId {
        let mut upstreams = self.upstreams.iter().rev();
        let found = upstreams.find(|conn| self.place_of(**conn) == place);
        *found.expect("a connection to that endpoint")
    }

    /// The endpoint that has got a request reads it and answers.
    pub fn answer(&mut self, response: &str) {
        let conn = self.busy_endpoint();
        self.read_bytes(conn);
        self.send(conn, response);
    }
}

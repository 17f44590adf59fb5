//! A driver without sockets. Ends that are told to close or reset are gone at once; what is sent to them is kept.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use crate::access_log::Record;
use crate::balance::shared::{SharedTables, Sizes};
use crate::balance::{Balancer, EndpointRows, Figures, Weight};
use crate::conn::Slab;
use crate::metrics::{LinkEnd, WorkerCounters};
use crate::moment::Moment;
use crate::relay::{ConnIds, Relay, Role, Settings};
use crate::route::Split;
use crate::seam::{Action, ConnId, ConnectFault, End, Event, Socket, Source};
use crate::snapshot::{BackendPolicy, L4Service, Lineage, ListenerId, Plan, Target, Transport};

/// Names of connections as a worker has them, without a budget.
#[derive(Default)]
pub struct Ids {
    slab: Slab<ConnId, ()>,
    pub is_full: bool,
    /// What the access log was told.
    pub records: Vec<Record>,
}

impl ConnIds for Ids {
    fn client(&mut self) -> Option<ConnId> {
        (!self.is_full).then(|| self.slab.reserve())
    }

    fn endpoint(&mut self, _now: Moment) -> ConnId {
        self.slab.reserve()
    }

    fn give_back(&mut self, conn: ConnId, _role: Role) {
        self.slab.release(conn);
    }

    fn begin_record(&mut self, client: IpAddr, now: Moment) -> Option<Box<Record>> {
        Some(Box::new(Record::new(client, now)))
    }

    fn end_record(&mut self, mut record: Box<Record>, now: Moment) {
        record.ended = now;
        self.records.push(*record);
    }
}

pub struct World {
    pub relay: Relay,
    pub ids: Ids,
    pub counters: Arc<WorkerCounters>,
    pub lineage: Lineage,
    pub now: Moment,
    tables: SharedTables,
    /// What each connection was sent and has not been asked for yet.
    sent: BTreeMap<ConnId, Vec<u8>>,
    /// Endpoints connected to, the latest last.
    pub connects: Vec<(ConnId, SocketAddr)>,
}

/// One TCP service with endpoints at these ports of one address.
pub fn plan(ports: &[u16]) -> Plan {
    let target = |port: &u16| Target::at(([10, 0, 0, 1], *port).into(), Weight::ONE);
    let mut plan = Plan::quick(&[], &ports.iter().map(target).collect::<Vec<_>>());
    plan.l4_services.push(L4Service {
        transport: Transport::Tcp,
        address: SocketAddr::from(([0, 0, 0, 0], 5432)),
        split: Split::one(0),
        more_tries: 2,
        reads_header: false,
        route: "default/raw".into(),
    });
    plan
}

impl World {
    pub fn new(ports: &[u16]) -> Self {
        Self::of(plan(ports))
    }

    pub fn bound_by_client(ports: &[u16]) -> Self {
        let affinity = crate::affinity::Affinity::compile("source.address").expect("known");
        let mut plan = plan(ports);
        plan.backends[0].policy = BackendPolicy {
            affinity: Some(affinity),
            ..BackendPolicy::default()
        };
        Self::of(plan)
    }

    pub fn of(plan: Plan) -> Self {
        let tables = SharedTables::anonymous(Sizes {
            capacity: 8,
            workers: 1,
            cpus: 1,
            flows: 1,
        });
        let rows = EndpointRows::new(tables.clone());
        let lineage = Lineage::begin(plan, rows).expect("rows enough");
        let counters = Arc::new(WorkerCounters::default());
        let relay = Relay::new(
            lineage.current().clone(),
            Settings::default(),
            Balancer::new(tables.clone(), 0, 7),
            counters.clone(),
        );
        Self {
            relay,
            ids: Ids::default(),
            counters,
            lineage,
            now: Moment::from_nanos(1_000_000_000),
            tables,
            sent: BTreeMap::new(),
            connects: Vec::new(),
        }
    }

    /// A client connects; what the relay does about it.
    pub fn accept(&mut self, listener: u32, from: &str) -> Vec<Action> {
        self.report(
            Event::Accepted {
                listener: ListenerId(listener),
                peer: from.parse().expect("an address"),
                socket: Socket(3),
            },
            &[],
        )
    }

    /// A client connects and is taken in. It, and the connection that is begun for it.
    pub fn client(&mut self) -> (ConnId, ConnId) {
        let actions = self.accept(0, "192.0.2.7:1024");
        match actions[..] {
            [
                Action::Adopt { conn, .. },
                Action::Connect { conn: endpoint, .. },
            ] => (conn, endpoint),
            _ => panic!("not taken in: {actions:?}"),
        }
    }

    /// A client and an endpoint, connected after a millisecond.
    pub fn pair(&mut self) -> (ConnId, ConnId) {
        let (client, endpoint) = self.client();
        self.now = self.now + Duration::from_millis(1);
        self.connected(endpoint);
        (client, endpoint)
    }

    pub fn connected(&mut self, conn: ConnId) -> Vec<Action> {
        self.report(Event::Connected { conn, slot: None }, &[])
    }

    pub fn fails(&mut self, conn: ConnId, fault: ConnectFault) -> Vec<Action> {
        self.report(Event::ConnectFailed { conn, fault }, &[])
    }

    pub fn received(&mut self, conn: ConnId, bytes: &[u8]) -> Vec<Action> {
        self.report(Event::Received { conn, bytes }, bytes)
    }

    pub fn ends(&mut self, conn: ConnId, end: End) -> Vec<Action> {
        self.report(Event::ReceiveEnded { conn, end }, &[])
    }

    pub fn takes(&mut self, conn: ConnId, bytes: usize) -> Vec<Action> {
        self.report(Event::Sent { conn, bytes }, &[])
    }

    pub fn breaks(&mut self, conn: ConnId) -> Vec<Action> {
        self.report(Event::SendFailed { conn }, &[])
    }

    pub fn replace(&mut self, plan: Plan) {
        let draft = self.lineage.draft(plan).expect("rows enough");
        let snapshot = self.lineage.adopt(draft).clone();
        let snapshot = &snapshot;
        self.report(Event::Replaced { snapshot }, &[]);
    }

    /// Time goes by, and the relay is woken whenever it asked to be.
    pub fn advance(&mut self, length: Duration) -> Vec<Action> {
        let until = self.now + length;
        let mut actions = Vec::new();
        while let Some(due) = self.relay.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            actions.extend(self.report(Event::Tick, &[]));
        }
        self.now = until;
        actions
    }

    pub fn report(&mut self, event: Event<'_>, received: &[u8]) -> Vec<Action> {
        self.relay.on_event(event, self.now, &mut self.ids);
        let mut actions = Vec::new();
        while let Some(action) = self.relay.next_action() {
            match &action {
                Action::Send {
                    conn,
                    source,
                    range,
                } => {
                    let bytes = match source {
                        Source::Received => &received[range.clone()],
                        Source::Made => &self.relay.made()[range.clone()],
                    };
                    self.sent.entry(*conn).or_default().extend(bytes);
                }
                Action::Connect { conn, peer } => self.connects.push((*conn, peer.address)),
                _ => {}
            }
            actions.push(action);
        }
        for action in &actions {
            if let Action::Close { conn } | Action::Abort { conn } = action {
                let conn = *conn;
                self.relay
                    .on_event(Event::Closed { conn }, self.now, &mut self.ids);
                assert_eq!(
                    self.relay.next_action(),
                    None,
                    "a closed connection is over"
                );
            }
        }
        actions
    }

    /// What a connection was sent since this was asked last.
    pub fn read(&mut self, conn: ConnId) -> Vec<u8> {
        self.sent.remove(&conn).unwrap_or_default()
    }

    /// What is known of the endpoint at this port.
    pub fn figures(&self, port: u16) -> Figures {
        let mut endpoints = self.lineage.current().endpoints();
        let endpoint = endpoints.find(|one| one.address.port() == port);
        Figures::read(&self.tables, endpoint.expect("an endpoint"), self.now)
    }

    /// How often links ended like this.
    pub fn endings(&self, why: LinkEnd) -> u64 {
        self.counters.l4_endings.of(why).value()
    }

    /// Nothing is left of anything.
    pub fn assert_all_gone(&self) {
        assert!(self.relay.is_drained());
        assert!(self.ids.slab.is_empty(), "all names were given back");
        assert_eq!(self.counters.l4_active.value(), 0);
        assert_eq!(self.counters.upstream_active.value(), 0);
        assert_eq!(
            self.relay.oldest_snapshot(),
            self.lineage.current().revision
        );
        for endpoint in self.lineage.current().endpoints() {
            assert_eq!(
                Figures::read(&self.tables, endpoint, self.now)
                    .leases
                    .pending,
                0
            );
        }
    }
}

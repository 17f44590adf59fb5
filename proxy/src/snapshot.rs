//! All a worker needs to serve, immutable: listeners, routes, L4 services and backends. A change of configuration makes a new
//! snapshot; what is in flight keeps the one it began with, and what the balancer learned stays in the tables.

mod changes;
mod deny;
mod holds;
mod l4;
mod lineage;

pub use changes::{Changes, Counts};
pub use deny::{DenyList, Prefix};
pub use holds::{Hold, Snapshots};
pub use l4::{L4Service, Transport};
pub use lineage::Lineage;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use crate::affinity::Affinity;
use crate::balance::{
    Backend, BackendId, BackendKind, Bucket, Endpoint, EndpointRow, EndpointRows, LatencySpan,
    Policy, Scoring, TablesFull, Weight,
};
use crate::check::ActiveCheck;
use crate::condition::Condition;
use crate::proxy_protocol;
use crate::route::{RetryBudget, Rules, Split};

/// Listeners and backends at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Differs from that of every other snapshot of this process.
    pub revision: u64,
    /// In the order of the numbers.
    listeners: Vec<(ListenerId, Listener)>,
    /// In the order of the numbers.
    l4_services: Vec<(ListenerId, L4Service)>,
    backends: Vec<Backend>,
    /// Of the backends, in the same order.
    policies: Vec<BackendPolicy>,
    /// Of the endpoints, by index of their rows; 0 where none of them has the row.
    generations: Vec<u64>,
    /// Whom nothing is accepted from.
    pub deny: Arc<DenyList>,
}

/// Number of a listener, or of an L4 service. One whose address stays keeps it over snapshots, and it is never given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerId(pub u32);

/// Where clients connect for HTTP, and who serves them.
#[derive(Clone, Debug, PartialEq)]
pub struct Listener {
    pub address: SocketAddr,
    /// What it is for beyond this address; None where a socket listens on it.
    pub reach: Option<Reach>,
    /// To places among the backends.
    pub rules: Rules,
}

/// A prefix and a range of ports, beginning with an address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reach {
    /// Bits of the address that count.
    pub prefix_len: u8,
    pub last_port: u16,
}

impl Reach {
    /// Whether an address and port are within it, where it begins at `first`.
    pub fn covers(self, first: SocketAddr, address: SocketAddr) -> bool {
        first.is_ipv4() == address.is_ipv4()
            && self.prefix(first.ip()) == self.prefix(address.ip())
            && (first.port()..=self.last_port).contains(&address.port())
    }

    /// Whether an address has no bits that do not count.
    pub fn begins_at(self, ip: IpAddr) -> bool {
        let (bits, length) = bits(ip);
        let ignored = length.saturating_sub(u32::from(self.prefix_len));
        self.prefix(ip).checked_shl(ignored).unwrap_or(0) == bits
    }

    /// The bits of an address that count.
    fn prefix(self, ip: IpAddr) -> u128 {
        let (bits, length) = bits(ip);
        let ignored = length.saturating_sub(u32::from(self.prefix_len));
        bits.checked_shr(ignored).unwrap_or(0)
    }
}

/// An address as a number, and how many bits it has.
fn bits(ip: IpAddr) -> (u128, u32) {
    match ip {
        IpAddr::V4(ip) => (ip.to_bits().into(), 32),
        IpAddr::V6(ip) => (ip.to_bits(), 128),
    }
}

impl Listener {
    /// What an interface carries if its clients come in there: nobody carries what is virtual, so any may be one.
    fn carried(&self) -> IpAddr {
        match (self.reach, self.address.ip()) {
            (None, address) => address,
            (Some(_), IpAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
            (Some(_), IpAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    /// Where it is, in words: `10.0.0.1:80`, `10.1.0.0/16:8000-8099`.
    pub fn place(&self) -> String {
        let Some(reach) = self.reach else {
            return self.address.to_string();
        };
        let first = self.address.port();
        let ports = match reach.last_port {
            last if last == first => first.to_string(),
            last => format!("{first}-{last}"),
        };
        match self.address.ip() {
            IpAddr::V4(ip) => format!("{ip}/{}:{ports}", reach.prefix_len),
            IpAddr::V6(ip) => format!("[{ip}/{}]:{ports}", reach.prefix_len),
        }
    }
}

/// What clients can reach, with its numbers.
struct Numbered {
    listeners: Vec<(ListenerId, Listener)>,
    l4_services: Vec<(ListenerId, L4Service)>,
}

/// What a snapshot is made from: the same, before endpoints have rows in the tables.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub listeners: Vec<Listener>,
    pub l4_services: Vec<L4Service>,
    pub backends: Vec<BackendPlan>,
    /// Whom nothing is accepted from.
    pub deny: Arc<DenyList>,
}

impl Plan {
    /// What TCP clients connect to at one address and port.
    pub fn sockets(&self) -> impl Iterator<Item = SocketAddr> {
        let listeners = self.listeners.iter().filter(|it| it.reach.is_none());
        let services = self.l4_services.iter();
        let services = services.filter(|it| it.transport == Transport::Tcp);
        let services = services.map(|it| it.address);
        listeners.map(|it| it.address).chain(services)
    }

    /// Addresses of the interfaces that clients come in by.
    pub fn client_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let listeners = self.listeners.iter().map(Listener::carried);
        listeners.chain(self.l4_services.iter().map(|it| it.address.ip()))
    }
}

/// A backend to be.
#[derive(Clone, Debug, PartialEq)]
pub struct BackendPlan {
    pub kind: BackendKind,
    pub namespace: String,
    pub name: String,
    pub policy: BackendPolicy,
    pub targets: Vec<Target>,
}

/// How requests of a backend are served. The default asks for nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BackendPolicy {
    pub balance: Policy,
    /// What its requests are bound to endpoints by.
    pub affinity: Option<Affinity>,
    /// How its endpoints are checked, beside what their traffic says.
    pub check: Option<ActiveCheck>,
    /// Which responses mean that their endpoint is unhealthy. Unset: those of status 500 and above.
    pub condition: Option<Condition>,
    pub latency: LatencySpan,
    pub retry_budget: RetryBudget,
    /// Which PROXY header its endpoints are sent before the first byte of a relayed connection; `None`: none.
    pub sends_header: Option<proxy_protocol::Version>,
    /// What was said of it, and by whom; the rest is as it is by default.
    pub origins: Vec<PartOrigin>,
}

/// Which document a part of a policy is from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartOrigin {
    /// As documents call it, such as `health`.
    pub part: &'static str,
    /// Kind, name and place of the document.
    pub document: Arc<str>,
}

/// An endpoint to be.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Who it is across updates and restarts.
    pub key: Arc<str>,
    pub address: SocketAddr,
    pub weight: Weight,
    /// How near it is, or how its group stands among the others.
    pub bucket: Bucket,
}

impl Target {
    /// An endpoint named by its address, in the best bucket.
    pub fn at(address: SocketAddr, weight: Weight) -> Self {
        Self {
            key: address.to_string().into(),
            address,
            weight,
            bucket: Bucket::default(),
        }
    }
}

impl Plan {
    /// What `weir run --listen .. --to ..` asks for: every listener served by one Service, `default` in `default`.
    pub fn quick(listen: &[SocketAddr], targets: &[Target]) -> Self {
        let listener = |address: &SocketAddr| Listener {
            address: *address,
            reach: None,
            rules: Rules::always(Split::one(0)),
        };
        Self {
            listeners: listen.iter().map(listener).collect(),
            l4_services: Vec::new(),
            backends: vec![BackendPlan {
                kind: BackendKind::Service,
                namespace: "default".into(),
                name: "default".into(),
                policy: BackendPolicy::default(),
                targets: targets.to_vec(),
            }],
            deny: Arc::default(),
        }
    }

    /// Binds the requests of all backends by this.
    pub fn with_affinity(mut self, affinity: Option<&Affinity>) -> Self {
        for backend in &mut self.backends {
            backend.policy.affinity = affinity.cloned();
        }
        self
    }

    /// Compares the endpoints of all backends this way.
    pub fn with_scoring(mut self, scoring: Scoring) -> Self {
        for backend in &mut self.backends {
            backend.policy.balance.scoring = scoring;
        }
        self
    }

    /// Addresses that TCP clients connect to: of listeners, and of L4 services.
    pub fn tcp_addresses(&self) -> impl Iterator<Item = SocketAddr> {
        let listeners = self.listeners.iter().map(|listener| listener.address);
        let services = self.l4_services.iter();
        let services = services.filter(|service| service.transport == Transport::Tcp);
        listeners.chain(services.map(|service| service.address))
    }

    /// The endpoints of all backends.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.backends.iter().flat_map(|backend| &backend.targets)
    }
}

impl Snapshot {
    /// Gives the endpoints rows, and the listeners the numbers of their places.
    pub fn new(revision: u64, plan: Plan, rows: &mut EndpointRows) -> Result<Self, TablesFull> {
        let deny = plan.deny;
        let mut ids = (0..).map(ListenerId);
        let numbered = Numbered {
            listeners: ids.by_ref().zip(plan.listeners).collect(),
            l4_services: ids.zip(plan.l4_services).collect(),
        };
        let built = Self::build(revision, numbered, plan.backends, rows)?;
        Ok(Self { deny, ..built })
    }

    /// Without a deny list.
    fn build(
        revision: u64,
        numbered: Numbered,
        backends: Vec<BackendPlan>,
        rows: &mut EndpointRows,
    ) -> Result<Self, TablesFull> {
        let Numbered {
            mut listeners,
            mut l4_services,
        } = numbered;
        listeners.sort_by_key(|(id, _)| *id);
        l4_services.sort_by_key(|(id, _)| *id);
        let policies = backends.iter();
        let policies = policies.map(|backend| backend.policy.clone()).collect();
        let backends: Vec<Backend> = backends
            .into_iter()
            .enumerate()
            .map(|(place, backend)| backend.build(BackendId { place, revision }, rows))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            revision,
            listeners,
            l4_services,
            generations: generations(&backends),
            backends,
            policies,
            deny: Arc::default(),
        })
    }

    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// A backend of this snapshot; `None` if it is one of another.
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.backends.get(id.place).filter(|one| one.id == id)
    }

    /// The endpoints of all backends. One that several backends have comes several times.
    pub fn endpoints(&self) -> impl Iterator<Item = &Endpoint> {
        self.backends.iter().flat_map(Backend::endpoints)
    }

    pub fn listeners(&self) -> impl Iterator<Item = (ListenerId, &Listener)> {
        self.listeners.iter().map(|(id, listener)| (*id, listener))
    }

    /// Addresses of the interfaces that clients come in by.
    pub fn client_addresses(&self) -> impl Iterator<Item = IpAddr> {
        let listeners = self.listeners().map(|(_, it)| it.carried());
        listeners.chain(self.l4_services().map(|(_, it)| it.address.ip()))
    }

    /// What TCP clients connect to: listeners, and L4 services over TCP.
    pub fn sockets(&self) -> impl Iterator<Item = (ListenerId, SocketAddr)> {
        let listeners = self.listeners().map(|(id, it)| (id, it.address));
        let services = self.l4_services();
        let services = services.filter(|(_, it)| it.transport == Transport::Tcp);
        listeners.chain(services.map(|(id, it)| (id, it.address)))
    }

    /// Whether TCP clients connect to something of this number.
    pub fn has_socket(&self, id: ListenerId) -> bool {
        let service = self.l4_service(id);
        self.listener(id).is_some() || service.is_some_and(|it| it.transport == Transport::Tcp)
    }

    /// Where requests of a listener go; `None` if there is no listener of this number.
    pub fn rules(&self, listener: ListenerId) -> Option<&Rules> {
        Some(&self.listener(listener)?.rules)
    }

    pub fn listener(&self, listener: ListenerId) -> Option<&Listener> {
        let place = self
            .listeners
            .binary_search_by_key(&listener, |(id, _)| *id)
            .ok()?;
        Some(&self.listeners[place].1)
    }

    /// How requests of a backend of this snapshot are served.
    pub fn policy_of(&self, backend: &Backend) -> Option<&BackendPolicy> {
        self.policies.get(backend.id.place)
    }

    /// Whether the row belongs to one of the endpoints.
    pub fn has(&self, row: EndpointRow) -> bool {
        self.generations.get(row.index as usize) == Some(&row.generation)
    }
}

fn generations(backends: &[Backend]) -> Vec<u64> {
    let mut generations = Vec::new();
    for endpoint in backends.iter().flat_map(Backend::endpoints) {
        let index = endpoint.row.index as usize;
        if generations.len() <= index {
            generations.resize(index + 1, 0);
        }
        generations[index] = endpoint.row.generation;
    }
    generations
}

impl BackendPlan {
    fn build(self, id: BackendId, rows: &mut EndpointRows) -> Result<Backend, TablesFull> {
        let endpoints: Result<Vec<Endpoint>, TablesFull> = self
            .targets
            .into_iter()
            .map(|target| {
                Ok(Endpoint {
                    row: rows.admit(&target.key, target.address)?,
                    key: target.key,
                    address: target.address,
                    weight: target.weight,
                    bucket: target.bucket,
                })
            })
            .collect();
        let backend = Backend::new(id, self.kind, self.name, self.namespace, endpoints?);
        Ok(backend.with_policy(self.policy.balance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::shared::{SharedTables, Sizes};

    fn rows(capacity: usize) -> EndpointRows {
        EndpointRows::new(SharedTables::anonymous(Sizes {
            capacity,
            workers: 1,
            cpus: 1,
            flows: 1,
        }))
    }

    fn target(address: &str) -> Target {
        Target::at(address.parse().expect("a literal address"), Weight::ONE)
    }

    fn quick(revision: u64, targets: &[Target], rows: &mut EndpointRows) -> Snapshot {
        Snapshot::new(revision, Plan::quick(&[], targets), rows).expect("rows enough")
    }

    #[test]
    fn all_listeners_of_a_quick_start_share_the_endpoints() {
        let listen = ["127.0.0.1:80", "[::1]:80"].map(|address| target(address).address);
        let targets = [target("10.0.0.1:8080"), target("[fd00::1]:8080")];
        let plan = Plan::quick(&listen, &targets);
        let snapshot = Snapshot::new(1, plan, &mut rows(2)).expect("rows enough");
        for listener in [0, 1].map(ListenerId) {
            let rules = snapshot.rules(listener).expect("a known listener");
            assert_eq!(rules.backends(), [0]);
        }
        assert!(snapshot.rules(ListenerId(2)).is_none());
        let endpoints = snapshot.backends()[0].endpoints().iter();
        let keys: Vec<&str> = endpoints.map(|one| &*one.key).collect();
        assert_eq!(keys, ["10.0.0.1:8080", "[fd00::1]:8080"]);
    }

    #[test]
    fn clients_of_a_prefix_may_come_in_by_any_interface() {
        let mut plan = Plan::quick(
            &["10.0.0.1:80", "203.0.113.0:80"].map(|it| target(it).address),
            &[],
        );
        plan.listeners[1].reach = Some(Reach {
            prefix_len: 24,
            last_port: 80,
        });
        let expected: [IpAddr; 2] = [[10, 0, 0, 1], [0; 4]].map(IpAddr::from);
        let addresses: Vec<IpAddr> = plan.client_addresses().collect();
        assert_eq!(addresses, expected);
        let snapshot = Snapshot::new(1, plan, &mut rows(1)).expect("rows enough");
        assert_eq!(snapshot.client_addresses().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn an_endpoint_keeps_its_row_over_snapshots() {
        let mut rows = rows(2);
        let before = quick(1, &[target("10.0.0.1:1")], &mut rows);
        let after = quick(2, &["10.0.0.2:1", "10.0.0.1:1"].map(target), &mut rows);
        let row_before = before.backends()[0].endpoints()[0].row;
        assert_eq!(after.backends()[0].endpoints()[1].row, row_before);
        assert_ne!(after.backends()[0].endpoints()[0].row, row_before);
    }

    #[test]
    fn more_endpoints_than_the_tables_hold_are_an_error() {
        let plan = Plan::quick(&[], &["10.0.0.1:1", "10.0.0.2:1"].map(target));
        let full = Snapshot::new(1, plan, &mut rows(1));
        let expected = TablesFull {
            capacity: 1,
            gone: 0,
        };
        assert_eq!(full.err(), Some(expected));
    }
}

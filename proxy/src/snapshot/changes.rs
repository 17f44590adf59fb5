//! What one snapshot has and another has not, in numbers and words.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::net::SocketAddr;

use super::{BackendPolicy, ListenerId, Snapshot};
use crate::balance::{Backend, BackendKind, Bucket, Endpoint, EndpointRow, Weight};

/// From one snapshot to its successor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub endpoints: Counts,
    pub backends: Counts,
    /// L4 services included.
    pub listeners: Counts,
    /// Listeners that stay and whose rules differ, and L4 services that lead elsewhere.
    pub routes: usize,
    /// Prefixes of the deny list.
    pub denied: Counts,
}

/// How many of a kind came, went, and stay with something about them changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub added: usize,
    pub removed: usize,
    pub changed: usize,
}

impl Changes {
    pub fn between(before: &Snapshot, after: &Snapshot) -> Self {
        let (old, new) = (Named::of(before), Named::of(after));
        Self {
            endpoints: Counts {
                added: rows_beyond(after, before),
                removed: rows_beyond(before, after),
                changed: moved_rows(&old, &new),
            },
            backends: Counts::between(&old.backends, &new.backends),
            listeners: Counts::between(&addresses(before), &addresses(after)),
            routes: rerouted(before, after),
            denied: Counts {
                added: after.deny.beyond(&before.deny).count(),
                removed: before.deny.beyond(&after.deny).count(),
                changed: 0,
            },
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Counts {
    fn between<K: std::hash::Hash + Eq, V: PartialEq>(
        before: &HashMap<K, V>,
        after: &HashMap<K, V>,
    ) -> Self {
        let stay = after
            .iter()
            .filter_map(|(key, new)| Some((before.get(key)?, new)));
        Self {
            added: after.keys().filter(|key| !before.contains_key(key)).count(),
            removed: before.keys().filter(|key| !after.contains_key(key)).count(),
            changed: stay.filter(|(old, new)| old != new).count(),
        }
    }

    fn write(&self, what: &str, parts: &mut Vec<String>) {
        let mut words = Vec::new();
        if self.added > 0 {
            words.push(format!("+{}", self.added));
        }
        if self.removed > 0 {
            words.push(format!("-{}", self.removed));
        }
        if self.changed > 0 {
            words.push(format!("{} changed", self.changed));
        }
        if !words.is_empty() {
            parts.push(format!("{what} {}", words.join(" ")));
        }
    }
}

/// As in `endpoints +2 -1, routes of 1 listener changed`.
impl fmt::Display for Changes {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = Vec::new();
        self.endpoints.write("endpoints", &mut parts);
        self.backends.write("backends", &mut parts);
        self.listeners.write("listeners", &mut parts);
        match self.routes {
            0 => {}
            1 => parts.push("routes of 1 listener changed".to_owned()),
            more => parts.push(format!("routes of {more} listeners changed")),
        }
        self.denied.write("denied prefixes", &mut parts);
        match parts.is_empty() {
            true => out.write_str("nothing"),
            false => out.write_str(&parts.join(", ")),
        }
    }
}

/// A snapshot's backends by name. Of a Service each port is one, all of the same name: they are told apart by their
/// order.
struct Named<'a> {
    backends: HashMap<Name<'a>, Option<&'a BackendPolicy>>,
    endpoints: HashMap<(Name<'a>, EndpointRow), (Weight, Bucket)>,
}

type Name<'a> = (BackendKind, &'a str, &'a str, usize);

impl<'a> Named<'a> {
    fn of(snapshot: &'a Snapshot) -> Self {
        let mut named = Self {
            backends: HashMap::new(),
            endpoints: HashMap::new(),
        };
        let mut seen: HashMap<(BackendKind, &str, &str), usize> = HashMap::new();
        for backend in snapshot.backends() {
            let Backend {
                kind,
                namespace,
                name,
                ..
            } = backend;
            let number = seen.entry((*kind, namespace, name)).or_default();
            let name = (*kind, namespace.as_str(), name.as_str(), *number);
            *number += 1;
            named.backends.insert(name, snapshot.policy_of(backend));
            let shape = |endpoint: &Endpoint| (endpoint.weight, endpoint.bucket);
            let endpoints = backend.endpoints().iter();
            named
                .endpoints
                .extend(endpoints.map(|endpoint| ((name, endpoint.row), shape(endpoint))));
        }
        named
    }
}

fn rerouted(before: &Snapshot, after: &Snapshot) -> usize {
    let listeners = after.listeners().filter(|(id, listener)| {
        let rules = before.rules(*id);
        rules.is_some_and(|rules| *rules != listener.rules)
    });
    let services = after.l4_services().filter(|(id, service)| {
        let known = before.l4_service(*id);
        known.is_some_and(|known| known != *service)
    });
    listeners.count() + services.count()
}

fn rows_beyond(snapshot: &Snapshot, other: &Snapshot) -> usize {
    let rows: HashSet<EndpointRow> = snapshot.endpoints().map(|endpoint| endpoint.row).collect();
    rows.into_iter().filter(|row| !other.has(*row)).count()
}

/// Endpoints that stay, and weigh or rank differently or serve other backends.
fn moved_rows(old: &Named<'_>, new: &Named<'_>) -> usize {
    let rows = |named: &Named<'_>| -> HashSet<EndpointRow> {
        named.endpoints.keys().map(|(_, row)| *row).collect()
    };
    let stay: HashSet<EndpointRow> = rows(old).intersection(&rows(new)).copied().collect();
    let differences = |one: &Named<'_>, other: &Named<'_>| -> Vec<EndpointRow> {
        let differing = one
            .endpoints
            .iter()
            .filter(|(key, shape)| other.endpoints.get(*key) != Some(*shape));
        differing.map(|((_, row), _)| *row).collect()
    };
    let mut moved: HashSet<EndpointRow> = HashSet::new();
    moved.extend(differences(old, new));
    moved.extend(differences(new, old));
    moved.intersection(&stay).count()
}

/// Rules aside, all there is about a listener is its address.
fn addresses(snapshot: &Snapshot) -> HashMap<(ListenerId, SocketAddr), ()> {
    let listeners = snapshot
        .listeners()
        .map(|(id, listener)| (id, listener.address));
    let services = snapshot
        .l4_services()
        .map(|(id, service)| (id, service.address));
    listeners.chain(services).map(|key| (key, ())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::balance::EndpointRows;
    use crate::balance::shared::{SharedTables, Sizes};
    use crate::route::{Rules, Split};
    use crate::snapshot::{BackendPlan, Lineage, Plan, Prefix, Target};

    fn target(port: u16) -> Target {
        Target::at(SocketAddr::from(([10, 0, 0, 1], port)), Weight::ONE)
    }

    fn backend(name: &str, ports: &[u16]) -> BackendPlan {
        BackendPlan {
            kind: BackendKind::Service,
            namespace: "default".into(),
            name: name.into(),
            policy: BackendPolicy::default(),
            targets: ports.iter().map(|port| target(*port)).collect(),
        }
    }

    fn plan() -> Plan {
        let mut plan = Plan::quick(&[SocketAddr::from(([0, 0, 0, 0], 80))], &[]);
        plan.backends = vec![backend("one", &[1, 2]), backend("two", &[3])];
        plan
    }

    /// What a change of the plan is called.
    fn said(change: impl FnOnce(&mut Plan)) -> String {
        let rows = EndpointRows::new(SharedTables::anonymous(Sizes {
            capacity: 16,
            workers: 1,
            cpus: 1,
            flows: 1,
        }));
        let mut lineage = Lineage::begin(plan(), rows).expect("rows enough");
        let mut next = plan();
        change(&mut next);
        let draft = lineage.draft(next).expect("rows enough");
        let changes = Changes::between(lineage.current(), &draft);
        assert_eq!(changes.is_empty(), changes.to_string() == "nothing");
        changes.to_string()
    }

    #[test]
    fn what_changed_is_said_in_words() {
        assert_eq!(said(|_| {}), "nothing");
        let other_order = |plan: &mut Plan| plan.backends[0].targets.reverse();
        assert_eq!(said(other_order), "nothing");
        let came_and_went = |plan: &mut Plan| plan.backends[0] = backend("one", &[2, 7, 8]);
        assert_eq!(said(came_and_went), "endpoints +2 -1");
        let weighed = |plan: &mut Plan| plan.backends[1].targets[0].weight = Weight::new(3);
        assert_eq!(said(weighed), "endpoints 1 changed");
        let moved = |plan: &mut Plan| {
            plan.backends = vec![backend("one", &[1]), backend("two", &[2, 3])];
        };
        assert_eq!(said(moved), "endpoints 1 changed");
        let renamed = |plan: &mut Plan| plan.backends[1].name = "three".into();
        assert_eq!(said(renamed), "endpoints 1 changed, backends +1 -1");
        let judged = |plan: &mut Plan| plan.backends[1].policy.balance.health.eviction = None;
        assert_eq!(said(judged), "backends 1 changed");
        let listened = |plan: &mut Plan| plan.listeners[0].address.set_port(81);
        assert_eq!(said(listened), "listeners +1 -1");
        let routed = |plan: &mut Plan| plan.listeners[0].rules = Rules::always(Split::one(1));
        assert_eq!(said(routed), "routes of 1 listener changed");
        let denied = |plan: &mut Plan| {
            let prefix = Prefix::around([192, 0, 2, 0].into(), 24).expect("short enough");
            plan.deny = Arc::new([prefix].into_iter().collect());
        };
        assert_eq!(said(denied), "denied prefixes +1");
    }

    #[test]
    fn the_ports_of_a_service_are_told_apart() {
        let two_ports = |plan: &mut Plan| plan.backends[1] = backend("one", &[3]);
        assert_eq!(said(two_ports), "endpoints 1 changed, backends +1 -1");
    }
}

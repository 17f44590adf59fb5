//! Snapshots one after the other: what stays the same keeps its row and its number, and what a successor leaves out is
//! kept until no worker uses a snapshot any more that had it.
//!
//! ```text
//! draft(plan) ──► adopt ──► workers take it, one by one ──► let_go(oldest in use): rows of departed endpoints are free
//!      └─► refused: nothing has changed
//! ```

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use super::{BackendPlan, Listener, ListenerId, Numbered, Plan, Reach, Snapshot, Transport};
use crate::balance::{Departed, Endpoint, EndpointRows, TablesFull};

/// The current snapshot and those before it that may still be in use.
pub struct Lineage {
    rows: EndpointRows,
    current: Arc<Snapshot>,
    /// The oldest first.
    past: VecDeque<Past>,
    next_listener: u32,
}

/// A snapshot that has a successor.
struct Past {
    snapshot: Arc<Snapshot>,
    /// The endpoints its successor does not have.
    departed: Vec<Departed>,
}

impl Lineage {
    pub fn begin(plan: Plan, mut rows: EndpointRows) -> Result<Self, TablesFull> {
        let numbers = plan.listeners.len() + plan.l4_services.len();
        Ok(Self {
            current: Arc::new(Snapshot::new(1, plan, &mut rows)?),
            rows,
            past: VecDeque::new(),
            next_listener: u32::try_from(numbers).unwrap_or(u32::MAX),
        })
    }

    pub fn current(&self) -> &Arc<Snapshot> {
        &self.current
    }

    /// What would come next. Until it is adopted nothing has changed; a draft that was made before is void.
    pub fn draft(&mut self, plan: Plan) -> Result<Snapshot, TablesFull> {
        self.forget_draft();
        let revision = self.current.revision + 1;
        let deny = plan.deny.clone();
        let (numbered, backends) = self.number(plan);
        let built = Snapshot::build(revision, numbered, backends, &mut self.rows)?;
        Ok(Snapshot { deny, ..built })
    }

    /// Makes the latest draft the current snapshot.
    pub fn adopt(&mut self, draft: Snapshot) -> &Arc<Snapshot> {
        let departed = self.rows.dismiss(|row| draft.has(row));
        let listeners = draft.listeners().map(|(id, _)| id);
        let numbers = listeners.chain(draft.l4_services().map(|(id, _)| id));
        self.next_listener = numbers.fold(self.next_listener, |next, id| next.max(id.0 + 1));
        let snapshot = std::mem::replace(&mut self.current, Arc::new(draft));
        self.past.push_back(Past { snapshot, departed });
        &self.current
    }

    /// Lets everything go that only snapshots before revision `oldest` had, as workers use none of these any more.
    /// Returns the addresses endpoints departed from.
    pub fn let_go(&mut self, oldest: u64) -> HashSet<SocketAddr> {
        let mut addresses = HashSet::new();
        while let Some(past) = self
            .past
            .pop_front_if(|past| past.snapshot.revision < oldest)
        {
            addresses.extend(past.departed.iter().map(Departed::address));
            self.rows.retire(past.departed);
        }
        addresses
    }

    /// Whether all that workers may still use is the current snapshot.
    pub fn is_settled(&self) -> bool {
        self.past.is_empty()
    }

    /// The endpoints the snapshot before the current one did not have.
    pub fn arrived(&self) -> impl Iterator<Item = &Endpoint> {
        let before = self.past.back().map(|past| &past.snapshot);
        self.current
            .endpoints()
            .filter(move |endpoint| before.is_none_or(|before| !before.has(endpoint.row)))
    }

    /// Endpoints only a draft had were never seen by a worker.
    fn forget_draft(&mut self) {
        let drafted = self.rows.dismiss(|row| self.current.has(row));
        self.rows.retire(drafted);
    }

    /// A listener whose address stays keeps its number, and so does an L4 service.
    fn number(&self, plan: Plan) -> (Numbered, Vec<BackendPlan>) {
        let mut fresh = (self.next_listener..).map(ListenerId);
        let place = |listener: &Listener| (listener.address, listener.reach);
        let mut known: HashMap<(SocketAddr, Option<Reach>), ListenerId> = self
            .current
            .listeners()
            .map(|(id, listener)| (place(listener), id))
            .collect();
        let listeners = plan.listeners.into_iter().filter_map(|listener| {
            let id = known.remove(&place(&listener)).or_else(|| fresh.next())?;
            Some((id, listener))
        });
        let listeners = listeners.collect();
        let mut known: HashMap<(Transport, SocketAddr), ListenerId> = self
            .current
            .l4_services()
            .map(|(id, service)| ((service.transport, service.address), id))
            .collect();
        let services = plan.l4_services.into_iter().filter_map(|service| {
            let key = (service.transport, service.address);
            let id = known.remove(&key).or_else(|| fresh.next())?;
            Some((id, service))
        });
        let numbered = Numbered {
            listeners,
            l4_services: services.collect(),
        };
        (numbered, plan.backends)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::balance::shared::{SharedTables, Sizes};
    use crate::balance::{EndpointRow, Weight};
    use crate::route::Split;
    use crate::snapshot::{Changes, L4Service, Target};

    fn tables(capacity: usize) -> SharedTables {
        SharedTables::anonymous(Sizes {
            capacity,
            workers: 1,
            cpus: 1,
            flows: 1,
        })
    }

    /// Listeners at these ports, endpoints of one backend at those.
    fn plan(listen: &[u16], endpoints: &[u16]) -> Plan {
        let address = |port: &u16| SocketAddr::from(([10, 0, 0, 1], *port));
        let listen: Vec<SocketAddr> = listen.iter().map(address).collect();
        let target = |port: &u16| Target::at(address(port), Weight::ONE);
        Plan::quick(&listen, &endpoints.iter().map(target).collect::<Vec<_>>())
    }

    fn begin(tables: &SharedTables, plan: Plan) -> Lineage {
        Lineage::begin(plan, EndpointRows::new(tables.clone())).expect("rows enough")
    }

    fn next(lineage: &mut Lineage, plan: Plan) {
        let draft = lineage.draft(plan).expect("rows enough");
        lineage.adopt(draft);
    }

    fn row_of(lineage: &Lineage, port: u16) -> EndpointRow {
        let mut endpoints = lineage.current().endpoints();
        let found = endpoints.find(|endpoint| endpoint.address.port() == port);
        found.expect("an endpoint at this port").row
    }

    #[test]
    fn an_endpoint_keeps_its_row_and_statistics_whatever_else_changes() {
        let tables = tables(4);
        let mut lineage = begin(&tables, plan(&[80], &[1, 2]));
        let row = row_of(&lineage, 1);
        tables.attempts[row.index as usize].picked.store(3, Relaxed);

        let mut other = plan(&[80], &[3, 2, 1]);
        other.backends[0].name = "renamed".into();
        other.backends[0].targets[2].weight = Weight::new(7);
        next(&mut lineage, other);
        assert_eq!(row_of(&lineage, 1), row);
        assert_eq!(tables.attempts[row.index as usize].read().picked, 3);
        let arrived: Vec<u16> = lineage.arrived().map(|new| new.address.port()).collect();
        assert_eq!(arrived, [3]);
    }

    #[test]
    fn a_row_is_given_to_another_only_when_no_worker_can_pick_the_old_endpoint() {
        let mut lineage = begin(&tables(2), plan(&[80], &[1, 2]));
        let gone = row_of(&lineage, 2);
        next(&mut lineage, plan(&[80], &[1]));
        assert!(lineage.draft(plan(&[80], &[1, 3])).is_err());
        assert!(lineage.let_go(1).is_empty(), "the first is still in use");
        assert!(lineage.draft(plan(&[80], &[1, 3])).is_err());

        let addresses = lineage.let_go(2);
        assert_eq!(
            addresses,
            HashSet::from([SocketAddr::from(([10, 0, 0, 1], 2))])
        );
        assert!(lineage.is_settled());
        next(&mut lineage, plan(&[80], &[1, 3]));
        let reused = row_of(&lineage, 3);
        assert_eq!(reused.index, gone.index);
        assert!(lineage.current().has(reused) && !lineage.current().has(gone));
    }

    #[test]
    fn an_endpoint_that_was_gone_for_a_while_starts_afresh() {
        let mut lineage = begin(&tables(4), plan(&[80], &[1, 2]));
        let before = row_of(&lineage, 2);
        next(&mut lineage, plan(&[80], &[1]));
        next(&mut lineage, plan(&[80], &[1, 2]));
        assert_ne!(row_of(&lineage, 2), before);
    }

    #[test]
    fn a_draft_that_is_refused_or_left_alone_costs_nothing() {
        let mut lineage = begin(&tables(3), plan(&[80], &[1, 2]));
        for port in 10..30 {
            let draft = lineage.draft(plan(&[80, 81], &[1, port]));
            assert_eq!(draft.expect("a row is left").revision, 2);
            assert!(lineage.draft(plan(&[80], &[1, 2, 3, port])).is_err());
        }
        assert_eq!(lineage.current().revision, 1);
        next(&mut lineage, plan(&[80], &[1, 2, 3]));
        assert_eq!(lineage.current().revision, 2);
    }

    #[test]
    fn a_listener_keeps_its_number_and_a_number_is_never_used_again() {
        let ids = |lineage: &Lineage| -> Vec<(u16, u32)> {
            let listeners = lineage.current().listeners();
            listeners
                .map(|(id, listener)| (listener.address.port(), id.0))
                .collect()
        };
        let mut lineage = begin(&tables(2), plan(&[80, 81], &[]));
        assert_eq!(ids(&lineage), [(80, 0), (81, 1)]);
        next(&mut lineage, plan(&[82, 81], &[]));
        assert_eq!(ids(&lineage), [(81, 1), (82, 2)]);
        next(&mut lineage, plan(&[80, 81], &[]));
        assert_eq!(ids(&lineage), [(81, 1), (80, 3)]);
        assert!(lineage.current().rules(ListenerId(0)).is_none());
        assert!(lineage.current().rules(ListenerId(3)).is_some());
    }

    #[test]
    fn an_l4_service_keeps_its_number_and_shares_none_with_a_listener() {
        let service = |transport, port| L4Service {
            transport,
            address: SocketAddr::from(([10, 0, 0, 1], port)),
            split: Split::one(0),
            more_tries: 0,
            reads_header: false,
            route: "default/raw".into(),
        };
        let with = |services: &[L4Service]| Plan {
            l4_services: services.to_vec(),
            ..plan(&[80], &[1])
        };
        let ids = |lineage: &Lineage| -> Vec<(u32, u16, Transport)> {
            let services = lineage.current().l4_services();
            services
                .map(|(id, service)| (id.0, service.address.port(), service.transport))
                .collect()
        };
        let (tcp, udp) = (service(Transport::Tcp, 53), service(Transport::Udp, 53));
        let mut lineage = begin(&tables(2), with(&[tcp.clone(), udp.clone()]));
        assert_eq!(
            ids(&lineage),
            [(1, 53, Transport::Tcp), (2, 53, Transport::Udp)]
        );

        let before = lineage.current().clone();
        let elsewhere = L4Service {
            split: Split::default(),
            ..udp
        };
        next(
            &mut lineage,
            with(&[service(Transport::Tcp, 54), elsewhere]),
        );
        assert_eq!(
            ids(&lineage),
            [(2, 53, Transport::Udp), (3, 54, Transport::Tcp)]
        );
        let changes = Changes::between(&before, lineage.current()).to_string();
        assert_eq!(changes, "listeners +1 -1, routes of 1 listener changed");
        let served = lineage.current().l4_service(ListenerId(2));
        let backends = served.map(|it| lineage.current().backends_of(it).count());
        assert_eq!(backends, Some(0));
        assert!(lineage.current().l4_service(ListenerId(0)).is_none());
        assert!(lineage.current().rules(ListenerId(3)).is_none());
    }
}

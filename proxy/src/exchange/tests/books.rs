//! What must be true after every event, and what must be left when everything is over: nothing.

use crate::seam::ConnectFault;
use std::thread;
use std::time::Duration;

use super::setup::Connects;
use super::wire::{Ending, Side, Stage};
use super::world::World;
use crate::conn::{self, DownstreamState, UpstreamState};
use crate::seam::{ConnId, Core};

/// More than this is never queued to a connection: the high-water mark, one large read, a few heads.
const MAX_QUEUED: usize = 256 * 1024 + 128 * 1024;

impl World {
    /// What the proxy remembers fits what the driver holds.
    pub(super) fn check_books(&self) {
        assert!(self.proxy.ready.is_empty(), "a request left lying");
        let living = self.wires.values().filter(|wire| !wire.is_gone()).count();
        assert_eq!(self.proxy.conns.len(), living, "connections");
        let mut in_exchange = 0;
        for (id, conn) in self.proxy.conns.iter() {
            self.check_conn(id, conn);
            if let conn::Side::Downstream(client) = &conn.side
                && let DownstreamState::InExchange(_) = client.state
            {
                in_exchange += 1;
            }
        }
        assert_eq!(self.proxy.exchanges.len(), in_exchange, "exchanges");
        self.check_leases();
    }

    fn check_conn(&self, id: ConnId, conn: &conn::Conn) {
        let wire = &self.wires[&id];
        let counts = !wire.is_broken && wire.stage != Stage::Failed && wire.ending < Ending::Abort;
        if counts {
            assert_eq!(conn.queued, wire.queued(), "bytes queued to {id:?}");
            assert!(conn.queued <= MAX_QUEUED, "{} bytes queued", conn.queued);
        }
        assert_eq!(conn.is_paused, wire.is_paused, "{id:?} paused");
        let exchange = match &conn.side {
            conn::Side::Downstream(client) => {
                assert_eq!(wire.side, Side::Client);
                match client.state {
                    DownstreamState::InExchange(exchange) => exchange,
                    DownstreamState::Lingering => return assert_ne!(wire.ending, Ending::No),
                    DownstreamState::Closing => return assert!(wire.ending >= Ending::Close),
                    _ => return assert_eq!(wire.ending, Ending::No),
                }
            }
            conn::Side::Upstream(endpoint) => match endpoint.state {
                UpstreamState::Connecting(exchange) | UpstreamState::InExchange(exchange) => {
                    exchange
                }
                UpstreamState::Mirroring(copy) => {
                    assert_eq!(wire.ending, Ending::No, "{id:?} carries a copy");
                    let copy = self.proxy.mirrored.get(copy).expect("its copy");
                    return assert_eq!(copy.upstream(), Some(id));
                }
                UpstreamState::Idle => return assert_eq!(wire.ending, Ending::No),
                UpstreamState::Closing => return assert!(wire.ending >= Ending::Close),
            },
        };
        let exchange = self.proxy.exchanges.get(exchange).expect("its exchange");
        let worst = match exchange.is_tunnel {
            true => Ending::Shutdown,
            false => Ending::No,
        };
        assert!(wire.ending <= worst, "{id:?} is in an exchange");
        assert!(
            exchange.downstream == id || exchange.upstream == Some(id),
            "{id:?} belongs to its exchange"
        );
    }

    fn check_leases(&self) {
        let leased = self.proxy.exchanges.iter();
        let leased = leased.filter(|(_, exchange)| exchange.lease.is_some());
        let copies = self.proxy.mirrored.iter();
        let copies = copies.filter(|(_, copy)| copy.upstream().is_some());
        let leased = (leased.count() + copies.count()) as u64;
        let mut pending = 0;
        for row in 0..self.tables.sizes.capacity {
            let attempts = self.tables.attempts[row].read();
            let ended = attempts.succeeded + attempts.failed + attempts.neutral;
            let open = self.tables.load[row].read().pending;
            assert_eq!(attempts.picked, ended + open, "leases of {row}");
            pending += open;
        }
        assert_eq!(pending, leased, "pending leases");
    }

    /// Everyone leaves, time goes by, and nothing may be left.
    pub fn end(&mut self) {
        self.is_manual = false;
        self.connects = Connects::Fail(ConnectFault::Endpoint);
        self.connects_of.clear();
        let living: Vec<ConnId> = self.wires.keys().copied().collect();
        for conn in living {
            let wire = self.wire(conn);
            wire.is_stalled = false;
            wire.peer_ends(crate::seam::End::Finished);
        }
        self.settle();
        self.advance(Duration::from_secs(3600));
        self.check_nothing_is_left();
    }

    fn check_nothing_is_left(&mut self) {
        assert!(self.proxy.conns.is_empty(), "connections left");
        assert!(self.proxy.exchanges.is_empty(), "exchanges left");
        assert!(self.proxy.mirrored.is_empty(), "copies left");
        assert_eq!(self.proxy.pool.take_oldest(), None, "pooled connections");
        assert_eq!(self.proxy.upstreams, 0, "connections to endpoints");
        assert_eq!(self.proxy.next_deadline(), None, "deadlines left");
        assert_eq!(self.counters.downstream_active.value(), 0);
        assert_eq!(self.counters.upstream_active.value(), 0);
        for row in 0..self.tables.sizes.capacity {
            assert_eq!(self.tables.load[row].read().pending, 0, "leases of {row}");
        }
        let current = self.lineage.current().revision;
        assert_eq!(self.proxy.oldest_snapshot(), current, "snapshots held");
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.end();
        }
    }
}

//! All a worker needs to serve, immutable: listeners and backends. A change of configuration makes a new snapshot; what
//! is in flight keeps the one it began with, and what the balancer learned stays in the tables.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::balance::{
    Backend, BackendId, BackendKind, Bucket, Endpoint, EndpointRows, TablesFull, Weight,
};

/// Listeners and backends at one time.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Differs from that of every other snapshot of this process.
    pub revision: u64,
    /// In the order in which workers number them.
    pub listeners: Vec<Listener>,
    backends: Vec<Backend>,
}

/// Where clients connect, and who serves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listener {
    pub address: SocketAddr,
    /// Place among the backends.
    backend: usize,
}

/// An endpoint named by its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    pub address: SocketAddr,
    pub weight: Weight,
}

impl Snapshot {
    /// What `weir run --listen .. --to ..` asks for: every listener served by one Service, `default` in `default`.
    pub fn quick(
        revision: u64,
        listen: &[SocketAddr],
        targets: &[Target],
        rows: &mut EndpointRows,
    ) -> Result<Self, TablesFull> {
        let endpoints: Result<Vec<Endpoint>, TablesFull> = targets
            .iter()
            .map(|target| {
                let key: Arc<str> = target.address.to_string().into();
                Ok(Endpoint {
                    row: rows.admit(&key, target.address)?,
                    key,
                    address: target.address,
                    weight: target.weight,
                    bucket: Bucket::default(),
                })
            })
            .collect();
        let id = BackendId { place: 0, revision };
        let backend = Backend::new(id, BackendKind::Service, "default", "default", endpoints?);
        let listener = |address: &SocketAddr| Listener {
            address: *address,
            backend: 0,
        };
        Ok(Self {
            revision,
            listeners: listen.iter().map(listener).collect(),
            backends: vec![backend],
        })
    }

    pub fn backends(&self) -> &[Backend] {
        &self.backends
    }

    /// Who serves a listener; `None` if there is no listener of this number.
    pub fn backend_of(&self, listener: usize) -> Option<&Backend> {
        let listener = self.listeners.get(listener)?;
        self.backends.get(listener.backend)
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
        Target {
            address: address.parse().expect("a literal address"),
            weight: Weight::ONE,
        }
    }

    #[test]
    fn all_listeners_of_a_quick_start_share_the_endpoints() {
        let listen = ["127.0.0.1:80", "[::1]:80"].map(|address| target(address).address);
        let targets = [target("10.0.0.1:8080"), target("[fd00::1]:8080")];
        let snapshot = Snapshot::quick(1, &listen, &targets, &mut rows(2)).expect("rows enough");
        for listener in 0..2 {
            let backend = snapshot.backend_of(listener).expect("a known listener");
            let keys: Vec<&str> = backend.endpoints().iter().map(|one| &*one.key).collect();
            assert_eq!(keys, ["10.0.0.1:8080", "[fd00::1]:8080"]);
        }
        assert!(snapshot.backend_of(2).is_none());
    }

    #[test]
    fn an_endpoint_keeps_its_row_over_snapshots() {
        let mut rows = rows(2);
        let one = [target("10.0.0.1:1")];
        let other_first = [target("10.0.0.2:1"), target("10.0.0.1:1")];
        let before = Snapshot::quick(1, &[], &one, &mut rows).expect("rows enough");
        let after = Snapshot::quick(2, &[], &other_first, &mut rows).expect("rows enough");
        let row_before = before.backends()[0].endpoints()[0].row;
        assert_eq!(after.backends()[0].endpoints()[1].row, row_before);
        assert_ne!(after.backends()[0].endpoints()[0].row, row_before);
    }

    #[test]
    fn more_endpoints_than_the_tables_hold_are_an_error() {
        let targets = [target("10.0.0.1:1"), target("10.0.0.2:1")];
        let full = Snapshot::quick(1, &[], &targets, &mut rows(1));
        assert_eq!(full.err(), Some(TablesFull { capacity: 1 }));
    }
}

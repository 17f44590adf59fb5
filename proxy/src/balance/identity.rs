//! Who has a row of the shared tables, in a form that any process understands: that is how what one learnt of an endpoint
//! is of use to the next.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use weir_common::{EndpointIdentity, EndpointIdentityCells};
use weir_rendezvous::EndpointHash;

use super::rows::EndpointRow;
use super::shared::SharedTables;

/// Who an endpoint is, in any process: hashes of its key and of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    key: u64,
    address: u64,
}

impl Identity {
    pub const NOBODY: Self = Self { key: 0, address: 0 };

    pub fn of(key: &str, address: SocketAddr) -> Self {
        Self {
            key: EndpointHash::of(key).bits(),
            address: EndpointHash::of(&address.to_string()).bits(),
        }
    }

    fn read(cells: &EndpointIdentityCells) -> Self {
        let EndpointIdentity { key, address, .. } = cells.read();
        Self { key, address }
    }

    pub fn write(self, cells: &EndpointIdentityCells) {
        cells.key.store(self.key, Relaxed);
        cells.address.store(self.address, Relaxed);
    }
}

/// The rows of tables that had an owner before. An endpoint that left and came back has two: the later one counts.
pub fn remembered(tables: &SharedTables) -> HashMap<Identity, EndpointRow> {
    let mut found: HashMap<Identity, EndpointRow> = HashMap::new();
    for (index, cells) in tables.identity.iter().enumerate() {
        let row = EndpointRow {
            index: index as u32,
            generation: tables.state[index].generation.load(Relaxed),
        };
        match Identity::read(cells) {
            Identity::NOBODY => {}
            identity => {
                let known = found.entry(identity).or_insert(row);
                if known.generation < row.generation {
                    *known = row;
                }
            }
        }
    }
    found
}

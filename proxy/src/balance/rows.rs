//! Gives every endpoint a row of the shared tables. A row is what statistics, ejection and late news are bound to: the
//! generation tells two endpoints apart that had the same row one after the other.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::shared::SharedTables;
use super::state::EndpointState;

/// One endpoint's place in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointRow {
    pub index: u32,
    /// Differs from that of every earlier endpoint with this index.
    pub generation: u64,
}

/// More endpoints than the tables were made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tables hold {capacity} endpoints, and all rows are taken")]
pub struct TablesFull {
    pub capacity: usize,
}

/// Who has which row. Owned by whoever builds snapshots; workers only see the result.
pub struct EndpointRows {
    tables: SharedTables,
    admitted: HashMap<(Arc<str>, SocketAddr), EndpointRow>,
}

impl EndpointRows {
    pub fn new(tables: SharedTables) -> Self {
        Self {
            tables,
            admitted: HashMap::new(),
        }
    }

    /// The row of this endpoint. One with the same key and address keeps its row and its statistics; a new one starts
    /// afresh.
    pub fn admit(
        &mut self,
        key: &Arc<str>,
        address: SocketAddr,
    ) -> Result<EndpointRow, TablesFull> {
        let identity = (key.clone(), address);
        if let Some(row) = self.admitted.get(&identity) {
            return Ok(*row);
        }
        let row = self.fresh_row()?;
        self.admitted.insert(identity, row);
        Ok(row)
    }

    fn fresh_row(&self) -> Result<EndpointRow, TablesFull> {
        let capacity = self.tables.sizes.capacity;
        let index = self.admitted.len();
        if index >= capacity {
            return Err(TablesFull { capacity });
        }
        let row = EndpointRow {
            index: u32::try_from(index).map_err(|_| TablesFull { capacity })?,
            generation: self.tables.meta[0].generation.fetch_add(1, Relaxed) + 1,
        };
        EndpointState::of(&self.tables, row).reset();
        Ok(row)
    }
}

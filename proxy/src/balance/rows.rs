//! Gives every endpoint a row of the shared tables. A row is what statistics, ejection and late news are bound to: the
//! generation tells two endpoints apart that had the same row one after the other.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::load;
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
#[error("there is room for {capacity} endpoints{}; raise --max-endpoints", taken_by_gone(*.gone))]
pub struct TablesFull {
    pub capacity: usize,
    /// Rows of endpoints that are gone, and not free yet.
    pub gone: usize,
}

fn taken_by_gone(gone: usize) -> String {
    match gone {
        0 => String::new(),
        gone => format!(", and {gone} that are gone still have requests in flight"),
    }
}

/// An endpoint that is gone. Its row stays its own until it is given back with [`EndpointRows::retire`].
#[derive(Debug)]
#[must_use = "its row is lost until it is retired"]
pub struct Departed {
    row: EndpointRow,
    address: SocketAddr,
}

impl Departed {
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// Who has which row. Owned by whoever builds snapshots; workers only see the result.
pub struct EndpointRows {
    tables: SharedTables,
    admitted: HashMap<(Arc<str>, SocketAddr), EndpointRow>,
    /// Endpoints that are gone and whose rows were not given back yet.
    departed: usize,
    /// Rows that were given back, the longest free first. One is given out again once nothing is in flight on it.
    retired: VecDeque<u32>,
    /// Rows from here on were never given out.
    untouched: usize,
}

impl EndpointRows {
    pub fn new(tables: SharedTables) -> Self {
        Self {
            tables,
            admitted: HashMap::new(),
            departed: 0,
            retired: VecDeque::new(),
            untouched: 0,
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

    /// Forgets the endpoints that are not wanted any more: one that comes back starts afresh, in another row.
    pub fn dismiss(&mut self, is_wanted: impl Fn(EndpointRow) -> bool) -> Vec<Departed> {
        let departed: Vec<Departed> = self
            .admitted
            .extract_if(|_, row| !is_wanted(*row))
            .map(|((_, address), row)| Departed { row, address })
            .collect();
        self.departed += departed.len();
        departed
    }

    /// Takes back the rows of endpoints no worker can pick any more: they go to others.
    pub fn retire(&mut self, departed: impl IntoIterator<Item = Departed>) {
        for endpoint in departed {
            self.departed -= 1;
            self.retired.push_back(endpoint.row.index);
        }
    }

    fn fresh_row(&mut self) -> Result<EndpointRow, TablesFull> {
        let index = self.free_index()?;
        let row = EndpointRow {
            index,
            generation: self.tables.meta[0].generation.fetch_add(1, Relaxed) + 1,
        };
        EndpointState::of(&self.tables, row).reset();
        Ok(row)
    }

    /// Rows never used come first, so that late news of an endpoint that is gone meets another one as late as possible.
    fn free_index(&mut self) -> Result<u32, TablesFull> {
        let capacity = self.tables.sizes.capacity;
        let full = TablesFull {
            capacity,
            gone: self.departed + self.retired.len(),
        };
        if self.untouched < capacity {
            let index = u32::try_from(self.untouched).map_err(|_| full)?;
            self.untouched += 1;
            return Ok(index);
        }
        let is_idle = |index: &u32| load::pending(&self.tables, *index) == 0;
        let place = self.retired.iter().position(is_idle).ok_or(full)?;
        self.retired.remove(place).ok_or(full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::outcome::Outcome;
    use crate::balance::shared::Sizes;

    fn tables(capacity: usize) -> SharedTables {
        SharedTables::anonymous(Sizes {
            capacity,
            workers: 2,
            cpus: 1,
            flows: 1,
        })
    }

    fn admit(rows: &mut EndpointRows, port: u16) -> Result<EndpointRow, TablesFull> {
        rows.admit(&"one".into(), ([10, 0, 0, 1], port).into())
    }

    #[test]
    fn a_row_is_given_out_again_only_when_nothing_is_in_flight_on_any_worker() {
        let tables = tables(2);
        let mut rows = EndpointRows::new(tables.clone());
        let kept = admit(&mut rows, 1).expect("a row");
        let gone = admit(&mut rows, 2).expect("a row");
        load::on_pick(&tables, 1, gone.index);
        tables.wire[gone.index as usize].opened.store(1, Relaxed);
        let departed = rows.dismiss(|row| row == kept);
        let full = TablesFull {
            capacity: 2,
            gone: 1,
        };
        assert_eq!(admit(&mut rows, 3), Err(full), "a worker may still pick it");
        rows.retire(departed);
        assert_eq!(admit(&mut rows, 3), Err(full), "a request is in flight");
        load::on_finish(&tables, 1, gone.index, Outcome::Failure);

        let next = admit(&mut rows, 3).expect("the row that is free now");
        assert_eq!(next.index, gone.index);
        assert_ne!(next.generation, gone.generation);
        assert!(!EndpointState::of(&tables, gone).is_current());
        assert_eq!(load::counts(&tables, next.index), Default::default());
        assert_eq!(tables.wire_total(next.index), Default::default());
        assert_eq!(admit(&mut rows, 1), Ok(kept));
    }

    #[test]
    fn an_endpoint_that_returns_starts_afresh() {
        let mut rows = EndpointRows::new(tables(2));
        let first = admit(&mut rows, 1).expect("a row");
        let departed = rows.dismiss(|_| false);
        assert_eq!(departed.len(), 1);
        let again = admit(&mut rows, 1).expect("a row");
        assert_ne!(again, first);
    }
}

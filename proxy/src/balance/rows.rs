//! Gives every endpoint a row of the shared tables. A row is what statistics, ejection and late news are bound to: the
//! generation tells two endpoints apart that had the same row one after the other. Tables may come from an earlier
//! process: then its endpoints have their rows already.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::identity::{Identity, remembered};
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
    /// What an earlier process left, for endpoints that were not admitted yet.
    remembered: HashMap<Identity, EndpointRow>,
    /// Endpoints that are gone and whose rows were not given back yet.
    departed: usize,
    /// Rows that were given back, the longest free first. One is given out again once nothing is in flight on it.
    retired: VecDeque<u32>,
    /// Rows that were never given out, or to nobody who could come back.
    untouched: VecDeque<u32>,
}

impl EndpointRows {
    pub fn new(tables: SharedTables) -> Self {
        let remembered = remembered(&tables);
        let kept: HashSet<u32> = remembered.values().map(|row| row.index).collect();
        for row in remembered.values() {
            EndpointState::of(&tables, *row).resume();
        }
        Self {
            untouched: (0..tables.sizes.capacity as u32)
                .filter(|index| !kept.contains(index))
                .collect(),
            remembered,
            tables,
            admitted: HashMap::new(),
            departed: 0,
            retired: VecDeque::new(),
        }
    }

    /// Endpoints an earlier process left in the tables, and nobody has asked for yet.
    pub fn remembered(&self) -> usize {
        self.remembered.len()
    }

    /// The row of this endpoint. One with the same key and address keeps its row and its statistics, also from an earlier
    /// process; a new one starts afresh.
    pub fn admit(
        &mut self,
        key: &Arc<str>,
        address: SocketAddr,
    ) -> Result<EndpointRow, TablesFull> {
        let endpoint = (key.clone(), address);
        if let Some(row) = self.admitted.get(&endpoint) {
            return Ok(*row);
        }
        let identity = Identity::of(key, address);
        let row = match self.remembered.remove(&identity) {
            Some(row) => row,
            None => self.fresh_row(identity)?,
        };
        self.admitted.insert(endpoint, row);
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

    fn fresh_row(&mut self, identity: Identity) -> Result<EndpointRow, TablesFull> {
        let index = self.free_index()?;
        let cells = &self.tables.identity[index as usize];
        // Whoever is killed in between leaves a row that is nobody's.
        Identity::NOBODY.write(cells);
        let row = EndpointRow {
            index,
            generation: self.tables.meta[0].generation.fetch_add(1, Relaxed) + 1,
        };
        EndpointState::of(&self.tables, row).reset();
        identity.write(cells);
        Ok(row)
    }

    /// Rows never used come first, so that late news of an endpoint that is gone meets another one as late as possible.
    fn free_index(&mut self) -> Result<u32, TablesFull> {
        let capacity = self.tables.sizes.capacity;
        let full = TablesFull {
            capacity,
            gone: self.departed + self.retired.len(),
        };
        if let Some(index) = self.untouched.pop_front() {
            return Ok(index);
        }
        let is_idle = |index: &u32| load::is_idle(&self.tables, *index);
        if let Some(place) = self.retired.iter().position(is_idle) {
            return self.retired.remove(place).ok_or(full);
        }
        // Nobody has asked for these since the start; whose news is oldest is missed least.
        let oldest = self.remembered.iter().min_by_key(|(_, row)| row.generation);
        let identity = *oldest.ok_or(full)?.0;
        let row = self.remembered.remove(&identity).ok_or(full)?;
        Ok(row.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::outcome::Outcome;
    use crate::balance::shared::Sizes;
    use crate::balance::wire::Wire;
    use weir_common::{EndpointWireCells, Table};

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
        let mut tables = tables(2);
        let counted: Table<EndpointWireCells> = Table::anonymous(2);
        tables.wire = Wire::over(counted.clone(), tables.sizes);
        let mut rows = EndpointRows::new(tables.clone());
        let kept = admit(&mut rows, 1).expect("a row");
        let gone = admit(&mut rows, 2).expect("a row");
        load::on_pick(&tables, 1, gone.index);
        counted[gone.index as usize].opened.store(1, Relaxed);
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
        assert_eq!(tables.wire.total(next.index), Default::default());
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

    /// The tables of `tables(3)` after a process with endpoints at ports 1 and 2 was killed with a request in flight.
    fn left_by_a_killed_process() -> (SharedTables, [EndpointRow; 2]) {
        let tables = tables(3);
        let mut rows = EndpointRows::new(tables.clone());
        let admitted = [1, 2].map(|port| admit(&mut rows, port).expect("a row"));
        for row in admitted {
            load::on_pick(&tables, 0, row.index);
            load::on_pick(&tables, 1, row.index);
            load::on_finish(&tables, 1, row.index, Outcome::Failure);
            let state = EndpointState::of(&tables, row);
            state.record_failure();
            state.set_check_failing(true);
        }
        (tables, admitted)
    }

    #[test]
    fn a_process_that_finds_tables_knows_its_endpoints_again_and_not_what_was_in_flight() {
        let (tables, [_, before]) = left_by_a_killed_process();
        let health = EndpointState::of(&tables, before).reading().health;
        let mut rows = EndpointRows::new(tables.clone());
        assert_eq!(rows.remembered(), 2);
        let row = admit(&mut rows, 2).expect("its row");
        assert_eq!(row, before);
        let state = EndpointState::of(&tables, row);
        assert!(health < 1.0, "something was learnt");
        assert_eq!(state.reading().health, health);
        assert!(!state.is_failing_checks(), "who checked is no more");
        let counts = load::counts(&tables, row.index);
        assert_eq!((counts.pending, counts.picked, counts.failed), (0, 2, 1));
    }

    #[test]
    fn rows_nobody_asks_for_again_go_to_others_last_and_the_oldest_first() {
        let (tables, [first, second]) = left_by_a_killed_process();
        let mut rows = EndpointRows::new(tables.clone());
        let third = admit(&mut rows, 3).expect("the row nobody had");
        assert!(![first.index, second.index].contains(&third.index));
        let fourth = admit(&mut rows, 4).expect("a row nobody asked for");
        assert_eq!(fourth.index, first.index);
        assert_ne!(fourth.generation, first.generation);
        assert_eq!(EndpointState::of(&tables, fourth).reading().health, 1.0);
        assert_eq!(admit(&mut rows, 2), Ok(second));
        assert!(admit(&mut rows, 1).is_err(), "it is another's now");
    }

    #[test]
    fn of_an_endpoint_that_left_and_came_back_the_later_row_is_remembered() {
        let tables = tables(2);
        let mut rows = EndpointRows::new(tables.clone());
        admit(&mut rows, 1).expect("a row");
        let departed = rows.dismiss(|_| false);
        rows.retire(departed);
        let later = admit(&mut rows, 1).expect("another row");
        let mut rows = EndpointRows::new(tables);
        assert_eq!(rows.remembered(), 1);
        assert_eq!(admit(&mut rows, 1), Ok(later));
        assert!(admit(&mut rows, 2).is_ok(), "the earlier row is free");
    }
}

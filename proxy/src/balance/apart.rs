//! Leases counted apart from the shared tables, while another process writes to the rows that are ours otherwise.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use weir_common::{EndpointAttemptsCells, EndpointLoadCells, Table};

use super::load::place;
use super::shared::SharedTables;

/// Where leases are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Books {
    Shared,
    Apart,
}

/// What was put aside.
#[derive(Default)]
pub struct Apart {
    shared: Option<(Table<EndpointLoadCells>, Table<EndpointAttemptsCells>)>,
    /// Leases of ours that were out by then, by row.
    out: Vec<(usize, u64)>,
}

impl Apart {
    /// Puts plain memory in the place of the tables of leases. Those that are out are counted there, too, those of other
    /// workers included.
    pub fn begin(&mut self, tables: &mut SharedTables, worker: usize) {
        if self.shared.is_some() {
            return;
        }
        let rows = tables.sizes.workers * tables.sizes.capacity;
        let ours = rows_of(worker, tables);
        let load: Table<EndpointLoadCells> = Table::anonymous(rows);
        for row in 0..rows {
            let pending = tables.load[row].pending.load(Relaxed);
            // Rows nobody wrote to take no memory.
            if pending > 0 {
                load[row].pending.store(pending, Relaxed);
                if ours.contains(&row) {
                    self.out.push((row, pending));
                }
            }
        }
        let load = std::mem::replace(&mut tables.load, load);
        let attempts = std::mem::replace(&mut tables.attempts, Table::anonymous(rows));
        self.shared = Some((load, attempts));
    }

    /// Adds what this worker counted to its rows of the shared tables, and counts there again. Other workers write to
    /// theirs meanwhile.
    pub fn end(&mut self, tables: &mut SharedTables, worker: usize) {
        let Some((load, attempts)) = self.shared.take() else {
            return;
        };
        let load = std::mem::replace(&mut tables.load, load);
        let attempts = std::mem::replace(&mut tables.attempts, attempts);
        let mut out = self.out.drain(..).peekable();
        for row in rows_of(worker, tables) {
            let before = out.next_if(|(known, _)| *known == row);
            let before = before.map_or(0, |(_, pending)| pending);
            let now = load[row].pending.load(Relaxed);
            let counted = attempts[row].read();
            if (before, now, counted.picked) == (0, 0, 0) && counted == Default::default() {
                continue;
            }
            // The other process may have forgotten those that were out.
            let pending = &tables.load[row].pending;
            let sum = pending.load(Relaxed).saturating_add(now);
            pending.store(sum.saturating_sub(before), Relaxed);
            let cells = &tables.attempts[row];
            for (cell, count) in [
                (&cells.picked, counted.picked),
                (&cells.succeeded, counted.succeeded),
                (&cells.failed, counted.failed),
                (&cells.neutral, counted.neutral),
            ] {
                cell.store(cell.load(Relaxed) + count, Relaxed);
            }
        }
    }
}

fn rows_of(worker: usize, tables: &SharedTables) -> Range<usize> {
    let first = place(tables, worker, 0);
    first..first + tables.sizes.capacity
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::load::{counts, on_finish, on_pick};
    use crate::balance::outcome::Outcome;
    use crate::balance::shared::Sizes;

    fn tables() -> SharedTables {
        SharedTables::anonymous(Sizes {
            capacity: 2,
            workers: 2,
            cpus: 1,
            flows: 1,
        })
    }

    #[test]
    fn what_is_counted_apart_leaves_the_shared_rows_alone() {
        let shared = tables();
        let mut ours = shared.clone();
        on_pick(&ours, 0, 1);
        Apart::default().begin(&mut ours, 0);
        assert_eq!(counts(&ours, 1).pending, 1, "that one is still out");
        on_finish(&ours, 0, 1, Outcome::Failure);
        on_pick(&ours, 0, 1);
        let seen = counts(&shared, 1);
        assert_eq!((seen.pending, seen.picked, seen.failed), (1, 1, 0));
        assert_eq!(counts(&ours, 1).pending, 1);
    }

    #[test]
    fn what_was_counted_apart_is_added_when_the_rows_are_ours_again() {
        for forgotten in [false, true] {
            let shared = tables();
            let mut ours = shared.clone();
            let mut apart = Apart::default();
            on_pick(&ours, 0, 0);
            apart.begin(&mut ours, 0);
            on_pick(&ours, 0, 0);
            on_pick(&ours, 0, 0);
            on_finish(&ours, 0, 0, Outcome::Failure);
            if forgotten {
                crate::balance::load::forget_pending(&shared, 0);
            }
            apart.end(&mut ours, 0);
            let seen = counts(&shared, 0);
            let pending = if forgotten { 1 } else { 2 };
            assert_eq!((seen.pending, seen.picked, seen.failed), (pending, 3, 1));
        }
    }

    #[test]
    fn rows_of_other_workers_are_theirs_to_write() {
        let shared = tables();
        on_pick(&shared, 0, 1);
        on_pick(&shared, 1, 1);
        let others = place(&shared, 1, 1);
        let mut ours = shared.clone();
        let mut apart = Apart::default();
        apart.begin(&mut ours, 0);
        assert_eq!(counts(&ours, 1).pending, 2);
        on_finish(&shared, 1, 1, Outcome::Neutral);
        // Whatever our copy of its row says.
        ours.load[others].pending.store(5, Relaxed);
        apart.end(&mut ours, 0);
        assert_eq!(shared.load[others].pending.load(Relaxed), 0);
        assert_eq!(counts(&shared, 1).pending, 1);
    }
}

//! How busy endpoints are. Each worker counts its own leases in rows only it writes; the load of an endpoint is the sum
//! over workers.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use weir_common::EndpointLoadCells;

use super::cell;
use super::outcome::Outcome;
use super::shared::SharedTables;

/// Leases of one endpoint, on all workers together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    pub pending: u64,
    pub picked: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub neutral: u64,
}

pub fn on_pick(tables: &SharedTables, worker: usize, index: u32) {
    let cells = row(tables, worker, index);
    set(&cells.pending, |pending| pending + 1);
    set(&cells.picked, |picked| picked + 1);
}

/// Comes after all the attempt had to say of the endpoint.
pub fn on_finish(tables: &SharedTables, worker: usize, index: u32, outcome: Outcome) {
    let cells = row(tables, worker, index);
    let counter = match outcome {
        Outcome::Success { .. } => &cells.succeeded,
        Outcome::Failure => &cells.failed,
        Outcome::Neutral => &cells.neutral,
    };
    set(counter, |count| count + 1);
    // Last: once nothing is pending the row may go to another endpoint.
    cell::release(&cells.pending);
}

/// Whether no lease is out, so that nobody has anything left to say of the endpoint.
pub fn is_idle(tables: &SharedTables, index: u32) -> bool {
    rows(tables, index).all(|cells| cell::is_idle(&cells.pending))
}

/// Leases handed out and not finished, connecting attempts included.
pub fn pending(tables: &SharedTables, index: u32) -> u64 {
    rows(tables, index)
        .map(|cells| cells.pending.load(Relaxed))
        .sum()
}

pub fn counts(tables: &SharedTables, index: u32) -> LeaseCounts {
    rows(tables, index).fold(LeaseCounts::default(), |sum, cells| LeaseCounts {
        pending: sum.pending + cells.pending.load(Relaxed),
        picked: sum.picked + cells.picked.load(Relaxed),
        succeeded: sum.succeeded + cells.succeeded.load(Relaxed),
        failed: sum.failed + cells.failed.load(Relaxed),
        neutral: sum.neutral + cells.neutral.load(Relaxed),
    })
}

/// Forgets leases nobody can finish any more. Only while no worker knows the endpoint.
pub fn forget_pending(tables: &SharedTables, index: u32) {
    for cells in rows(tables, index) {
        cells.pending.store(0, Relaxed);
    }
}

/// Forgets what was counted. Only while no worker knows the endpoint.
pub fn reset(tables: &SharedTables, index: u32) {
    for cells in rows(tables, index) {
        for cell in [
            &cells.pending,
            &cells.picked,
            &cells.succeeded,
            &cells.failed,
            &cells.neutral,
        ] {
            cell.store(0, Relaxed);
        }
    }
}

fn row(tables: &SharedTables, worker: usize, index: u32) -> &EndpointLoadCells {
    &tables.load[worker * tables.sizes.capacity + index as usize]
}

fn rows(tables: &SharedTables, index: u32) -> impl Iterator<Item = &EndpointLoadCells> {
    (0..tables.sizes.workers).map(move |worker| row(tables, worker, index))
}

/// The worker is the only writer: load and store are enough, and cost no bus lock.
fn set(cell: &AtomicU64, change: impl Fn(u64) -> u64) {
    cell.store(change(cell.load(Relaxed)), Relaxed);
}

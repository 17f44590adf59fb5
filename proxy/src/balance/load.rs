//! How busy endpoints are, and what became of attempts. Each worker counts its own leases in rows only it writes; an
//! endpoint's figures are the sums over workers.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

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

#[inline]
pub fn on_pick(tables: &SharedTables, worker: usize, index: u32) {
    let at = place(tables, worker, index);
    set(&tables.load[at].pending, |pending| pending + 1);
    set(&tables.attempts[at].picked, |picked| picked + 1);
}

/// Comes after all the attempt had to say of the endpoint.
pub fn on_finish(tables: &SharedTables, worker: usize, index: u32, outcome: Outcome) {
    let at = place(tables, worker, index);
    let attempts = &tables.attempts[at];
    let counter = match outcome {
        Outcome::Success { .. } => &attempts.succeeded,
        Outcome::Failure => &attempts.failed,
        Outcome::Neutral => &attempts.neutral,
    };
    set(counter, |count| count + 1);
    // Last: once nothing is pending the row may go to another endpoint.
    cell::release(&tables.load[at].pending);
}

/// Whether no lease is out, so that nobody has anything left to say of the endpoint.
pub fn is_idle(tables: &SharedTables, index: u32) -> bool {
    places(tables, index).all(|at| cell::is_idle(&tables.load[at].pending))
}

/// Leases handed out and not finished, connecting attempts included.
#[inline]
pub fn pending(tables: &SharedTables, index: u32) -> u64 {
    places(tables, index)
        .map(|at| tables.load[at].pending.load(Relaxed))
        .sum()
}

pub fn counts(tables: &SharedTables, index: u32) -> LeaseCounts {
    places(tables, index).fold(LeaseCounts::default(), |sum, at| {
        let attempts = tables.attempts[at].read();
        LeaseCounts {
            pending: sum.pending + tables.load[at].pending.load(Relaxed),
            picked: sum.picked + attempts.picked,
            succeeded: sum.succeeded + attempts.succeeded,
            failed: sum.failed + attempts.failed,
            neutral: sum.neutral + attempts.neutral,
        }
    })
}

/// Forgets leases nobody can finish any more. Only while no worker knows the endpoint.
pub fn forget_pending(tables: &SharedTables, index: u32) {
    for at in places(tables, index) {
        tables.load[at].clear();
    }
}

/// Forgets what was counted. Only while no worker knows the endpoint.
pub fn reset(tables: &SharedTables, index: u32) {
    for at in places(tables, index) {
        tables.load[at].clear();
        tables.attempts[at].clear();
    }
}

#[inline]
pub fn place(tables: &SharedTables, worker: usize, index: u32) -> usize {
    worker * tables.sizes.capacity + index as usize
}

#[inline]
fn places(tables: &SharedTables, index: u32) -> impl Iterator<Item = usize> {
    (0..tables.sizes.workers).map(move |worker| place(tables, worker, index))
}

/// The worker is the only writer: load and store are enough, and cost no bus lock.
#[inline]
fn set(cell: &AtomicU64, change: impl Fn(u64) -> u64) {
    cell.store(change(cell.load(Relaxed)), Relaxed);
}

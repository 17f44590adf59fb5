//! How often each endpoint has left the pool, and for what. Ejections are rare and endpoints many, so that only those
//! that were ejected have a place here; nothing on the way of a request looks at it.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// For what an endpoint leaves the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EjectionReason {
    /// A failure, where the policy names no trigger.
    Failure,
    ConsecutiveFailures,
    HealthThreshold,
    /// A failure of status 429 that says for how long the endpoint wants to be left alone.
    RateLimit,
    /// An active check.
    Check,
}

impl EjectionReason {
    pub const ALL: [Self; 5] = [
        Self::Failure,
        Self::ConsecutiveFailures,
        Self::HealthThreshold,
        Self::RateLimit,
        Self::Check,
    ];
}

/// Ejections of one endpoint since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ejections([u64; EjectionReason::ALL.len()]);

impl Ejections {
    pub fn of(self, reason: EjectionReason) -> u64 {
        self.0[reason as usize]
    }
}

/// By row of the shared tables, for all workers.
#[derive(Debug, Default)]
pub struct EjectionCounts(Mutex<HashMap<u32, Ejections>>);

impl EjectionCounts {
    #[cold]
    pub(super) fn count(&self, row: u32, reason: EjectionReason) {
        let mut rows = self.rows();
        rows.entry(row).or_default().0[reason as usize] += 1;
    }

    /// The row belongs to another endpoint from now on.
    pub(super) fn forget(&self, row: u32) {
        self.rows().remove(&row);
    }

    pub(super) fn of(&self, row: u32) -> Ejections {
        self.rows().get(&row).copied().unwrap_or_default()
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<u32, Ejections>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! The tables every worker of a host shares. Where they lie - in BPF maps or in plain memory - is decided once, at
//! start, and nothing here can tell the difference.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_common::{
    EndpointAttemptsCells, EndpointIdentityCells, EndpointLoadCells, EndpointOutlookCells,
    EndpointReadingCells, EndpointScoreCells, EndpointStateCells, FlowSampleCells, LAYOUT_VERSION,
    MAGIC, MetaCells, Table, WorkerCells, WorkerSteeredCells,
};

use super::ejection_counts::EjectionCounts;
use super::slow_start::Eased;
use super::watch::PickWatch;
use super::wire::{NothingCounted, Wire};

/// How many rows each table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Endpoints.
    pub capacity: usize,
    pub workers: usize,
    pub cpus: usize,
    /// Upstream connections that can be measured at one time.
    pub flows: usize,
}

/// Handles to the shared tables; cloning shares the memory.
#[derive(Clone)]
pub struct SharedTables {
    pub sizes: Sizes,
    pub meta: Table<MetaCells>,
    /// What picks compare.
    pub readings: Table<EndpointReadingCells>,
    /// What they compare in adaptive scoring.
    pub outlooks: Table<EndpointOutlookCells>,
    pub state: Table<EndpointStateCells>,
    /// Who has which row, for processes to come.
    pub identity: Table<EndpointIdentityCells>,
    /// Row `worker * capacity + endpoint`.
    pub load: Table<EndpointLoadCells>,
    /// Row `worker * capacity + endpoint`.
    pub attempts: Table<EndpointAttemptsCells>,
    pub wire: Wire,
    pub samples: Table<FlowSampleCells>,
    /// What L4 services in the kernel go by, and what they say.
    pub score: Table<EndpointScoreCells>,
    /// How each worker is.
    pub worker: Table<WorkerCells>,
    /// What each worker was given by the kernel.
    pub steered: Table<WorkerSteeredCells>,
    /// Of this process.
    pub ejections: Arc<EjectionCounts>,
    /// Endpoints that are new or have returned, of this process.
    pub eased: Eased,
    /// Picks somebody asked to see.
    pub watch: Arc<PickWatch>,
}

impl SharedTables {
    /// Tables in plain memory: what serves when there is no BPF.
    pub fn anonymous(sizes: Sizes) -> Self {
        let tables = Self {
            sizes,
            meta: Table::anonymous(1),
            readings: Table::anonymous(sizes.capacity),
            outlooks: Table::anonymous(sizes.capacity),
            state: Table::anonymous(sizes.capacity),
            identity: Table::anonymous(sizes.capacity),
            load: Table::anonymous(sizes.workers * sizes.capacity),
            attempts: Table::anonymous(sizes.workers * sizes.capacity),
            wire: Wire::over(NothingCounted, sizes),
            samples: Table::anonymous(sizes.flows),
            score: Table::anonymous(sizes.capacity),
            worker: Table::anonymous(sizes.workers),
            steered: Table::anonymous(sizes.workers),
            ejections: Arc::default(),
            eased: Eased::new(sizes.capacity),
            watch: Arc::default(),
        };
        tables.announce();
        tables
    }

    /// Writes `META`, the magic last.
    pub fn announce(&self) {
        let meta = &self.meta[0];
        meta.layout_version.store(LAYOUT_VERSION, Relaxed);
        meta.capacity.store(self.sizes.capacity as u64, Relaxed);
        meta.cpus.store(self.sizes.cpus as u64, Relaxed);
        meta.workers.store(self.sizes.workers as u64, Relaxed);
        meta.magic
            .store(MAGIC, std::sync::atomic::Ordering::Release);
    }
}

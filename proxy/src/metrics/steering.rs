//! How new connections come to workers, and how loaded each worker is by what it tells the kernel of itself.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::text::{Kind, Text};
use crate::balance::shared::SharedTables;
use crate::moment::Moment;

/// How new connections come to workers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SteeringStatus {
    /// Whether a kernel program gives them to the less loaded of two; else the kernel's hash spreads them.
    pub by_load: bool,
    /// If not, why, in words.
    pub reason: Option<String>,
    /// New connections, by how their worker was found.
    pub decisions: BTreeMap<String, u64>,
}

impl SteeringStatus {
    pub(super) fn write(&self, text: &mut Text) {
        text.family(
            Kind::Gauge,
            "weir_steering_by_load",
            "1 if a kernel program gives new connections to the less loaded of two workers, 0 if the kernel's hash decides.",
        )
        .sample(&[], u8::from(self.by_load));
        let mut decisions = text.family(
            Kind::Counter,
            "weir_steering_decisions_total",
            "New connections the program looked at, by how their worker was found.",
        );
        for (decision, count) in &self.decisions {
            decisions.sample(&[("decision", decision)], count);
        }
    }
}

/// One worker at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerLoad {
    pub worker: usize,
    /// Connections it holds, those to endpoints included.
    pub connections: u64,
    /// What a turn of its loop usually takes.
    pub loop_lag: Duration,
    /// By how much it is late with the news it promised: it is held up.
    pub overdue: Duration,
    pub is_accepting: bool,
    /// Attempts to connect the kernel gave it, by load.
    pub steered: u64,
}

impl WorkerLoad {
    /// Workers that have said anything, in their order.
    pub fn all(tables: &SharedTables, now: Moment) -> impl Iterator<Item = Self> {
        let rows = tables.worker.iter().zip(tables.steered.iter()).enumerate();
        rows.filter_map(move |(worker, (row, steered))| {
            let row = row.read();
            (row.heartbeat_ns > 0).then(|| Self {
                worker,
                connections: row.connections,
                loop_lag: Duration::from_nanos(row.loop_lag_ns),
                overdue: now.since(Moment::from_nanos(row.due_ns)),
                is_accepting: row.accepting != 0,
                steered: steered.read().connections,
            })
        })
    }
}

pub fn write(text: &mut Text, tables: &SharedTables, now: Moment) {
    let loads: Vec<WorkerLoad> = WorkerLoad::all(tables, now).collect();
    let mut family = |kind, name, help, value: fn(&WorkerLoad) -> f64| {
        let mut family = text.family(kind, name, help);
        for load in &loads {
            family.sample(&[("worker", &load.worker.to_string())], value(load));
        }
    };
    family(
        Kind::Gauge,
        "weir_worker_connections",
        "Connections a worker holds, those to endpoints included.",
        |load| load.connections as f64,
    );
    family(
        Kind::Gauge,
        "weir_worker_loop_lag_seconds",
        "How long a turn of the worker's loop keeps it from new connections, on average.",
        |load| load.loop_lag.as_secs_f64(),
    );
    family(
        Kind::Gauge,
        "weir_worker_overdue_seconds",
        "By how much the worker is late with the next turn of its loop: it is held up.",
        |load| load.overdue.as_secs_f64(),
    );
    family(
        Kind::Counter,
        "weir_worker_steered_total",
        "Attempts to connect that the kernel gave to the worker by its load.",
        |load| load.steered as f64,
    );
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;
    use crate::balance::shared::Sizes;

    #[test]
    fn a_worker_that_is_late_is_overdue_and_one_that_never_spoke_is_not_there() {
        let tables = SharedTables::anonymous(Sizes {
            capacity: 1,
            workers: 2,
            cpus: 1,
            flows: 1,
        });
        let row = &tables.worker[1];
        row.heartbeat_ns.store(1_000, Relaxed);
        row.due_ns.store(5_000, Relaxed);
        row.accepting.store(1, Relaxed);
        tables.steered[1].connections.store(3, Relaxed);
        let loads: Vec<_> = WorkerLoad::all(&tables, Moment::from_nanos(7_000)).collect();
        assert_eq!(loads.len(), 1);
        assert_eq!((loads[0].worker, loads[0].steered), (1, 3));
        assert_eq!(loads[0].overdue, Duration::from_nanos(2_000));
        let early = WorkerLoad::all(&tables, Moment::from_nanos(4_000)).next();
        assert_eq!(early.map(|load| load.overdue), Some(Duration::ZERO));
    }
}

//! Plays a scenario to several policies, as many at a time as there are processors.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use weir::balance::HealthPolicy;

use crate::policy::{self, Policy, Pool};
use crate::record::Record;
use crate::scenario::Scenario;
use crate::world::World;

/// Whether endpoints that keep failing leave the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ejection {
    /// By Weir's default policy.
    On,
    Off,
}

impl Ejection {
    pub fn label(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
        }
    }
}

/// Who decides in one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub policy: policy::Name,
    pub ejection: Ejection,
}

impl Run {
    pub fn play(self, scenario: &Scenario, seed: u64) -> Record {
        World::new(scenario, self.replicas(scenario, seed), seed).run()
    }

    fn replicas(self, scenario: &Scenario, seed: u64) -> Vec<Box<dyn Policy>> {
        let pool = Pool {
            endpoints: scenario.endpoints.len(),
            members: scenario.members,
            health: match self.ejection {
                Ejection::On => HealthPolicy::default(),
                Ejection::Off => HealthPolicy { eviction: None },
            },
            seed,
        };
        (1..=scenario.replicas as u64)
            .map(|replica| {
                self.policy.build(Pool {
                    // Far from the seeds of other replicas and of the arrivals.
                    seed: seed ^ replica.wrapping_mul(0x9e37_79b9_7f4a_7c15),
                    ..pool
                })
            })
            .collect()
    }
}

/// All runs with what came of them, in the order given.
pub fn play_all(runs: &[Run], scenario: &Scenario, seed: u64) -> Vec<(Run, Record)> {
    let next = AtomicUsize::new(0);
    let records: Vec<Mutex<Option<Record>>> = runs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(run) = runs.get(place) else { return };
            let record = run.play(scenario, seed);
            *records[place].lock().expect("no thread panicked") = Some(record);
        }
    };
    thread::scope(|threads| {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        for _ in 0..processors.min(runs.len()) {
            threads.spawn(work);
        }
    });
    let records = records.into_iter().map(|record| {
        let record = record.into_inner().expect("no thread panicked");
        record.expect("every run was played")
    });
    runs.iter().copied().zip(records).collect()
}

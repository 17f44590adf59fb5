//! What is served at this moment, and what became of attempts to change it. One writes, whoever asks reads.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use super::text::{Kind, Text};
use crate::snapshot::Snapshot;

/// The current snapshot and how it came to be.
pub struct Serving {
    snapshot: Mutex<Arc<Snapshot>>,
    reloads: [AtomicU64; ReloadResult::ALL.len()],
    /// What is wrong with the configuration that was loaded last; `None` if it is served.
    refusal: Mutex<Option<Arc<[String]>>>,
    /// Seconds since 1970 when what is served was last found to be what is configured.
    loaded_at: AtomicU64,
    /// Directories of the configuration in which changes go unnoticed.
    unnoticed: AtomicU64,
}

/// What came of loading the configuration again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReloadResult {
    Applied,
    /// It says what is served already.
    Unchanged,
    Refused,
}

impl ReloadResult {
    const ALL: [Self; 3] = [Self::Applied, Self::Unchanged, Self::Refused];

    pub fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
        }
    }
}

impl Serving {
    /// `loaded_at` in seconds since 1970.
    pub fn new(snapshot: Arc<Snapshot>, loaded_at: u64) -> Self {
        Self {
            snapshot: Mutex::new(snapshot),
            reloads: Default::default(),
            refusal: Mutex::default(),
            loaded_at: AtomicU64::new(loaded_at),
            unnoticed: AtomicU64::new(0),
        }
    }

    pub fn snapshot(&self) -> Arc<Snapshot> {
        let snapshot = self.snapshot.lock();
        snapshot.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, snapshot: Arc<Snapshot>) {
        let current = self.snapshot.lock();
        *current.unwrap_or_else(PoisonError::into_inner) = snapshot;
    }

    /// Counts an attempt to reload, made at this second since 1970.
    pub fn count(&self, result: ReloadResult, at: u64) {
        self.reloads[result as usize].fetch_add(1, Relaxed);
        if result != ReloadResult::Refused {
            self.loaded_at.store(at, Relaxed);
        }
    }

    /// Notes what is wrong with the configuration that was loaded last, or that nothing is; tells whether something was
    /// wrong with the one before.
    pub fn refuse(&self, refusal: Option<Arc<[String]>>) -> bool {
        let noted = self.refusal.lock();
        let mut noted = noted.unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *noted, refusal).is_some()
    }

    /// What is wrong with the configuration, while it is not the one that is served.
    pub fn refusal(&self) -> Option<Arc<[String]>> {
        let refusal = self.refusal.lock();
        refusal.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// In how many directories of the configuration changes go unnoticed.
    pub fn set_unnoticed(&self, directories: usize) {
        self.unnoticed.store(directories as u64, Relaxed);
    }

    pub(super) fn write(&self, text: &mut Text) {
        let mut family = text.family(
            Kind::Counter,
            "weir_reloads_total",
            "Times the configuration was loaded again, by what came of it.",
        );
        for result in ReloadResult::ALL {
            let count = self.reloads[result as usize].load(Relaxed);
            family.sample(&[("result", result.name())], count);
        }
        text.family(
            Kind::Gauge,
            "weir_config_last_reload_successful",
            "1 while what is configured is served, 0 from a refused reload until it is repaired.",
        )
        .sample(&[], u64::from(self.refusal().is_none()));
        text.family(
            Kind::Gauge,
            "weir_config_loaded_timestamp_seconds",
            "When what is served was last what is configured, since 1970.",
        )
        .sample(&[], self.loaded_at.load(Relaxed));
        text.family(
            Kind::Gauge,
            "weir_config_unwatched_directories",
            "Directories of the configuration in which changes go unnoticed.",
        )
        .sample(&[], self.unnoticed.load(Relaxed));
        text.family(
            Kind::Gauge,
            "weir_config_revision",
            "Revision of what is served, raised by every change.",
        )
        .sample(&[], self.snapshot().revision);
    }
}

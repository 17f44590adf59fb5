//! Adaptive scoring: what is known of an endpoint ages, so that one which is avoided comes back into question by itself.
//!
//! ```text
//! cost = latency * (pending + 1) / health²                                     lower wins
//!
//! latency(age) = normal + (latency - normal) * e^(-age / 0.8 s)                normal: the pool's median
//! health(age)  = 1 - (1 - health) * e^(-age / 3 s)
//! ```
//!
//! Latencies within half of normal count as normal: such differences are mostly chance. An endpoint that was not measured
//! yet counts as twice as slow as normal when it is first seen, and ages as any other. `docs/architecture.md` says why the
//! constants are what they are.

use std::hint::select_unpredictable;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use super::dated::{self, Dated, Fading, Tick};
use super::load;
use super::outcome::{LatencySample, Outcome};
use super::score::{Prospect, Reading, Score};
use super::shared::SharedTables;
use crate::moment::Moment;

/// In which time latency loses all but 1/e of its distance from normal.
const LATENCY_FADES: Fading = Fading::over(Duration::from_millis(800));
/// The same for health and its distance from 1.
const HEALTH_FADES: Fading = Fading::over(Duration::from_secs(3));
/// Weight of the newest sample, at least.
const ALPHA: f32 = 0.3;
/// Latencies whose ratio to normal is below this, or above its inverse, are taken for normal.
const INDISTINCT: f32 = 1.5;
/// How much slower than normal an unmeasured endpoint is taken to be.
const UNMEASURED: f32 = 2.0;
/// Marks an endpoint that was seen and not measured.
const SEEN: f32 = -1.0;
/// Below this nothing is told apart: in seconds, and as health.
const SHORTEST: f32 = 1e-6;
const SICKEST: f32 = 0.01;

/// What the tables remember of one endpoint for adaptive scoring.
#[derive(Clone, Copy)]
pub struct Outlook<'a> {
    latency: &'a AtomicU64,
    health: &'a AtomicU64,
}

impl<'a> Outlook<'a> {
    #[inline]
    pub fn of(tables: &'a SharedTables, row: u32) -> Self {
        let cells = &tables.outlooks[row as usize];
        Self {
            latency: &cells.latency,
            health: &cells.health,
        }
    }

    /// An endpoint became a candidate. `latency_seconds` is what the other mode has learned of it, if it has.
    pub fn on_seen(self, latency_seconds: Option<f64>, now: Moment) {
        let latency = latency_seconds.map_or(SEEN, |latency| (latency as f32).max(SHORTEST));
        dated::update(self.latency, |old| {
            old.unwrap_or_else(|| Dated::new(latency, Tick::of(now)))
        });
    }

    pub fn on_outcome(self, outcome: Outcome, now: Moment) {
        match outcome {
            Outcome::Success { latency } => self.on_success(latency, Tick::of(now)),
            Outcome::Failure => self.on_failure(Tick::of(now)),
            Outcome::Neutral => {}
        }
    }

    fn on_success(self, latency: Option<LatencySample>, now: Tick) {
        if let Some(latency) = latency {
            let sample = latency.length.as_secs_f32().max(SHORTEST);
            dated::update(self.latency, |old| match old {
                Some(old) if old.value != SEEN => {
                    // The older the average, the less it says against a sample.
                    let alpha = ALPHA.max(1.0 - LATENCY_FADES.weight(old, now));
                    Dated::new(old.value + alpha * (sample - old.value), now)
                }
                _ => Dated::new(sample, now),
            });
        }
        // A healthy endpoint stays healthy without a write that other workers' caches would feel.
        if dated::read(self.health).is_some_and(|health| health.value < 1.0) {
            let after = |health: f32| health + ALPHA * (1.0 - health);
            dated::update(self.health, |old| Dated::new(after(health(old, now)), now));
        }
    }

    fn on_failure(self, now: Tick) {
        let after = |health: f32| ((1.0 - ALPHA) * health).max(SICKEST);
        dated::update(self.health, |old| Dated::new(after(health(old, now)), now));
    }
}

#[inline]
fn health(dated: Option<Dated>, now: Tick) -> f32 {
    dated.map_or(1.0, |health| {
        1.0 - (1.0 - health.value) * HEALTH_FADES.weight(health, now)
    })
}

/// What is normal among the candidates of a backend, as one worker remembers it.
#[derive(Debug, Default)]
pub struct Normal {
    /// Median of latency in seconds; `None` before anything was measured.
    latency: Option<f32>,
    refresh_at: Moment,
    /// Worklist, kept for its memory.
    samples: Vec<f32>,
}

impl Normal {
    /// How long it holds; while nothing is known, not as long.
    const LIFE: Duration = Duration::from_millis(100);
    const LIFE_OF_NOTHING: Duration = Duration::from_millis(1);
    /// So many endpoints are looked at: the cost is the same for any number.
    const SAMPLES: usize = 64;

    /// There are other candidates now.
    pub fn expire(&mut self) {
        self.refresh_at = Moment::default();
    }

    #[inline]
    pub fn is_stale(&self, now: Moment) -> bool {
        self.refresh_at <= now
    }

    /// Looks at these rows again, or at some of them spread over all.
    #[cold]
    pub fn refresh(
        &mut self,
        rows: impl ExactSizeIterator<Item = u32>,
        tables: &SharedTables,
        now: Moment,
    ) {
        let step = rows.len().div_ceil(Self::SAMPLES).max(1);
        let latencies = rows
            .step_by(step)
            .filter_map(|row| dated::read(Outlook::of(tables, row).latency))
            .map(|dated| dated.value);
        self.samples.clear();
        self.samples
            .extend(latencies.filter(|value| *value != SEEN));
        // Of two the faster: the slower one is the one that has to be found again.
        let middle = self.samples.len().saturating_sub(1) / 2;
        self.latency = (!self.samples.is_empty()).then(|| {
            let (_, median, _) = self.samples.select_nth_unstable_by(middle, f32::total_cmp);
            *median
        });
        self.refresh_at = match self.latency {
            Some(_) => now + Self::LIFE,
            None => now + Self::LIFE_OF_NOTHING,
        };
    }

    #[inline]
    fn latency(&self, dated: Option<Dated>, now: Tick) -> f32 {
        // While nothing is known of anyone, pending decides alone.
        let Some(normal) = self.latency else {
            return 1.0;
        };
        let Some(dated) = dated else {
            return UNMEASURED * normal;
        };
        let value = match dated.value {
            SEEN => UNMEASURED * normal,
            value => value,
        };
        let aged = normal + (value - normal) * LATENCY_FADES.weight(dated, now);
        let is_normal = (aged < INDISTINCT * normal) & (normal < INDISTINCT * aged);
        select_unpredictable(is_normal, normal, aged)
    }
}

/// Compares endpoints at one moment.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    normal: &'a Normal,
    tables: &'a SharedTables,
    now: Tick,
}

impl<'a> Judge<'a> {
    #[inline]
    pub fn new(normal: &'a Normal, tables: &'a SharedTables, now: Moment) -> Self {
        Self {
            normal,
            tables,
            now: Tick::of(now),
        }
    }

    /// How good the endpoint of this row is. `per_weight` is the mean weight of the candidates over its own: a heavier one
    /// is expected to have more pending.
    #[inline]
    pub fn score(&self, row: u32, per_weight: f32) -> Score {
        let pending = load::pending(self.tables, row) as f32;
        Score::of_prospect(Prospect {
            health: self.health(row),
            latency_seconds: self.latency(row),
            pending: pending * per_weight,
        })
    }

    /// What is compared, as it is now.
    pub fn reading(&self, row: u32) -> Reading {
        Reading {
            health: self.health(row).into(),
            latency_seconds: self.normal.latency.map(|_| self.latency(row).into()),
            pending: load::pending(self.tables, row),
        }
    }

    /// Whether an endpoint is worse than others by more than chance, busy or not.
    pub fn is_poor(&self, row: u32) -> bool {
        let health = self.health(row);
        let normal = self.normal.latency.unwrap_or(1.0);
        self.latency(row) / (health * health) > INDISTINCT * normal
    }

    #[inline]
    fn health(&self, row: u32) -> f32 {
        let outlook = Outlook::of(self.tables, row);
        health(dated::read(outlook.health), self.now)
    }

    #[inline]
    fn latency(&self, row: u32) -> f32 {
        let outlook = Outlook::of(self.tables, row);
        self.normal.latency(dated::read(outlook.latency), self.now)
    }
}

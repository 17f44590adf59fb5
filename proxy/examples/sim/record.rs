//! What is remembered of a run: latencies, errors and picks, by phase and in windows of time. A request counts where it
//! arrived, however late its answer is.

use std::time::Duration;

use weir::moment::Moment;

use crate::histogram::Histogram;
use crate::scenario::Scenario;

/// Figures of one run.
pub struct Record {
    start: Moment,
    /// When each phase begins.
    starts: Vec<Duration>,
    watched: std::ops::Range<usize>,
    pub phases: Vec<PhaseRecord>,
    /// Length of a window.
    pub window: Duration,
    pub windows: Vec<Tally>,
}

/// Requests of one span of time.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Of requests that were answered well.
    pub latencies: Histogram,
    pub requests: u64,
    pub errors: u64,
    /// Requests that went to the watched endpoints.
    pub watched: u64,
}

#[derive(Clone, Debug, Default)]
pub struct PhaseRecord {
    pub tally: Tally,
    /// How often each endpoint was picked.
    pub picks: Vec<u64>,
}

/// One request and how it ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub arrived: Moment,
    pub endpoint: usize,
    pub latency: Duration,
    pub is_success: bool,
}

impl Record {
    const WINDOWS: u32 = 250;

    pub fn new(scenario: &Scenario, start: Moment) -> Self {
        let phase = PhaseRecord {
            picks: vec![0; scenario.endpoints.len()],
            ..PhaseRecord::default()
        };
        Self {
            start,
            starts: scenario.starts(),
            watched: scenario.watched.clone(),
            phases: vec![phase; scenario.phases.len()],
            window: scenario.length() / Self::WINDOWS,
            windows: vec![Tally::default(); Self::WINDOWS as usize],
        }
    }

    pub fn add(&mut self, ended: Ended) {
        let after = ended.arrived.since(self.start);
        let is_watched = self.watched.contains(&ended.endpoint);
        let window = (after.as_nanos() / self.window.as_nanos()) as usize;
        let last = self.windows.len() - 1;
        self.windows[window.min(last)].add(ended, is_watched);

        let phase = self.starts.partition_point(|start| *start <= after) - 1;
        self.phases[phase].tally.add(ended, is_watched);
        self.phases[phase].picks[ended.endpoint] += 1;
    }

    /// How long after the turn of the scenario the watched endpoints have half their fair share, over a second from
    /// then on too; `None` if they never do, or nothing turns.
    pub fn half_share_after(&self, scenario: &Scenario) -> Option<Duration> {
        let turn = scenario.turn()?;
        let half = scenario.fair_share(scenario.phases.len() - 1) / 2.0;
        let first = turn.as_nanos().div_ceil(self.window.as_nanos()) as usize;
        let second = (1_000_000_000 / self.window.as_nanos()).max(1) as usize;
        let share = |windows: &[Tally]| {
            let watched: u64 = windows.iter().map(|tally| tally.watched).sum();
            let requests: u64 = windows.iter().map(|tally| tally.requests).sum();
            watched as f64 / requests.max(1) as f64
        };
        let window = (first..self.windows.len()).find(|window| {
            let end = (window + second).min(self.windows.len());
            share(&self.windows[*window..=*window]) >= half
                && share(&self.windows[*window..end]) >= half
        })?;
        Some((self.window * (window as u32 + 1)).saturating_sub(turn))
    }
}

impl Tally {
    fn add(&mut self, ended: Ended, is_watched: bool) {
        self.requests += 1;
        self.watched += u64::from(is_watched);
        if ended.is_success {
            self.latencies.record(ended.latency);
        } else {
            self.errors += 1;
        }
    }

    /// Part of the requests that failed.
    pub fn error_rate(&self) -> f64 {
        self.errors as f64 / self.requests.max(1) as f64
    }

    /// Part of the requests that went to the watched endpoints.
    pub fn watched_share(&self) -> f64 {
        self.watched as f64 / self.requests.max(1) as f64
    }
}

//! What all workers remember together of one endpoint. Any worker changes it at any moment: every change is one atomic
//! step on one field, and nothing relies on two fields agreeing.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::time::Duration;

use weir_common::{EndpointReadingCells, EndpointStateCells};

use super::cell::{self, average};
use super::ejection_counts::EjectionReason;
use super::load;
use super::outcome::{LatencySample, LatencySource};
use super::outlier::Before;
use super::rows::EndpointRow;
use super::score::Reading;
use super::shared::SharedTables;
use crate::moment::Moment;

/// How one active check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckResult {
    Passed,
    Failed,
    /// This host had no descriptor, port or memory for it.
    NotMade,
}

/// How active checks of an endpoint came out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckCounts {
    pub passed: u64,
    pub failed: u64,
    /// This host had no descriptor, port or memory for them.
    pub not_made: u64,
    /// Times a check took the endpoint out of the pool.
    pub ejections: u64,
}

/// A view of one endpoint's rows, as the holder of `row` knew it.
#[derive(Clone, Copy)]
pub struct EndpointState<'a> {
    tables: &'a SharedTables,
    cells: &'a EndpointStateCells,
    reading: &'a EndpointReadingCells,
    row: EndpointRow,
}

impl<'a> EndpointState<'a> {
    pub fn of(tables: &'a SharedTables, row: EndpointRow) -> Self {
        Self {
            tables,
            cells: &tables.state[row.index as usize],
            reading: &tables.readings[row.index as usize],
            row,
        }
    }

    /// Gives the row to the endpoint of this generation: healthy, unmeasured, idle.
    pub fn reset(&self) {
        let cells = self.cells;
        for zeroed in [
            &cells.latency_samples,
            &cells.kernel_samples,
            &cells.latency_source,
            &cells.consecutive_failures,
            &cells.times_ejected,
            &cells.ejected_until_ns,
            &cells.ejections_total,
            &cells.self_delay_ns_sum,
            &cells.failing_checks,
            &cells.checks_passed,
            &cells.checks_failed,
            &cells.checks_not_made,
            &cells.check_ejections_total,
        ] {
            zeroed.store(0, Relaxed);
        }
        self.reading.latency.store(0, Relaxed);
        self.reading.health.store(1.0_f64.to_bits(), Relaxed);
        self.tables.outlooks[self.row.index as usize].clear();
        self.tables.ejections.forget(self.row.index);
        self.tables.eased.forget(self.row);
        load::reset(self.tables, self.row.index);
        self.tables.wire.forget(self.row.index);
        self.tables.score[self.row.index as usize].clear();
        cells.generation.store(self.row.generation, Release);
    }

    /// Takes the row over from a process that is no more: what it learnt stays, what it was in the middle of is void.
    pub fn resume(&self) {
        self.cells.failing_checks.store(0, Relaxed);
        load::forget_pending(self.tables, self.row.index);
    }

    /// Whether the row still belongs to the endpoint it is asked about.
    pub fn is_current(&self) -> bool {
        self.cells.generation.load(Acquire) == self.row.generation
    }

    pub fn reading(&self) -> Reading {
        reading(self.tables, self.row.index)
    }

    /// Whose clock took the latest latency sample.
    pub fn latency_source(&self) -> Option<LatencySource> {
        LatencySource::from_code(self.cells.latency_source.load(Relaxed))
    }

    pub fn ejections_total(&self) -> u64 {
        self.cells.ejections_total.load(Relaxed)
    }

    /// By how much the workers' own measurements were longer than the kernel's, on average.
    pub fn mean_self_delay(&self) -> Option<Duration> {
        let sum = self.cells.self_delay_ns_sum.load(Relaxed);
        let samples = self.cells.kernel_samples.load(Relaxed);
        sum.checked_div(samples).map(Duration::from_nanos)
    }

    /// Whether the endpoint is in the pool: neither its traffic nor an active check has ejected it.
    pub fn is_active(&self, now: Moment) -> bool {
        self.ejected_until(now).is_none() && !self.is_failing_checks()
    }

    /// Whether active checks keep the endpoint out of the pool.
    pub fn is_failing_checks(&self) -> bool {
        self.is_current() && self.cells.failing_checks.load(Relaxed) > 0
    }

    /// Active checks of the endpoint that passed, that failed, and the ejections they caused.
    pub fn check_counts(&self) -> CheckCounts {
        CheckCounts {
            passed: self.cells.checks_passed.load(Relaxed),
            failed: self.cells.checks_failed.load(Relaxed),
            not_made: self.cells.checks_not_made.load(Relaxed),
            ejections: self.cells.check_ejections_total.load(Relaxed),
        }
    }

    /// When the ejection by traffic ends; `None` if there is none.
    pub fn ejected_until(&self, now: Moment) -> Option<Moment> {
        let until = Moment::from_nanos(self.cells.ejected_until_ns.load(SeqCst));
        (self.is_current() && until > now).then_some(until)
    }

    pub fn record_success(&self, latency: Option<LatencySample>) {
        average(&self.reading.health, 1.0);
        clear(&self.cells.consecutive_failures);
        clear(&self.cells.times_ejected);
        if let Some(sample) = latency {
            self.record_latency(sample);
        }
    }

    // Only successes come here: a quick 503 would make a broken endpoint look fast.
    fn record_latency(&self, sample: LatencySample) {
        let cells = self.cells;
        average(&self.reading.latency, sample.length.as_secs_f64());
        cells.latency_samples.fetch_add(1, Relaxed);
        cells.latency_source.store(sample.source.code(), Relaxed);
        if sample.source == LatencySource::Kernel {
            let self_delay = u64::try_from(sample.self_delay.as_nanos()).unwrap_or(u64::MAX);
            cells.kernel_samples.fetch_add(1, Relaxed);
            cells.self_delay_ns_sum.fetch_add(self_delay, Relaxed);
        }
    }

    /// Returns what was known before: that is what an ejection is decided by.
    pub fn record_failure(&self) -> Before {
        Before {
            health: average(&self.reading.health, 0.0),
            consecutive_failures: self.cells.consecutive_failures.fetch_add(1, Relaxed),
            times_ejected: self.cells.times_ejected.load(Relaxed),
        }
    }

    /// Ejects for this long; returns until when. Nothing changes for an endpoint that is ejected already, also if
    /// another worker was faster by a hair. It holds once it is confirmed or withdrawn.
    pub fn eject(&self, length: Duration, now: Moment) -> Option<Moment> {
        let until = now + length;
        cell::eject(&self.cells.ejected_until_ns, until.as_nanos()).then_some(until)
    }

    /// Takes an ejection back that nobody was told of.
    pub fn withdraw_ejection(&self, until: Moment) {
        cell::readmit(&self.cells.ejected_until_ns, until.as_nanos());
    }

    /// Counts an ejection and tells every worker.
    pub fn confirm_ejection(&self, reason: EjectionReason) {
        self.cells.times_ejected.fetch_add(1, Relaxed);
        self.cells.ejections_total.fetch_add(1, Relaxed);
        self.tables.ejections.count(self.row.index, reason);
        self.tables.eased.forget(self.row);
        self.announce_change();
    }

    /// Makes an endpoint active again whose ejection is over, with this health if there is one to restore. True for the
    /// one caller of all workers that did it.
    pub fn readmit_if_due(&self, restore_health: Option<f64>, now: Moment) -> bool {
        let until = self.cells.ejected_until_ns.load(Relaxed);
        if until == 0 || until > now.as_nanos() || !self.is_current() {
            return false;
        }
        let won = cell::readmit(&self.cells.ejected_until_ns, until);
        if won {
            if let Some(health) = restore_health {
                self.reading.health.store(health.to_bits(), Relaxed);
            }
            let eased = &self.tables.eased;
            eased.came_back(self.row, Moment::from_nanos(until));
            self.announce_change();
        }
        won
    }

    pub fn count_check(&self, result: CheckResult) {
        let cell = match result {
            CheckResult::Passed => &self.cells.checks_passed,
            CheckResult::Failed => &self.cells.checks_failed,
            CheckResult::NotMade => &self.cells.checks_not_made,
        };
        cell.fetch_add(1, Relaxed);
    }

    /// One more active check fails (`true`), or one less. The first one takes the endpoint out of the pool, and with the
    /// last one it comes back, whatever its traffic says.
    pub fn set_check_failing(&self, is_failing: bool) {
        if !self.is_current() {
            return;
        }
        let cell = &self.cells.failing_checks;
        if is_failing {
            if cell.fetch_add(1, Relaxed) == 0 {
                self.cells.check_ejections_total.fetch_add(1, Relaxed);
                let counts = &self.tables.ejections;
                counts.count(self.row.index, EjectionReason::Check);
                self.tables.eased.forget(self.row);
            }
        } else {
            // Never below none, also if the row changes hands in this very moment.
            let _ = cell.fetch_update(Relaxed, Relaxed, |failing| failing.checked_sub(1));
        }
        self.announce_change();
    }

    /// Makes every worker look again at who is ejected.
    fn announce_change(&self) {
        self.tables.meta[0].ejection_epoch.fetch_add(1, Release);
    }
}

/// What the score of whoever has the row is made of.
#[inline]
pub fn reading(tables: &SharedTables, index: u32) -> Reading {
    let cells = &tables.readings[index as usize];
    let latency = f64::from_bits(cells.latency.load(Relaxed));
    Reading {
        health: f64::from_bits(cells.health.load(Relaxed)),
        // The row starts as 0.0, and the average leaves it with the first sample.
        latency_seconds: (latency != 0.0).then_some(latency),
        pending: load::pending(tables, index),
    }
}

fn clear(cell: &AtomicU64) {
    if cell.load(Relaxed) != 0 {
        cell.store(0, Relaxed);
    }
}

//! Eases endpoints in: one that is new or returns gets a tenth of its share of the draws, and more and more of it over
//! the time configured. Caches are cold and connections few, and the score cannot know that before it is too late.
//! Affinity is left alone: replicas agree on an endpoint only while nothing but keys and weights counts.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::rows::EndpointRow;
use crate::moment::Moment;

/// How long an endpoint takes to its full share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowStart(Duration);

impl SlowStart {
    /// `None` for no time at all.
    pub fn new(duration: Duration) -> Option<Self> {
        (duration > Duration::ZERO).then_some(Self(duration))
    }

    pub fn duration(self) -> Duration {
        self.0
    }

    /// Of the share, in percent.
    fn percent(self, since: Moment, now: Moment) -> u32 {
        const LEAST: u32 = 10;
        let part = now.since(since).as_secs_f64() / self.0.as_secs_f64();
        ((part * 100.0) as u32).clamp(LEAST, 100)
    }

    /// How often draws are weighed again.
    fn step(self) -> Duration {
        const STEPS: u32 = 20;
        const SHORTEST: Duration = Duration::from_millis(20);
        (self.0 / STEPS).max(SHORTEST)
    }
}

/// Since when endpoints are eased in, by row, for all workers of a process: who looks late joins the others, and people
/// can be told. Nanoseconds; 0 where nothing was noticed.
#[derive(Clone, Debug)]
pub struct Eased(Arc<[AtomicU64]>);

impl Eased {
    pub fn new(capacity: usize) -> Self {
        Self((0..capacity).map(|_| AtomicU64::new(0)).collect())
    }

    /// An endpoint was found to be new. Nothing changes if it is known since when it is in the pool: another worker may
    /// have noticed before, or it came back while nobody looked.
    fn begin(&self, row: EndpointRow, now: Moment) {
        let since = self.since(row);
        let _ = since.compare_exchange(0, now.as_nanos(), Relaxed, Relaxed);
    }

    /// An endpoint came back into the pool at this moment, whoever notices when.
    pub fn came_back(&self, row: EndpointRow, at: Moment) {
        self.since(row).store(at.as_nanos(), Relaxed);
    }

    /// An endpoint left the pool, or its row is another's.
    pub fn forget(&self, row: EndpointRow) {
        self.since(row).store(0, Relaxed);
    }

    /// How much of its share an endpoint gets, in percent; `None` if it is not being eased in.
    pub fn percent(&self, row: EndpointRow, policy: SlowStart, now: Moment) -> Option<u32> {
        let since = self.since(row).load(Relaxed);
        let since = Moment::from_nanos(since);
        let is_eased = since.as_nanos() > 0 && now.since(since) < policy.duration();
        is_eased.then(|| policy.percent(since, now))
    }

    fn since(&self, row: EndpointRow) -> &AtomicU64 {
        &self.0[row.index as usize]
    }
}

/// Who of a backend was active when one worker last looked at it.
#[derive(Debug, Default)]
pub struct Ramps {
    active: HashSet<EndpointRow>,
    next_step: Option<Moment>,
}

impl Ramps {
    /// Takes note of who is active now. Where none of them was before, it is the first look, or the end of an outage:
    /// then all are as new as each other, and nobody begins to be eased in.
    pub fn look(
        &mut self,
        policy: Option<SlowStart>,
        active: impl Iterator<Item = EndpointRow>,
        eased: &Eased,
        now: Moment,
    ) {
        self.next_step = None;
        let Some(policy) = policy else {
            self.active.clear();
            return;
        };
        let before = std::mem::replace(&mut self.active, active.collect());
        for row in before.difference(&self.active) {
            eased.forget(*row);
        }
        if self.active.iter().any(|row| before.contains(row)) {
            for row in self.active.difference(&before) {
                eased.begin(*row, now);
            }
        }
        let is_eased = |row: &EndpointRow| eased.percent(*row, policy, now).is_some();
        if self.active.iter().any(is_eased) {
            self.next_step = Some(now + policy.step());
        }
    }

    /// When shares change next, if anybody is being eased in.
    pub fn next_step(&self) -> Option<Moment> {
        self.next_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_grows_from_a_tenth_to_the_whole() {
        let policy = SlowStart::new(Duration::from_secs(10)).expect("some time");
        let start = Moment::from_nanos(5);
        let after = |millis| policy.percent(start, start + Duration::from_millis(millis));
        assert_eq!(
            [0, 999, 5000, 9999, 60_000].map(after),
            [10, 10, 50, 99, 100]
        );
        assert_eq!(SlowStart::new(Duration::ZERO), None);
    }
}

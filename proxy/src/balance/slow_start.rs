//! Eases endpoints in: one that is new or returns gets a tenth of its share of the draws, and more and more of it over
//! the time configured. Caches are cold and connections few, and the score cannot know that before it is too late.
//! Affinity is left alone: replicas agree on an endpoint only while nothing but keys and weights counts.

use std::collections::HashMap;
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

/// Who of a backend was active when it was last looked at, and since when those are eased in that are.
#[derive(Debug, Default)]
pub struct Ramps {
    active: HashMap<EndpointRow, Option<Moment>>,
    policy: Option<SlowStart>,
    next_step: Option<Moment>,
}

impl Ramps {
    /// Takes note of who is active now. Where none of them was before, it is the first look, or the end of an outage:
    /// then all are as new as each other, and nobody is eased in.
    pub fn look(
        &mut self,
        policy: Option<SlowStart>,
        active: impl Iterator<Item = EndpointRow>,
        now: Moment,
    ) {
        self.policy = policy;
        self.next_step = None;
        let Some(policy) = policy else {
            self.active.clear();
            return;
        };
        let before = std::mem::take(&mut self.active);
        self.active = active.map(|row| (row, None)).collect();
        if !self.active.keys().any(|row| before.contains_key(row)) {
            return;
        }
        for (row, since) in &mut self.active {
            let began = before.get(row).copied().unwrap_or(Some(now));
            *since = began.filter(|began| now.since(*began) < policy.duration());
            if since.is_some() {
                self.next_step = Some(now + policy.step());
            }
        }
    }

    /// When shares change next, if anybody is being eased in.
    pub fn next_step(&self) -> Option<Moment> {
        self.next_step
    }

    /// How much of its share an endpoint gets, in percent.
    pub fn percent(&self, row: EndpointRow, now: Moment) -> u32 {
        let since = self.active.get(&row).copied().flatten();
        match (self.policy, since) {
            (Some(policy), Some(since)) => policy.percent(since, now),
            _ => 100,
        }
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

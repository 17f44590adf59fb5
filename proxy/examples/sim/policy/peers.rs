//! Policies to compare with. Each only chooses among the endpoints that are not ejected; pending requests and ejection,
//! by the same rule as Weir's, are kept for all of them here.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};
use weir::balance::{Before, Suggested};
use weir::moment::Moment;

use super::{Policy, Pool, Ticket, Verdict};

/// Which of some endpoints.
pub trait Choose {
    /// One of `active`, of which there is at least one.
    fn choose(&mut self, active: &[usize], pending: &[u64], moment: &mut Draw<'_>) -> usize;

    fn learn(&mut self, _endpoint: usize, _verdict: Verdict, _now: Moment) {}
}

/// When a choice is made, and chance.
pub struct Draw<'a> {
    pub now: Moment,
    random: &'a mut Xoshiro256PlusPlus,
}

/// A policy and what it knows of its endpoints.
pub struct Peers<C> {
    choose: C,
    pool: Pool,
    pending: Vec<u64>,
    failures: Vec<Failures>,
    active: Vec<usize>,
    /// When the first ejected endpoint returns.
    refresh_at: Option<Moment>,
    random: Xoshiro256PlusPlus,
}

#[derive(Clone, Copy, Default)]
struct Failures {
    consecutive: u64,
    times_ejected: u64,
    ejected_until: Option<Moment>,
}

impl<C: Choose> Peers<C> {
    pub fn new(choose: C, pool: Pool) -> Self {
        Self {
            choose,
            pool,
            pending: vec![0; pool.endpoints],
            failures: vec![Failures::default(); pool.endpoints],
            active: (0..pool.members).collect(),
            refresh_at: None,
            random: Xoshiro256PlusPlus::seed_from_u64(pool.seed),
        }
    }

    fn refresh(&mut self, now: Moment) {
        self.active.clear();
        self.refresh_at = None;
        for (endpoint, failures) in self.failures[..self.pool.members].iter_mut().enumerate() {
            match failures.ejected_until.filter(|until| *until > now) {
                None => {
                    failures.ejected_until = None;
                    self.active.push(endpoint);
                }
                Some(until) => {
                    let first = self.refresh_at.map_or(until, |first| first.min(until));
                    self.refresh_at = Some(first);
                }
            }
        }
        // All ejected: traffic still flows.
        if self.active.is_empty() {
            self.active.extend(0..self.pool.members);
        }
    }

    fn on_failure(&mut self, endpoint: usize, now: Moment) {
        let failures = &mut self.failures[endpoint];
        let before = Before {
            health: 1.0,
            consecutive_failures: failures.consecutive,
            times_ejected: failures.times_ejected,
        };
        failures.consecutive += 1;
        if failures.ejected_until.is_some() {
            return;
        }
        if let Some(length) = self.pool.health.ejects_for(before, Suggested::default()) {
            failures.ejected_until = Some(now + length);
            failures.times_ejected += 1;
            self.refresh(now);
        }
    }
}

impl<C: Choose> Policy for Peers<C> {
    fn set_members(&mut self, members: usize) {
        self.pool.members = members;
        // Whoever looks next finds the new ones.
        self.refresh_at = Some(Moment::default());
    }

    fn pick(&mut self, now: Moment) -> Ticket {
        if self.refresh_at.is_some_and(|at| at <= now) {
            self.refresh(now);
        }
        let random = &mut self.random;
        let endpoint = self
            .choose
            .choose(&self.active, &self.pending, &mut Draw { now, random });
        self.pending[endpoint] += 1;
        Ticket {
            endpoint,
            lease: None,
        }
    }

    fn finish(&mut self, ticket: Ticket, verdict: Verdict, now: Moment) {
        let endpoint = ticket.endpoint;
        self.pending[endpoint] -= 1;
        self.choose.learn(endpoint, verdict, now);
        if verdict.is_success {
            let failures = &mut self.failures[endpoint];
            (failures.consecutive, failures.times_ejected) = (0, 0);
        } else {
            self.on_failure(endpoint, now);
        }
    }
}

impl Draw<'_> {
    pub fn one_of<'a>(&mut self, active: &'a [usize]) -> &'a usize {
        &active[self.random.random_range(0..active.len())]
    }

    /// Two different ones, or the only one twice.
    pub fn two_of(&mut self, active: &[usize]) -> (usize, usize) {
        let Some(others) = active.len().checked_sub(1).filter(|others| *others > 0) else {
            return (active[0], active[0]);
        };
        let first = self.random.random_range(0..active.len());
        let second = self.random.random_range(0..others);
        let second = second + usize::from(second >= first);
        (active[first], active[second])
    }
}

/// Each in turn.
#[derive(Default)]
pub struct RoundRobin {
    turn: usize,
}

impl Choose for RoundRobin {
    fn choose(&mut self, active: &[usize], _pending: &[u64], _draw: &mut Draw<'_>) -> usize {
        self.turn = (self.turn + 1) % active.len();
        active[self.turn]
    }
}

/// The least busy of all; the search begins at a random place, so that ties fall evenly.
pub struct LeastRequest;

impl Choose for LeastRequest {
    fn choose(&mut self, active: &[usize], pending: &[u64], draw: &mut Draw<'_>) -> usize {
        let mut best = *draw.one_of(active);
        let start = active.partition_point(|endpoint| *endpoint < best);
        for endpoint in active[start..].iter().chain(&active[..start]) {
            if pending[best] == 0 {
                break;
            }
            if pending[*endpoint] < pending[best] {
                best = *endpoint;
            }
        }
        best
    }
}

/// The less busy of two.
pub struct TwoChoices;

impl Choose for TwoChoices {
    fn choose(&mut self, active: &[usize], pending: &[u64], draw: &mut Draw<'_>) -> usize {
        let (first, second) = draw.two_of(active);
        if pending[first] < pending[second] {
            first
        } else {
            second
        }
    }
}

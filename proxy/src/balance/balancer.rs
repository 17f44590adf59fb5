//! One worker's balancer: the page that says what a pick and the end of an attempt do.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{Rng, SeedableRng};
use weir_rendezvous::AffinityKey;

use super::active::{ActiveSet, Candidate, eased_percent};
use super::adaptive::Outlook;
use super::apart::{Apart, Books};
use super::backend::Backend;
use super::ejection::{Ejection, Outs, Verdict};
use super::endpoint::Endpoint;
use super::lease::{Detour, Lease, Method};
use super::load;
use super::outcome::Outcome;
use super::outlier::{Decision, Suggested};
use super::p2c::{below, better_of_two};
use super::policy::Scoring;
use super::rows::EndpointRow;
use super::score::Score;
use super::shared::SharedTables;
use super::state::{EndpointState, reading};
use super::terms::{Contracts, TermsId};
use super::untried::Untried;
use super::watch::{Draw, How, WatchedPick};
use crate::moment::Moment;

/// Nothing can be picked: the backend is empty, or all of it is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no endpoint can be picked")]
pub struct NoEndpoint;

/// Picks endpoints for one worker. The same seed, tables, calls and moments give the same picks.
pub struct Balancer {
    tables: SharedTables,
    /// Which rows of `ENDPOINT_LOAD` are ours to write.
    worker: usize,
    random: Xoshiro256PlusPlus,
    /// By place of the backend.
    served: Vec<Served>,
    contracts: Contracts,
    untried: Untried,
    apart: Apart,
}

/// What a worker remembers of one backend.
#[derive(Default)]
struct Served {
    /// Who may be picked.
    active: ActiveSet,
    /// By which leases are made.
    terms: Option<TermsId>,
}

impl Balancer {
    /// `worker` counts from 0; the tables have rows for it, and no other balancer uses them.
    pub fn new(tables: SharedTables, worker: usize, seed: u64) -> Self {
        Self {
            tables,
            worker,
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ worker as u64),
            served: Vec::new(),
            contracts: Contracts::default(),
            untried: Untried::default(),
            apart: Apart::default(),
        }
    }

    /// From now on counts its leases apart, as another process writes to our rows of the shared tables; or counts there
    /// again. What is learnt of endpoints goes where it went.
    pub fn count(&mut self, books: Books) {
        match books {
            Books::Apart => self.apart.begin(&mut self.tables, self.worker),
            Books::Shared => self.apart.end(&mut self.tables, self.worker),
        }
    }

    /// Leases the better of two endpoints of this backend. Finish the lease with [`finish`](Self::finish).
    #[inline]
    pub fn pick(&mut self, backend: &Backend, now: Moment) -> Result<Lease, NoEndpoint> {
        let served = served(
            &mut self.served,
            &mut self.contracts,
            backend,
            &self.tables,
            now,
        );
        let active = &served.active;
        let (Some(method), Some(terms)) = (active.method(), served.terms) else {
            return Err(NoEndpoint);
        };
        let (draws, best) = match backend.policy.scoring {
            Scoring::Seed => {
                let draws = active.draw_two(&mut self.random);
                let score = |one: Candidate| Score::of(reading(&self.tables, one.row));
                (draws, better_of_two(draws, score))
            }
            Scoring::Adaptive => {
                adaptive_draws(active, backend, &self.tables, &mut self.random, now)
            }
        };
        if self.tables.watch.is_on() {
            let draws = draws.map(Candidate::place);
            self.show_draws(backend, method, draws, best.place(), now);
        }
        let endpoint = &backend.endpoints()[best.place()];
        Ok(self.lease(endpoint, terms, method))
    }

    /// Leases the better of two endpoints for another attempt at the same request. Rows in `tried` are passed over as
    /// long as there is another endpoint at all, ejected ones included.
    #[cold]
    pub fn pick_again(
        &mut self,
        backend: &Backend,
        tried: &[u32],
        now: Moment,
    ) -> Result<Lease, NoEndpoint> {
        // Whose time has come is readmitted here.
        let served = served(
            &mut self.served,
            &mut self.contracts,
            backend,
            &self.tables,
            now,
        );
        let (active, Some(terms)) = (&served.active, served.terms) else {
            return Err(NoEndpoint);
        };
        let state = |endpoint: &Endpoint| EndpointState::of(&self.tables, endpoint.row);
        let is_active = |endpoint: &Endpoint| state(endpoint).ejected_until(now).is_none();
        let Some(method) = self.untried.find(backend, tried, is_active) else {
            return self.pick(backend, now);
        };
        let endpoints = backend.endpoints();
        let draws = [(); 2].map(|()| self.untried.draw(&mut self.random));
        let best = better_of_two(draws, |place| {
            let (_, score) = active.judged(backend, place, &self.tables, now);
            score
        });
        if self.tables.watch.is_on() {
            self.show_draws(backend, method, draws, best, now);
        }
        Ok(self.lease(&endpoints[best], terms, method))
    }

    /// Leases the endpoint this key is bound to. Rows in `tried` are passed over for the next best, as long as there is
    /// another endpoint at all; so is one that carries more than its bounded load.
    pub fn pick_bound(
        &mut self,
        backend: &Backend,
        key: AffinityKey,
        tried: &[u32],
        now: Moment,
    ) -> Result<Lease, NoEndpoint> {
        let served = served(
            &mut self.served,
            &mut self.contracts,
            backend,
            &self.tables,
            now,
        );
        let active = &mut served.active;
        let (Some(_), Some(terms)) = (active.method(), served.terms) else {
            return Err(NoEndpoint);
        };

        let tables = &self.tables;
        let endpoints = backend.endpoints();
        let row = |place: usize| endpoints[place].row.index;
        let limit = backend.policy.bounded_load.map(|factor| {
            factor.limit(
                active
                    .candidates()
                    .iter()
                    .map(|candidate| load::pending(tables, candidate.row)),
            )
        });
        let is_untried = |place: usize| !tried.contains(&row(place));
        let has_room = |place: usize| {
            limit.is_none_or(|limit| load::pending(tables, row(place)) as f64 <= limit)
        };
        let is_active =
            |endpoint: &Endpoint| EndpointState::of(tables, endpoint.row).is_active(now);
        let mut best = active.best(backend, key, is_untried);
        let is_overloaded = best.is_some_and(|place| !has_room(place));
        if is_overloaded {
            let with_room = active.best(backend, key, |place| is_untried(place) && has_room(place));
            best = with_room.or(best);
        }
        let best = best
            .or_else(|| active.best_of_all(backend, key, is_active, is_untried))
            .or_else(|| active.best(backend, key, |_| true))
            .ok_or(NoEndpoint)?;
        let is_ejected = !is_active(&endpoints[best]);
        if tables.watch.is_on() {
            let how = How::Affinity {
                tried: tried.len(),
                pending: load::pending(tables, row(best)),
                limit,
            };
            self.show(backend, best, how, now);
        }
        let mut lease = self.lease(&endpoints[best], terms, Method::Affinity);
        lease.detour = match (is_ejected, is_overloaded) {
            (true, _) => Some(Detour::Ejected),
            (_, true) => Some(Detour::Overloaded),
            _ => None,
        };
        Ok(lease)
    }

    #[cold]
    fn show_draws(
        &self,
        backend: &Backend,
        method: Method,
        draws: [usize; 2],
        winner: usize,
        now: Moment,
    ) {
        let draws = draws.map(|place| {
            let endpoint = &backend.endpoints()[place];
            let active = &self.served[backend.id.place].active;
            let (reading, score) = active.judged(backend, place, &self.tables, now);
            Draw {
                endpoint: endpoint.key.clone(),
                reading,
                score: score.as_f64(),
                eased_percent: eased_percent(backend, endpoint, &self.tables, now),
            }
        });
        self.show(backend, winner, How::Draws { method, draws }, now);
    }

    #[cold]
    fn show(&self, backend: &Backend, winner: usize, how: How, now: Moment) {
        self.tables.watch.see(backend, || WatchedPick {
            at: now,
            winner: backend.endpoints()[winner].key.clone(),
            how,
        });
    }

    #[inline]
    fn lease(&mut self, endpoint: &Endpoint, terms: TermsId, method: Method) -> Lease {
        load::on_pick(&self.tables, self.worker, endpoint.row.index);
        self.contracts.on_pick(terms);
        Lease::new(endpoint, terms, method)
    }

    /// A lease of this very endpoint, as one drawn earlier.
    #[cfg(test)]
    pub(super) fn lease_of(&mut self, backend: &Backend, endpoint: &Endpoint) -> Lease {
        if backend.id.place >= self.served.len() {
            make_room(&mut self.served, backend.id.place);
        }
        let served = &mut self.served[backend.id.place];
        let terms = self.contracts.renew(served.terms, backend);
        served.terms = Some(terms);
        self.lease(endpoint, terms, Method::P2c)
    }

    /// A number below `limit`, for what is drawn before a backend is picked from.
    pub fn draw_below(&mut self, limit: u64) -> u64 {
        below(limit as usize, &mut self.random) as u64
    }

    /// Gives a lease of this balancer back with what the attempt said of its endpoint. Returns what that led to, if a
    /// failure was one too many.
    pub fn finish(&mut self, lease: Lease, outcome: Outcome, now: Moment) -> Option<Verdict> {
        self.finish_suggesting(lease, outcome, Suggested::default(), now)
    }

    /// The same, with how long an ejection should last where the backend's policy leaves that open.
    pub fn finish_suggesting(
        &mut self,
        lease: Lease,
        outcome: Outcome,
        suggested: Suggested,
        now: Moment,
    ) -> Option<Verdict> {
        let verdict = self.learn(&lease, outcome, suggested, now);
        load::on_finish(&self.tables, self.worker, lease.row.index, outcome);
        self.contracts.on_finish(lease.terms);
        verdict
    }

    /// What the end of an attempt says of its endpoint.
    fn learn(
        &self,
        lease: &Lease,
        outcome: Outcome,
        suggested: Suggested,
        now: Moment,
    ) -> Option<Verdict> {
        let state = EndpointState::of(&self.tables, lease.row);
        // The row belongs to another endpoint by now.
        if !state.is_current() {
            return Some(Verdict::TooLate);
        }
        let terms = self.contracts.terms(lease.terms);
        // The end of an ejection comes before the failures after it, also if no pick has noticed it yet.
        if state.readmit_if_due(terms.health.restored_health(), now) {
            tracing::info!("endpoint {} is back in the pool", lease.address);
        }
        if terms.scoring == Scoring::Adaptive {
            Outlook::of(&self.tables, lease.row.index).on_outcome(outcome, now);
        }
        match outcome {
            Outcome::Success { latency } => {
                state.record_success(latency);
                None
            }
            Outcome::Failure => {
                let before = state.record_failure();
                let Decision {
                    trigger,
                    reason,
                    length,
                } = terms.health.decide(before, suggested)?;
                let until = state.eject(length, now)?;
                if let Some(limit) = terms.max_ejected
                    && self.outs(&terms.members, now).exceed(limit)
                {
                    state.withdraw_ejection(until);
                    return Some(Verdict::Spared);
                }
                state.confirm_ejection(reason);
                Some(Verdict::Ejected(Ejection {
                    backend: terms.backend,
                    address: lease.address,
                    trigger,
                    reason,
                    length,
                    until,
                }))
            }
            Outcome::Neutral => None,
        }
    }

    /// How many of these are out of the pool. Those that have left the backend meanwhile do not count.
    fn outs(&self, members: &[EndpointRow], now: Moment) -> Outs {
        let states = members
            .iter()
            .map(|row| EndpointState::of(&self.tables, *row));
        let current = states.filter(EndpointState::is_current);
        current.fold(Outs { out: 0, all: 0 }, |outs, state| Outs {
            out: outs.out + usize::from(!state.is_active(now)),
            all: outs.all + 1,
        })
    }
}

/// Two draws in adaptive scoring, and the better one. A function of its own: the default mode has all registers.
#[inline(never)]
fn adaptive_draws(
    active: &ActiveSet,
    backend: &Backend,
    tables: &SharedTables,
    random: &mut impl Rng,
    now: Moment,
) -> ([Candidate; 2], Candidate) {
    let judge = active.judge(tables, now);
    let draws = active.draw_different(random, |one| judge.is_poor(one.row));
    let score = |one: Candidate| judge.score(one.row, active.per_weight(one.place(), backend));
    (draws, better_of_two(draws, score))
}

/// What is known of a backend, with whoever may be picked now.
#[inline]
fn served<'a>(
    all: &'a mut Vec<Served>,
    contracts: &mut Contracts,
    backend: &Backend,
    tables: &SharedTables,
    now: Moment,
) -> &'a mut Served {
    let place = backend.id.place;
    if place >= all.len() {
        make_room(all, place);
    }
    let served = &mut all[place];
    if served.active.refresh_if_stale(backend, tables, now) {
        served.terms = Some(contracts.renew(served.terms, backend));
    }
    served
}

#[cold]
fn make_room(all: &mut Vec<Served>, place: usize) {
    all.resize_with(place + 1, Served::default);
}

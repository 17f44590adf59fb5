//! Who of a backend may be picked right now, as one worker remembers it. Looking through all endpoints happens here,
//! and only when somebody was ejected or readmitted; a pick draws from what was found.

use std::sync::atomic::Ordering::Acquire;

use rand::Rng;
use weir_rendezvous::{AffinityKey, Candidates};

use super::adaptive::{Judge, Normal, Outlook};
use super::alias::AliasTable;
use super::backend::{Backend, BackendId};
use super::endpoint::{Endpoint, Weight};
use super::lease::Method;
use super::p2c::split;
use super::policy::Scoring;
use super::score::{Reading, Score};
use super::shared::SharedTables;
use super::slow_start::Ramps;
use super::state::{EndpointState, reading};
use crate::moment::Moment;

/// The candidates for a pick.
#[derive(Debug, Default)]
pub struct ActiveSet {
    found: Option<Found>,
    candidates: Vec<Candidate>,
    weights: AliasTable,
    /// The candidates as affinity sees them; made when a key first asks for it.
    rendezvous: Candidates,
    is_rendezvous_made: bool,
    /// For adaptive scoring only.
    normal: Normal,
    /// Who is being eased in.
    ramps: Ramps,
}

/// An endpoint that may be picked: small, so that those of a large backend stay in the processor's caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    place: u32,
    /// Its index in the shared tables.
    pub row: u32,
}

impl Candidate {
    /// Among the backend's endpoints.
    #[inline]
    pub fn place(self) -> usize {
        self.place as usize
    }
}

/// What the candidates hold for.
#[derive(Clone, Copy, Debug)]
struct Found {
    backend: BackendId,
    ejection_epoch: u64,
    /// When the first ejection ends, or whoever is eased in gets more.
    look_again_at: Moment,
    method: Method,
    /// Of the candidates; `None` if draws are not by weight.
    mean_weight: Option<f32>,
}

impl ActiveSet {
    /// Looks at the endpoints again if anything happened that could change the candidates; says whether it did.
    #[inline]
    pub fn refresh_if_stale(
        &mut self,
        backend: &Backend,
        tables: &SharedTables,
        now: Moment,
    ) -> bool {
        let epoch = tables.meta[0].ejection_epoch.load(Acquire);
        let is_fresh = self.found.as_ref().is_some_and(|found| {
            found.backend == backend.id
                && found.ejection_epoch == epoch
                && now < found.look_again_at
        });
        if !is_fresh {
            self.refresh(backend, tables, now);
        }
        if backend.policy.scoring == Scoring::Adaptive && self.normal.is_stale(now) {
            let rows = self.candidates.iter().map(|candidate| candidate.row);
            self.normal.refresh(rows, tables, now);
        }
        !is_fresh
    }

    /// Who compares the candidates in adaptive scoring.
    #[inline]
    pub fn judge<'a>(&'a self, tables: &'a SharedTables, now: Moment) -> Judge<'a> {
        Judge::new(&self.normal, tables, now)
    }

    /// How a pick is decided now; `None` if there is no candidate.
    #[inline]
    pub fn method(&self) -> Option<Method> {
        let found = self.found.as_ref()?;
        (!self.candidates.is_empty()).then_some(found.method)
    }

    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Two candidates, drawn one without regard to the other. Only while [`method`](Self::method) says there is one.
    #[inline]
    pub fn draw_two(&self, random: &mut impl Rng) -> [Candidate; 2] {
        if self.is_weighted() {
            return [(); 2].map(|()| self.candidates[self.weights.draw(random)]);
        }
        // One number for both: what is left of it after the first draw has more than enough bits for the second.
        let count = self.candidates.len();
        let (first, rest) = split(random.next_u64(), count);
        let (second, _) = split(rest, count);
        [first, second].map(|draw| self.candidates[draw])
    }

    /// Two different candidates, or the only one twice. Drawn by weight they may be the same, or weights would not hold;
    /// but one that is poor has other chances than itself.
    #[inline]
    pub fn draw_different(
        &self,
        random: &mut impl Rng,
        is_poor: impl Fn(Candidate) -> bool,
    ) -> [Candidate; 2] {
        const CHANCES: usize = 4;
        let others = self.candidates.len().saturating_sub(1);
        if others > 0 && !self.is_weighted() {
            let (first, rest) = split(random.next_u64(), self.candidates.len());
            let (second, _) = split(rest, others);
            let second = second + usize::from(second >= first);
            return [first, second].map(|draw| self.candidates[draw]);
        }
        let [first, mut second] = self.draw_two(random);
        if first == second && others > 0 && is_poor(first) {
            let mut chances = (0..CHANCES).map(|_| self.candidates[self.weights.draw(random)]);
            second = chances.find(|other| *other != first).unwrap_or(second);
        }
        [first, second]
    }

    #[inline]
    pub fn is_weighted(&self) -> bool {
        let found = self.found.as_ref();
        found.is_some_and(|found| found.mean_weight.is_some())
    }

    /// The mean weight of the candidates over that of this endpoint, which is not drained.
    #[inline]
    pub fn per_weight(&self, place: usize, backend: &Backend) -> f32 {
        match self.found.and_then(|found| found.mean_weight) {
            Some(mean) => mean / f32::from(backend.endpoints()[place].weight.share()),
            None => 1.0,
        }
    }

    /// What is compared of an endpoint in the backend's mode, and how good that is.
    pub fn judged(
        &self,
        backend: &Backend,
        place: usize,
        tables: &SharedTables,
        now: Moment,
    ) -> (Reading, Score) {
        let row = backend.endpoints()[place].row.index;
        match backend.policy.scoring {
            Scoring::Seed => {
                let reading = reading(tables, row);
                (reading, Score::of(reading))
            }
            Scoring::Adaptive => {
                let judge = self.judge(tables, now);
                let score = judge.score(row, self.per_weight(place, backend));
                (judge.reading(row), score)
            }
        }
    }

    /// The place of the candidate with the highest value for this key, among those wanted.
    pub fn best(
        &mut self,
        backend: &Backend,
        key: AffinityKey,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if !self.is_rendezvous_made {
            let candidates = self.candidates.iter();
            self.rendezvous
                .rebuild(candidates.map(|one| backend.candidate(one.place())));
            self.is_rendezvous_made = true;
        }
        self.rendezvous.best(key, is_wanted)
    }

    /// The same over the whole backend: bucket after bucket among active endpoints, then among ejected ones.
    #[cold]
    pub fn best_of_all(
        &mut self,
        backend: &Backend,
        key: AffinityKey,
        is_active: impl Fn(&Endpoint) -> bool,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        self.is_rendezvous_made = false;
        let mut best = |first: usize, bucket: &[Endpoint], active: bool| {
            let places = (first..).zip(bucket);
            let candidates = places.filter(|(_, endpoint)| is_active(endpoint) == active);
            self.rendezvous
                .rebuild(candidates.map(|(place, _)| backend.candidate(place)));
            self.rendezvous.best(key, &is_wanted)
        };
        let mut buckets = backend.buckets();
        if let Some(place) = buckets.find_map(|(first, bucket)| best(first, bucket, true)) {
            return Some(place);
        }
        backend
            .buckets()
            .filter(|(_, bucket)| !is_all_active_drained(bucket, &is_active))
            .find_map(|(first, bucket)| best(first, bucket, false))
    }

    #[cold]
    fn refresh(&mut self, backend: &Backend, tables: &SharedTables, now: Moment) {
        let state = |endpoint: &Endpoint| EndpointState::of(tables, endpoint.row);
        let restored_health = backend.policy.health.restored_health();
        for endpoint in backend.endpoints() {
            if state(endpoint).readmit_if_due(restored_health, now) {
                let (name, namespace) = (&backend.name, &backend.namespace);
                tracing::info!(
                    "endpoint {} of {namespace}/{name} is back in the pool",
                    endpoint.key
                );
            }
            if backend.policy.scoring == Scoring::Adaptive {
                let latency = state(endpoint).reading().latency_seconds;
                Outlook::of(tables, endpoint.row.index).on_seen(latency, now);
            }
        }

        // Read before the rows: an ejection in between raises it, and we look again at the next pick.
        let ejection_epoch = tables.meta[0].ejection_epoch.load(Acquire);
        let ejected_until = |endpoint: &Endpoint| state(endpoint).ejected_until(now);
        let is_active = |endpoint: &Endpoint| state(endpoint).is_active(now);

        // A backend without endpoints has no bucket to take others from.
        self.candidates.clear();
        let method = if self.take_active(backend, is_active) {
            Method::P2c
        } else {
            self.take_rejected(backend, is_active);
            Method::Rejected
        };
        self.is_rendezvous_made = false;
        let active = backend.endpoints().iter().filter(|one| is_active(one));
        let slow_start = backend.policy.slow_start;
        let active = active.map(|endpoint| endpoint.row);
        self.ramps.look(slow_start, active, &tables.eased, now);
        self.normal.expire();
        let mean_weight = match method {
            Method::P2c => self.weigh(backend, tables, now),
            _ => None,
        };
        let next_step = self.ramps.next_step();
        let returns = backend.endpoints().iter().filter_map(ejected_until);
        self.found = Some(Found {
            backend: backend.id,
            ejection_epoch,
            look_again_at: returns.chain(next_step).min().unwrap_or(Moment::NEVER),
            method,
            mean_weight,
        });
    }

    /// The first bucket with an active endpoint that is not drained. False if there is none.
    fn take_active(&mut self, backend: &Backend, is_active: impl Fn(&Endpoint) -> bool) -> bool {
        backend
            .buckets()
            .any(|(first, bucket)| self.take(first, bucket, &is_active))
    }

    /// The first bucket with an ejected endpoint that is not drained. A bucket in which the operator drained all that
    /// is active stays out.
    fn take_rejected(&mut self, backend: &Backend, is_active: impl Fn(&Endpoint) -> bool) -> bool {
        backend
            .buckets()
            .filter(|(_, bucket)| !bucket.iter().any(&is_active))
            .any(|(first, bucket)| self.take(first, bucket, |_| true))
    }

    /// Makes those of a bucket the candidates that are wanted and not drained. False if there is none.
    fn take(
        &mut self,
        first: usize,
        bucket: &[Endpoint],
        wanted: impl Fn(&Endpoint) -> bool,
    ) -> bool {
        let viable = bucket
            .iter()
            .enumerate()
            .filter(|(_, endpoint)| !endpoint.weight.is_drained() && wanted(endpoint))
            .map(|(place, endpoint)| Candidate {
                place: (first + place) as u32,
                row: endpoint.row.index,
            });
        self.candidates.clear();
        self.candidates.extend(viable);
        !self.candidates.is_empty()
    }

    /// Prepares draws by weight, and returns the mean. `None` if all are equal to 1.
    fn weigh(&mut self, backend: &Backend, tables: &SharedTables, now: Moment) -> Option<f32> {
        let endpoint = |one: &Candidate| &backend.endpoints()[one.place()];
        let is_one = |one: &Candidate| endpoint(one).weight == Weight::ONE;
        if self.candidates.iter().all(is_one) && self.ramps.next_step().is_none() {
            return None;
        }
        let shares = self.candidates.iter().map(|one| {
            let endpoint = endpoint(one);
            let percent = eased_percent(backend, endpoint, tables, now).unwrap_or(100);
            u32::from(endpoint.weight.share()) * percent
        });
        self.weights.rebuild(shares);
        let weights = self.candidates.iter().map(|one| endpoint(one).weight);
        let total: f32 = weights.map(|weight| f32::from(weight.share())).sum();
        Some(total / self.candidates.len() as f32)
    }
}

/// How much of its share of the draws an endpoint gets that is eased in, in percent.
pub fn eased_percent(
    backend: &Backend,
    endpoint: &Endpoint,
    tables: &SharedTables,
    now: Moment,
) -> Option<u32> {
    let policy = backend.policy.slow_start?;
    tables.eased.percent(endpoint.row, policy, now)
}

/// Whether the operator drained whatever is active in a bucket: then its ejected endpoints stay out too.
pub fn is_all_active_drained(bucket: &[Endpoint], is_active: impl Fn(&Endpoint) -> bool) -> bool {
    let mut active = bucket
        .iter()
        .filter(|endpoint| is_active(endpoint))
        .peekable();
    active.peek().is_some() && active.all(|endpoint| endpoint.weight.is_drained())
}

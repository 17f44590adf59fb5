//! How the endpoints of a backend stand right now: who may be picked, with which score, and how likely. For people who
//! ask; picks do not come here.

use super::active::{ActiveSet, eased_percent};
use super::backend::Backend;
use super::lease::Method;
use super::policy::Scoring;
use super::score::Reading;
use super::shared::SharedTables;
use super::state::EndpointState;
use crate::moment::Moment;

/// One endpoint of a backend.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standing {
    /// Among the backend's endpoints.
    pub place: usize,
    pub state: State,
    pub reading: Reading,
    pub score: f64,
    /// Of its share of the draws, in percent, while it is being eased in.
    pub eased_percent: Option<u32>,
    /// Probability that the next pick by score is this endpoint: 0 for one that is not a candidate.
    pub chance: f64,
}

/// Whether an endpoint may be picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Picks draw from these.
    Candidate,
    /// In the pool, but in a bucket that is not in use.
    Waiting,
    Ejected,
    /// Out because of an active check.
    FailingChecks,
    /// By the operator.
    Drained,
}

/// How all endpoints stand, and how a pick would be made; `None` if there is nothing to pick.
pub fn standings(
    backend: &Backend,
    tables: &SharedTables,
    now: Moment,
) -> (Option<Method>, Vec<Standing>) {
    let mut active = ActiveSet::default();
    active.refresh_if_stale(backend, tables, now);
    let method = active.method();
    let mut standings: Vec<Standing> = backend
        .endpoints()
        .iter()
        .enumerate()
        .map(|(place, endpoint)| {
            let state = EndpointState::of(tables, endpoint.row);
            let (reading, score) = active.judged(backend, place, tables, now);
            Standing {
                place,
                state: if endpoint.weight.is_drained() {
                    State::Drained
                } else if state.is_failing_checks() {
                    State::FailingChecks
                } else if !state.is_active(now) {
                    State::Ejected
                } else {
                    State::Waiting
                },
                reading,
                score: score.as_f64(),
                eased_percent: eased_percent(backend, endpoint, tables, now),
                chance: 0.0,
            }
        })
        .collect();
    let places: Vec<usize> = active.candidates().iter().map(|one| one.place()).collect();
    for place in &places {
        if standings[*place].state == State::Waiting {
            standings[*place].state = State::Candidate;
        }
    }
    let eased: Vec<Option<u32>> = standings.iter().map(|one| one.eased_percent).collect();
    let weight = |place: usize| match method {
        Some(Method::P2c) => {
            let share = f64::from(backend.endpoints()[place].weight.share());
            share * f64::from(eased[place].unwrap_or(100)) / 100.0
        }
        _ => 1.0,
    };
    if backend.policy.scoring == Scoring::Adaptive && places.len() > 1 && !active.is_weighted() {
        give_chances_of_different(&mut standings, places);
    } else {
        give_chances(&mut standings, places, weight);
    }
    (method, standings)
}

/// Of two draws with replacement the better one wins, of equal ones the second: with shares p of the draws,
/// `p² + 2 p * (shares of the worse) + p * (shares of the equal)`.
fn give_chances(
    standings: &mut [Standing],
    mut candidates: Vec<usize>,
    weight: impl Fn(usize) -> f64,
) {
    let total: f64 = candidates.iter().map(|place| weight(*place)).sum();
    candidates.sort_by(|one, next| standings[*one].score.total_cmp(&standings[*next].score));
    let mut worse = 0.0;
    let scores: Vec<f64> = candidates
        .iter()
        .map(|place| standings[*place].score)
        .collect();
    let mut from = 0;
    while from < candidates.len() {
        let equal = scores[from..].partition_point(|score| *score <= scores[from]);
        let group = &candidates[from..from + equal];
        let shares: f64 = group.iter().map(|place| weight(*place) / total).sum();
        for place in group {
            let share = weight(*place) / total;
            standings[*place].chance = share * (2.0 * worse + shares);
        }
        worse += shares;
        from += equal;
    }
}

/// Of two different draws the better one wins, of equal ones the second: of n endpoints one that is better than w and
/// equal to e others gets `(2w + e) / (n * (n - 1))`.
fn give_chances_of_different(standings: &mut [Standing], candidates: Vec<usize>) {
    let mut scores: Vec<f64> = candidates
        .iter()
        .map(|place| standings[*place].score)
        .collect();
    scores.sort_by(f64::total_cmp);
    let pairs = (candidates.len() * (candidates.len() - 1)) as f64;
    for place in candidates {
        let own = standings[place].score;
        let worse = scores.partition_point(|score| *score < own);
        let not_better = scores.partition_point(|score| *score <= own);
        standings[place].chance = (worse + not_better - 1) as f64 / pairs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(place: usize, score: f64) -> Standing {
        Standing {
            place,
            state: State::Candidate,
            reading: Reading {
                health: score,
                latency_seconds: None,
                pending: 0,
            },
            score,
            eased_percent: None,
            chance: 0.0,
        }
    }

    fn chances(scores: &[f64], weights: &[f64]) -> Vec<f64> {
        let mut standings: Vec<Standing> =
            (0..).zip(scores).map(|(p, s)| standing(p, *s)).collect();
        let candidates = (0..scores.len()).collect();
        give_chances(&mut standings, candidates, |place| weights[place]);
        standings.iter().map(|standing| standing.chance).collect()
    }

    fn assert_near(got: &[f64], expected: &[f64]) {
        for (got, expected) in got.iter().zip(expected) {
            assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");
        }
        assert!((got.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }

    #[test]
    fn chances_are_those_of_two_draws() {
        let ninths = |parts: [f64; 3]| parts.map(|part| part / 9.0);
        assert_near(
            &chances(&[0.2, 1.0, 0.5], &[1.0; 3]),
            &ninths([1.0, 5.0, 3.0]),
        );
        assert_near(&chances(&[1.0, 1.0], &[3.0, 1.0]), &[0.75, 0.25]);
        assert_near(
            &chances(&[0.5, 1.0], &[3.0, 1.0]),
            &[9.0 / 16.0, 7.0 / 16.0],
        );
        assert_near(&chances(&[0.3], &[7.0]), &[1.0]);
    }

    #[test]
    fn of_two_different_draws_the_worst_has_no_chance() {
        let mut standings: Vec<Standing> = [0.2, 1.0, 0.5, 0.5]
            .into_iter()
            .enumerate()
            .map(|(place, score)| standing(place, score))
            .collect();
        give_chances_of_different(&mut standings, (0..4).collect());
        let chances: Vec<f64> = standings.iter().map(|standing| standing.chance).collect();
        assert_near(&chances, &[0.0, 6.0, 3.0, 3.0].map(|pairs| pairs / 12.0));
    }
}

//! `GET /explain?backend=NAMESPACE/NAME`: how the endpoints of a backend stand, and the next few picks as they are made.
//! The answer waits for them, but not for long: a backend without traffic has none. The same types read it back.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::balance::shared::SharedTables;
use crate::balance::{
    Backend, BackendKind, Draw, Endpoint, How, Method, PickWatch, Reading, Standing, State,
    WatchedPick, standings,
};
use crate::metrics::{Label, Observed};
use crate::moment::Moment;
use crate::runtime::clock;
use crate::snapshot::{BackendPolicy, Snapshot};

/// How long picks are waited for, at most.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often somebody looks whether all have come.
const PAUSE: Duration = Duration::from_millis(20);
const MAX_PICKS: usize = 1000;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Several where requests reach a backend in ways that are treated differently.
    pub backends: Vec<BackendStanding>,
    /// The picks seen, the first one first.
    pub picks: Vec<PickDump>,
    /// How long they were waited for.
    pub watched_ms: f64,
    /// Picks left out because two workers picked in the same moment.
    pub missed: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendStanding {
    #[serde(rename = "type")]
    pub kind: BackendKind,
    pub name: String,
    pub namespace: String,
    /// The expression whose value comes before any score.
    pub affinity: Option<String>,
    /// How requests without such a value are decided: `p2c`, or `rejected` while nobody is active; none if there is nobody
    /// to pick.
    pub method: Option<String>,
    /// How scores are made: `seed` or `adaptive`.
    pub scoring: String,
    pub endpoints: Vec<EndpointStanding>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStanding {
    pub endpoint: String,
    pub state: StateName,
    pub bucket: u8,
    pub weight: u16,
    #[serde(flatten)]
    pub terms: Terms,
    /// Probability of the next pick by score.
    pub chance: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum StateName {
    Candidate,
    Waiting,
    Ejected,
    FailingChecks,
    Drained,
}

/// What a score is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Terms {
    pub health: f64,
    pub latency_ms: Option<f64>,
    pub pending: u64,
    pub score: f64,
    /// Slow start: how much of its share of the draws it gets, in percent; `None` once that is all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub eased_percent: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PickDump {
    /// After the first one.
    pub after_ms: f64,
    pub winner: String,
    /// `p2c`, `rejected` or `affinity`.
    pub method: String,
    /// The two that were drawn, in this order; of equal scores the second wins. Empty for affinity.
    pub draws: Vec<DrawDump>,
    /// What the affinity key had to get around.
    pub affinity: Option<AffinityDump>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DrawDump {
    pub endpoint: String,
    #[serde(flatten)]
    pub terms: Terms,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffinityDump {
    /// Endpoints the request had been tried at.
    pub tried: usize,
    /// Of the winner, before this request.
    pub pending: u64,
    /// As many exchanges an endpoint may have pending to be chosen, if that is bounded.
    pub pending_limit: Option<f64>,
}

/// What is asked for.
pub struct Question {
    backend: String,
    picks: usize,
}

impl Question {
    /// Reads `backend=..&picks=..`; an error says what is wrong.
    pub fn parse(query: &str) -> Result<Self, String> {
        let mut question = Self {
            backend: String::new(),
            picks: 10,
        };
        for (key, value) in query.split('&').filter_map(|part| part.split_once('=')) {
            match key {
                "backend" => question.backend = value.replace("%2F", "/").replace("%2f", "/"),
                "picks" => {
                    let picks = value.parse().ok().filter(|picks| *picks <= MAX_PICKS);
                    question.picks =
                        picks.ok_or_else(|| format!("picks: write 0 to {MAX_PICKS}"))?;
                }
                _ => return Err(format!("{key} is not known: there are backend and picks")),
            }
        }
        Ok(question)
    }

    /// The backends meant; an error lists those there are.
    fn find<'a>(&self, snapshot: &'a Snapshot) -> Result<Vec<&'a Backend>, String> {
        let named = |backend: &&Backend| {
            self.backend == backend.name
                || self
                    .backend
                    .split_once('/')
                    .is_some_and(|(of, name)| of == backend.namespace && name == backend.name)
        };
        let all = snapshot.backends();
        let found: Vec<&Backend> = all.iter().filter(named).collect();
        let is_one = |pair: &[&Backend]| pair[0].namespace == pair[1].namespace;
        if !found.is_empty() && found.windows(2).all(is_one) {
            return Ok(found);
        }
        let mut names: Vec<String> = all
            .iter()
            .map(|backend| format!("{}/{}", backend.namespace, backend.name))
            .collect();
        names.sort();
        names.dedup();
        Err(format!(
            "{} backend `{}`; there is: {}",
            if found.is_empty() {
                "no"
            } else {
                "more than one"
            },
            self.backend,
            names.join(", ")
        ))
    }
}

/// Watches picks for a while, then says how things stand.
pub async fn explain(question: &Question, observed: &Observed) -> Result<Explanation, String> {
    let snapshot = observed.serving.snapshot();
    let found = question.find(&snapshot)?;
    let Some(first) = found.first() else {
        return Err("nothing is served".to_owned());
    };
    let began = clock::now();
    let watch = Watching(&observed.tables.watch);
    watch.0.begin(&first.namespace, &first.name, question.picks);
    while watch.0.is_on() && clock::now().since(began) < PATIENCE {
        tokio::time::sleep(PAUSE).await;
    }
    let (picks, missed) = watch.0.end();
    // Meanwhile another snapshot may be served.
    let snapshot = observed.serving.snapshot();
    let found = question.find(&snapshot)?;
    let now = clock::now();
    let since = picks.first().map_or(now, |pick| pick.at);
    Ok(Explanation {
        backends: found
            .into_iter()
            .map(|backend| {
                BackendStanding::of(backend, snapshot.policy_of(backend), &observed.tables, now)
            })
            .collect(),
        picks: picks.iter().map(|pick| PickDump::of(pick, since)).collect(),
        watched_ms: now.since(began).as_secs_f64() * 1e3,
        missed,
    })
}

/// Ends with whoever asked, also if they leave early: workers would go on writing.
struct Watching<'a>(&'a PickWatch);

impl Drop for Watching<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl BackendStanding {
    fn of(
        backend: &Backend,
        policy: Option<&BackendPolicy>,
        tables: &SharedTables,
        now: Moment,
    ) -> Self {
        let (method, standings) = standings(backend, tables, now);
        let affinity = policy.and_then(|policy| policy.affinity.as_ref());
        let endpoints = standings.iter().zip(backend.endpoints());
        Self {
            kind: backend.kind,
            name: backend.name.clone(),
            namespace: backend.namespace.clone(),
            affinity: affinity.map(|affinity| affinity.source().to_owned()),
            method: method.map(|method| method.name().to_owned()),
            scoring: backend.policy.scoring.to_string(),
            endpoints: endpoints
                .map(|(standing, endpoint)| EndpointStanding::of(standing, endpoint))
                .collect(),
        }
    }
}

impl EndpointStanding {
    fn of(standing: &Standing, endpoint: &Endpoint) -> Self {
        Self {
            endpoint: endpoint.key.to_string(),
            state: match standing.state {
                State::Candidate => StateName::Candidate,
                State::Waiting => StateName::Waiting,
                State::Ejected => StateName::Ejected,
                State::FailingChecks => StateName::FailingChecks,
                State::Drained => StateName::Drained,
            },
            bucket: endpoint.bucket.0,
            weight: endpoint.weight.share(),
            terms: Terms::of(standing.reading, standing.score, standing.eased_percent),
            chance: standing.chance,
        }
    }
}

impl Terms {
    fn of(reading: Reading, score: f64, eased_percent: Option<u32>) -> Self {
        Self {
            health: reading.health,
            latency_ms: reading.latency_seconds.map(|seconds| seconds * 1e3),
            pending: reading.pending,
            score,
            eased_percent,
        }
    }
}

impl PickDump {
    fn of(pick: &WatchedPick, since: Moment) -> Self {
        let (method, draws, affinity) = match &pick.how {
            How::Draws { method, draws } => {
                (*method, draws.iter().map(DrawDump::of).collect(), None)
            }
            How::Affinity {
                tried,
                pending,
                limit,
            } => {
                let affinity = AffinityDump {
                    tried: *tried,
                    pending: *pending,
                    pending_limit: *limit,
                };
                (Method::Affinity, Vec::new(), Some(affinity))
            }
        };
        Self {
            after_ms: pick.at.since(since).as_secs_f64() * 1e3,
            winner: pick.winner.to_string(),
            method: method.name().to_owned(),
            draws,
            affinity,
        }
    }
}

impl DrawDump {
    fn of(draw: &Draw) -> Self {
        Self {
            endpoint: draw.endpoint.to_string(),
            terms: Terms::of(draw.reading, draw.score, draw.eased_percent),
        }
    }
}

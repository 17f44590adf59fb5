//! `weir explain`: how the endpoints of a backend stand, and why its latest requests went where they went.

use std::fmt::Write;
use std::net::SocketAddr;

use clap::{Args, ValueEnum};

use super::backends::{parse_admin, short_endpoint};
use super::table;
use crate::runtime::admin::explain::{
    BackendStanding, DrawDump, EndpointStanding, Explanation, PickDump, StateName, Terms,
};
use crate::runtime::admin::{FetchError, fetch};

/// Show why requests of a backend go where they go
///
/// Waits up to two seconds for requests and shows how each was decided, after a table of all endpoints: SCORE is health /
/// (1 + latency * (1 + 0.1 * pending)) with the latency in seconds, where scoring is adaptive health² / (latency *
/// (pending + 1)), with both as faded as they are now; CHANCE is the probability that the next request without an affinity
/// value goes there.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  weir explain default
  weir explain shop/front --picks 50 -o json")]
pub struct ExplainOptions {
    /// The backend: NAMESPACE/NAME, or NAME if it is the only one of this name
    backend: String,

    /// How many requests to wait for; 0 shows the endpoints alone
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u16).range(0..=1000))]
    picks: u16,

    /// Admin address of the proxy to ask
    #[arg(
        long,
        value_name = "ADDR",
        env = "WEIR_ADMIN",
        default_value = "127.0.0.1:15000",
        value_parser = parse_admin
    )]
    admin: SocketAddr,

    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// Tables
    #[default]
    Short,
    Json,
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum ExplainError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{admin} answers, but not as this version of weir does: {source}")]
    Malformed {
        admin: SocketAddr,
        source: serde_json::Error,
    },
}

impl ExplainOptions {
    /// What to print.
    pub fn render(&self) -> Result<String, ExplainError> {
        // Names of Kubernetes need no escapes; of others the proxy says that it does not know them.
        let backend: String = self.backend.split([' ', '&', '#', '%', '?']).collect();
        let path = format!("/explain?backend={backend}&picks={}", self.picks);
        let text = fetch(self.admin, &path)?;
        if self.output == Output::Json {
            return Ok(text);
        }
        let explanation =
            serde_json::from_str(&text).map_err(|source| ExplainError::Malformed {
                admin: self.admin,
                source,
            })?;
        Ok(short(&explanation, self.picks.into()))
    }
}

fn short(explanation: &Explanation, asked: usize) -> String {
    let mut text = String::new();
    let mut namespace = "";
    for backend in &explanation.backends {
        namespace = &backend.namespace;
        let _ = writeln!(
            text,
            "{} {}/{}: {}",
            backend.kind,
            backend.namespace,
            backend.name,
            decision(backend)
        );
        text += &endpoints(backend);
        text.push('\n');
    }
    if asked > 0 {
        let first = explanation.backends.first();
        let formula = match first.map(|backend| &*backend.scoring) {
            Some("adaptive") => adaptive,
            _ => seed,
        };
        text += &picks(explanation, namespace, formula);
    }
    text
}

fn decision(backend: &BackendStanding) -> String {
    let by_score = match backend.method.as_deref() {
        Some("rejected") => "nobody is active: the better of two ejected endpoints",
        Some(_) => "the better of two candidates",
        None => return "there is nobody to pick: 503".to_owned(),
    };
    match &backend.affinity {
        Some(source) => format!("by {source}; requests without that value: {by_score}"),
        None => by_score.to_owned(),
    }
}

fn endpoints(backend: &BackendStanding) -> String {
    let head = [
        "ENDPOINT", "STATE", "BUCKET", "WEIGHT", "HEALTH", "LATENCY", "PENDING", "SCORE", "CHANCE",
    ];
    let line = |one: &EndpointStanding| {
        [
            short_endpoint(&one.endpoint, &backend.namespace),
            state(one.state).to_owned(),
            one.bucket.to_string(),
            match one.terms.eased_percent {
                Some(percent) => format!("{} * {percent} %", one.weight),
                None => one.weight.to_string(),
            },
            format!("{:.2}", one.terms.health),
            latency(one.terms),
            one.terms.pending.to_string(),
            format!("{:.4}", one.terms.score),
            format!("{:.1} %", one.chance * 100.0),
        ]
    };
    let lines = backend.endpoints.iter().map(line);
    let lines: Vec<_> = std::iter::once(head.map(str::to_owned))
        .chain(lines)
        .collect();
    table::align(&lines)
}

/// How a score is spelled out.
type Formula = fn(Terms) -> String;

fn picks(explanation: &Explanation, namespace: &str, formula: Formula) -> String {
    let watched = explanation.watched_ms / 1e3;
    if explanation.picks.is_empty() {
        return format!("No request in {watched:.1} s.\n");
    }
    let head = ["AFTER", "PICKED", "WHY"].map(str::to_owned);
    let lines = explanation.picks.iter().map(|pick| {
        [
            format!("{:.1}ms", pick.after_ms),
            short_endpoint(&pick.winner, namespace),
            why(pick, namespace, formula),
        ]
    });
    let mut text = table::align(&std::iter::once(head).chain(lines).collect::<Vec<_>>());
    if explanation.missed > 0 {
        let _ = writeln!(text, "and {} more at the same moments", explanation.missed);
    }
    text
}

fn why(pick: &PickDump, namespace: &str, formula: Formula) -> String {
    if let Some(affinity) = pick.affinity {
        let mut why = match affinity.tried {
            0 => "affinity: the highest value".to_owned(),
            1 => "affinity: the highest value after one endpoint was tried".to_owned(),
            tried => format!("affinity: the highest value after {tried} endpoints were tried"),
        };
        if let Some(limit) = affinity.pending_limit {
            let _ = write!(why, ", {} pending of at most {limit:.1}", affinity.pending);
        }
        return why;
    }
    let among = match pick.method.as_str() {
        "rejected" => "nobody active, ",
        _ => "",
    };
    let [first, second] = &pick.draws[..] else {
        return pick.method.clone();
    };
    if first.endpoint == second.endpoint {
        return format!("{among}drawn twice: {}", formula(first.terms));
    }
    let (winner, other) = if pick.winner == first.endpoint {
        (first, second)
    } else {
        (second, first)
    };
    let beats = if winner.terms.score > other.terms.score {
        "beats"
    } else {
        "drawn second, equals"
    };
    format!(
        "{among}{} {beats} {}: {}{}",
        formula(winner.terms),
        short_endpoint(&other.endpoint, namespace),
        formula(other.terms),
        eased(&pick.draws, namespace)
    )
}

/// Who of those drawn is drawn less often for being new.
fn eased(draws: &[DrawDump], namespace: &str) -> String {
    let eased = draws.iter().filter_map(|draw| {
        let percent = draw.terms.eased_percent?;
        let endpoint = short_endpoint(&draw.endpoint, namespace);
        Some(format!(
            "; slow start: {endpoint} has {percent} % of its draws"
        ))
    });
    eased.collect()
}

fn adaptive(terms: Terms) -> String {
    format!(
        "{:.2}² / ({} * ({} + 1)) = {:.1}",
        terms.health,
        latency(terms),
        terms.pending,
        terms.score
    )
}

fn seed(terms: Terms) -> String {
    format!(
        "{:.2} / (1 + {} * (1 + 0.1 * {})) = {:.4}",
        terms.health,
        latency(terms),
        terms.pending,
        terms.score
    )
}

fn latency(terms: Terms) -> String {
    format!("{:.2}ms", terms.latency_ms.unwrap_or(0.0))
}

fn state(state: StateName) -> &'static str {
    match state {
        StateName::Candidate => "candidate",
        StateName::Waiting => "waiting",
        StateName::Ejected => "ejected",
        StateName::FailingChecks => "failing checks",
        StateName::Drained => "drained",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::BackendKind;
    use crate::runtime::admin::explain::AffinityDump;

    fn terms(health: f64, latency_ms: f64, pending: u64, score: f64) -> Terms {
        Terms {
            health,
            latency_ms: Some(latency_ms),
            pending,
            score,
            eased_percent: None,
        }
    }

    fn draw(endpoint: &str, terms: Terms) -> DrawDump {
        DrawDump {
            endpoint: endpoint.to_owned(),
            terms,
        }
    }

    fn pick(winner: &str, draws: Vec<DrawDump>) -> PickDump {
        PickDump {
            after_ms: 1.5,
            winner: winner.to_owned(),
            method: "p2c".to_owned(),
            draws,
            affinity: None,
        }
    }

    #[test]
    fn a_pick_is_explained_by_both_scores() {
        let fast = draw("//Pod/shop/a", terms(1.0, 5.0, 1, 0.9945));
        let slow = draw("//Pod/shop/b", terms(0.7, 60.0, 4, 0.6458));
        let why_of = |pick: &PickDump| why(pick, "shop", seed);
        assert_eq!(
            why_of(&pick("//Pod/shop/a", vec![fast.clone(), slow.clone()])),
            "1.00 / (1 + 5.00ms * (1 + 0.1 * 1)) = 0.9945 beats b: 0.70 / (1 + 60.00ms * (1 + 0.1 * 4)) = 0.6458"
        );
        assert_eq!(
            why_of(&pick("//Pod/shop/b", vec![slow.clone(), slow])),
            "drawn twice: 0.70 / (1 + 60.00ms * (1 + 0.1 * 4)) = 0.6458"
        );
        let mut new = draw("b", terms(1.0, 0.0, 0, 1.0));
        new.terms.eased_percent = Some(10);
        assert_eq!(
            why_of(&pick("b", vec![fast.clone(), new])),
            "1.00 / (1 + 0.00ms * (1 + 0.1 * 0)) = 1.0000 beats a: 1.00 / (1 + 5.00ms * (1 + 0.1 * 1)) = 0.9945; \
             slow start: b has 10 % of its draws"
        );
        let pair = ["a", "b"].map(|name| draw(name, terms(0.5, 5.0, 1, 25.0)));
        assert_eq!(
            why(&pick("b", pair.to_vec()), "shop", adaptive),
            "0.50² / (5.00ms * (1 + 1)) = 25.0 drawn second, equals a: 0.50² / (5.00ms * (1 + 1)) = 25.0"
        );
        let bound = PickDump {
            method: "affinity".to_owned(),
            affinity: Some(AffinityDump {
                tried: 1,
                pending: 2,
                pending_limit: Some(2.5),
            }),
            ..pick("//Pod/shop/a", vec![])
        };
        assert_eq!(
            why_of(&bound),
            "affinity: the highest value after one endpoint was tried, 2 pending of at most 2.5"
        );
    }

    #[test]
    fn the_text_names_the_backend_its_endpoints_and_the_picks() {
        let explanation = Explanation {
            backends: vec![BackendStanding {
                kind: BackendKind::Service,
                name: "front".to_owned(),
                namespace: "shop".to_owned(),
                affinity: None,
                method: Some("p2c".to_owned()),
                scoring: "seed".to_owned(),
                endpoints: vec![EndpointStanding {
                    endpoint: "//Pod/shop/a".to_owned(),
                    state: StateName::Candidate,
                    bucket: 0,
                    weight: 1,
                    terms: terms(1.0, 5.0, 1, 0.9945),
                    chance: 1.0,
                }],
            }],
            picks: vec![pick(
                "//Pod/shop/a",
                vec![draw("//Pod/shop/a", terms(1.0, 5.0, 1, 0.9945)); 2],
            )],
            watched_ms: 20.0,
            missed: 0,
        };
        assert_eq!(
            short(&explanation, 1),
            "\
Service shop/front: the better of two candidates
ENDPOINT  STATE      BUCKET  WEIGHT  HEALTH  LATENCY  PENDING  SCORE   CHANCE
a         candidate  0       1       1.00    5.00ms   1        0.9945  100.0 %

AFTER  PICKED  WHY
1.5ms  a       drawn twice: 1.00 / (1 + 5.00ms * (1 + 0.1 * 1)) = 0.9945
"
        );
    }
}

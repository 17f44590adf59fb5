//! `weir proxy config backends`: every endpoint with its health, requests and latency, as a table or as data.

use std::collections::HashSet;
use std::fs;
use std::io::{self, Read};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::table;
use crate::balance::{BackendKind, LatencySource};
use crate::runtime::admin::dump::{BackendDump, ConfigDump, EndpointDump};
use crate::runtime::admin::{FetchError, fetch_dump};
use crate::runtime::words;

/// Show endpoints: health, requests, latency
///
/// HEALTH is the moving average of outcomes, 0.00 to 1.00, or how long the endpoint stays ejected, `Evict (check)`
/// while it fails its active checks. REQUESTS counts the
/// requests sent to it. LATENCY is the moving average of the time to the first byte.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  weir proxy config backends
  weir proxy config backends --admin 10.0.0.5:15000 -o json --all
  curl -s 127.0.0.1:15000/config_dump | weir proxy config backends -f -")]
pub struct BackendsOptions {
    /// Admin address of the proxy to ask
    #[arg(
        long,
        value_name = "ADDR",
        env = "WEIR_ADMIN",
        default_value = "127.0.0.1:15000",
        value_parser = parse_admin
    )]
    admin: SocketAddr,

    /// Read a saved /config_dump instead of asking a proxy; - is the standard input
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// How to print
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,

    /// Show endpoints without requests too
    #[arg(long)]
    all: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// A table
    #[default]
    Short,
    Json,
    Yaml,
}

/// Why there is nothing to print.
#[derive(Debug, thiserror::Error)]
pub enum BackendsError {
    #[error(transparent)]
    Fetch(#[from] FetchError),
    #[error("{file}: {}", words::of(.source))]
    Read { file: String, source: io::Error },
    #[error("{file}:{line}:{column}: not a config dump: {problem}")]
    Malformed {
        file: String,
        line: usize,
        column: usize,
        problem: String,
    },
    #[error("cannot write the rows as YAML: {0}")]
    Yaml(#[from] serde_saphyr::ser::Error),
    #[error("cannot write the rows as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl BackendsOptions {
    /// What to print.
    pub fn render(&self) -> Result<String, BackendsError> {
        let (source, text) = self.read()?;
        let dump = parse_dump(&source, &text)?;
        let rows = rows(&dump, self.all);
        Ok(match self.output {
            Output::Short => short(&rows),
            Output::Json => serde_json::to_string_pretty(&rows)? + "\n",
            Output::Yaml => serde_saphyr::to_string(&rows)?,
        })
    }

    /// The dump, and where it came from.
    fn read(&self) -> Result<(String, String), BackendsError> {
        let Some(file) = &self.file else {
            return Ok((
                format!("http://{}/config_dump", self.admin),
                fetch_dump(self.admin)?,
            ));
        };
        let (name, text) = if file == Path::new("-") {
            let mut text = String::new();
            let read = io::stdin().read_to_string(&mut text);
            ("standard input".to_owned(), read.map(|_| text))
        } else {
            (file.display().to_string(), fs::read_to_string(file))
        };
        match text {
            Ok(text) => Ok((name, text)),
            Err(source) => Err(BackendsError::Read { file: name, source }),
        }
    }
}

/// One endpoint: first the strings the table shows, then the numbers behind them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    #[serde(rename = "type")]
    kind: BackendKind,
    name: String,
    namespace: String,
    endpoint: String,
    health: String,
    requests: u64,
    latency: String,
    health_score: f64,
    latency_ms: Option<f64>,
    latency_source: Option<LatencySource>,
    pending: u64,
    weight: u16,
    bucket: u8,
    ejected: bool,
    ejected_for_ms: Option<f64>,
    check_failing: bool,
}

pub(super) fn parse_dump(file: &str, text: &str) -> Result<ConfigDump, BackendsError> {
    serde_json::from_str(text).map_err(|error| {
        let problem = error.to_string();
        // The place is in front already.
        let problem = problem.split(" at line ").next().unwrap_or(&problem);
        BackendsError::Malformed {
            file: file.to_owned(),
            line: error.line(),
            column: error.column(),
            problem: problem.to_owned(),
        }
    })
}

fn rows(dump: &ConfigDump, all: bool) -> Vec<Row> {
    // A backend that routes treat differently is dumped for each way; its endpoints are the same.
    let mut seen = HashSet::new();
    let mut rows = Vec::new();
    for backend in &dump.backends {
        for endpoint in &backend.endpoints {
            let row = Row::of(backend, endpoint);
            let of = (row.kind, &backend.namespace, &backend.name);
            let is_new = seen.insert((of, &endpoint.endpoint, endpoint.address));
            if is_new && (all || row.requests > 0) {
                rows.push(row);
            }
        }
    }
    rows.sort_by(|one, other| one.order().cmp(&other.order()));
    rows
}

fn short(rows: &[Row]) -> String {
    let heads = [
        "TYPE",
        "NAME",
        "NAMESPACE",
        "ENDPOINT",
        "HEALTH",
        "REQUESTS",
        "LATENCY",
    ];
    let lines: Vec<[String; 7]> = std::iter::once(heads.map(str::to_owned))
        .chain(rows.iter().map(Row::cells))
        .collect();
    table::align(&lines)
}

impl Row {
    fn of(backend: &BackendDump, endpoint: &EndpointDump) -> Self {
        Self {
            kind: backend.kind,
            name: backend.name.clone(),
            namespace: backend.namespace.clone(),
            endpoint: short_endpoint(&endpoint.endpoint, &backend.namespace),
            health: health(endpoint),
            requests: endpoint.attempts.started,
            latency: latency(endpoint),
            health_score: endpoint.health_score,
            latency_ms: endpoint.latency_ms,
            latency_source: endpoint.latency_source,
            pending: endpoint.pending,
            weight: endpoint.weight,
            bucket: endpoint.bucket,
            ejected: endpoint.ejected,
            ejected_for_ms: endpoint.ejected_for_ms,
            check_failing: endpoint.check_failing,
        }
    }

    fn order(&self) -> (BackendKind, &str, &str, &str) {
        (self.kind, &self.namespace, &self.name, &self.endpoint)
    }

    fn cells(&self) -> [String; 7] {
        [
            self.kind.to_string(),
            self.name.clone(),
            self.namespace.clone(),
            self.endpoint.clone(),
            self.health.clone(),
            self.requests.to_string(),
            self.latency.clone(),
        ]
    }
}

/// `//Pod/<namespace>/<name>` without what the row says already.
pub(super) fn short_endpoint(key: &str, namespace: &str) -> String {
    let Some(pod) = key.strip_prefix("//Pod/") else {
        return key.to_owned();
    };
    match pod.split_once('/') {
        Some((of, name)) if of == namespace => name.to_owned(),
        _ => pod.to_owned(),
    }
}

fn health(endpoint: &EndpointDump) -> String {
    if endpoint.check_failing {
        "Evict (check)".to_owned()
    } else if endpoint.ejected {
        let seconds = endpoint.ejected_for_ms.unwrap_or(0.0) / 1e3;
        format!("Evict ({seconds:.1}s)")
    } else {
        format!("{:.2}", endpoint.health_score)
    }
}

fn latency(endpoint: &EndpointDump) -> String {
    if endpoint.attempts.started == 0 {
        return String::new();
    }
    format!("{:.2}ms", endpoint.latency_ms.unwrap_or(0.0))
}

pub(super) fn parse_admin(text: &str) -> Result<SocketAddr, String> {
    // The variable that switches it off for `weir run` is read here too.
    if text == "off" {
        return Err(
            "the admin address is switched off; give the one of a proxy that has it on".into(),
        );
    }
    text.parse()
        .map_err(|_| "not an address; write one like 127.0.0.1:15000".into())
}

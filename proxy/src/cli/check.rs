//! `weir check`: everything that is wrong with a configuration, and what holds where it says nothing.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use super::locality::LocalityArguments;
use super::plan::count;
use super::table;
use crate::affinity::Affinity;
use crate::balance::{HealthPolicy, Percent};
use crate::config;
use crate::exchange::Settings;
use crate::runtime::config_files::{self, FilesError};
use crate::snapshot::{BackendPlan, Plan};

/// Check a configuration: print every problem with file, line, column, key and remedy
///
/// Ends with status 1 if there are errors. Without any it prints what would be served, and the defaults in effect.
#[derive(Clone, Debug, Args)]
pub struct CheckOptions {
    /// File, or directory of .yaml, .yml and .json files
    #[arg(long, value_name = "FILE|DIR", env = "WEIR_CONFIG")]
    config: PathBuf,

    #[command(flatten)]
    locality: LocalityArguments,
}

/// What a check has to say.
pub struct Report {
    /// One a line.
    pub problems: String,
    /// What would be served; `None` if nothing would.
    pub summary: Option<String>,
}

impl CheckOptions {
    pub fn report(&self) -> Result<Report, FilesError> {
        let sources = config_files::load(&self.config)?;
        let checked = config::check(&sources, self.locality.known().as_ref());
        let mut problems = String::new();
        for problem in &checked.problems {
            // Writing to a String cannot fail.
            let _ = writeln!(problems, "{problem}");
        }
        let counted = count(&checked.problems);
        if checked.plan.is_none() {
            problems += &format!("{counted}\n");
        }
        let summary = checked.plan.map(|plan| {
            let resources = checked.resources;
            let mut text = format!("{resources} resources: {counted}\n\n");
            text += &listeners(&plan);
            text.push('\n');
            text += &backends(&plan);
            text.push('\n');
            text += &defaults();
            text
        });
        Ok(Report { problems, summary })
    }
}

fn listeners(plan: &Plan) -> String {
    let head = ["LISTENER", "RULES", "BACKENDS"].map(str::to_owned);
    let lines = plan.listeners.iter().map(|listener| {
        let places = listener.rules.backends();
        let names: Vec<String> = places
            .iter()
            .filter_map(|place| plan.backends.get(*place))
            .map(|backend| format!("{}/{}", backend.namespace, backend.name))
            .collect();
        [
            listener.address.to_string(),
            listener.rules.iter().count().to_string(),
            names.join(","),
        ]
    });
    table::align(&std::iter::once(head).chain(lines).collect::<Vec<_>>())
}

fn backends(plan: &Plan) -> String {
    let head = [
        "TYPE",
        "BACKEND",
        "ENDPOINTS",
        "EJECTION",
        "AFFINITY",
        "CHECK",
    ]
    .map(str::to_owned);
    let lines = plan.backends.iter().map(|backend| {
        [
            backend.kind.to_string(),
            format!("{}/{}", backend.namespace, backend.name),
            backend.targets.len().to_string(),
            ejection(&backend.policy.balance.health),
            affinity(backend),
            check(backend),
        ]
    });
    table::align(&std::iter::once(head).chain(lines).collect::<Vec<_>>())
}

/// What binds the requests of a backend.
fn affinity(backend: &BackendPlan) -> String {
    let source = backend
        .policy
        .affinity
        .as_ref()
        .map_or("none", Affinity::source);
    // An expression may have several lines, a row of a table has one.
    source.replace(['\n', '\r', '\t'], " ")
}

/// How its endpoints are checked.
fn check(backend: &BackendPlan) -> String {
    let check = backend.policy.check.as_ref();
    check.map_or_else(|| "none".to_owned(), ToString::to_string)
}

/// A health policy in words.
fn ejection(policy: &HealthPolicy) -> String {
    let Some(eviction) = policy.eviction else {
        return "never".to_owned();
    };
    let percent = |percent: Percent| format!("{:.0} %", percent.fraction() * 100.0);
    let mut triggers = Vec::new();
    match eviction.consecutive_failures {
        Some(0) | None => {}
        Some(1) => triggers.push("1 failure".to_owned()),
        Some(failures) => triggers.push(format!("{failures} failures in a row")),
    }
    if let Some(threshold) = eviction.health_threshold {
        triggers.push(format!("health below {}", percent(threshold)));
    }
    if triggers.is_empty() {
        match eviction.consecutive_failures {
            Some(_) => return "never".to_owned(),
            None => triggers.push("1 failure".to_owned()),
        }
    }
    let length = eviction
        .duration
        .map_or_else(|| "3s".to_owned(), |length| format!("{length:?}"));
    let restored = eviction
        .restore_health
        .map(|health| format!(", back with health {}", percent(health)));
    format!(
        "{} for {length}, longer each time{}",
        triggers.join(" or "),
        restored.unwrap_or_default()
    )
}

/// What holds where neither documents nor flags say anything.
fn defaults() -> String {
    let settings = Settings::default();
    let length = |length: std::time::Duration| format!("{length:?}");
    let lines = [
        ["DEFAULT", "VALUE", "SET BY"].map(str::to_owned),
        line(
            "connect to an endpoint",
            length(settings.connect),
            "--connect-timeout",
        ),
        line(
            "first byte of a response",
            length(settings.first_byte),
            "--first-byte-timeout",
        ),
        line("head of a request", length(settings.head), "--head-timeout"),
        line(
            "between requests of a client",
            length(settings.idle),
            "--idle-timeout",
        ),
        line("progress of a body", length(settings.stall), ""),
        line(
            "idle connection to an endpoint",
            length(settings.upstream_idle),
            "",
        ),
        line("size of a head", format!("{} B", settings.limits.head), ""),
        line(
            "ejection",
            ejection(&HealthPolicy::default()),
            "backend.health of a policy",
        ),
        line("address of a Gateway", "0.0.0.0", "spec.addresses"),
        line("weight of a backendRef", "1", "weight"),
        line(
            "weight of an endpoint",
            "1",
            "annotation weir.dev/weight of its EndpointSlice",
        ),
    ];
    table::align(&lines)
}

fn line(what: &str, value: impl Into<String>, set_by: &str) -> [String; 3] {
    [what.to_owned(), value.into(), set_by.to_owned()]
}

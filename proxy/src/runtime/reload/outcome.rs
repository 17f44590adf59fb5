//! What came of a reload: a line for the log, lines for whoever asked, or data.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use thiserror::Error;

use super::{ConfigError, Refusal, count};
use crate::balance::TablesFull;
use crate::config::{Problem, Severity};
use crate::metrics::ReloadResult;
use crate::snapshot::Changes;

/// What came of a reload.
#[derive(Debug)]
pub struct Outcome {
    /// Of what is served now.
    pub revision: u64,
    pub result: Result<Changes, Refused>,
}

/// Why what is served stays as it is.
#[derive(Debug, Error)]
pub enum Refused {
    #[error(
        "there is nothing to reload: this proxy is configured by flags; `weir run .. --print-config` makes a file of them, for --config"
    )]
    QuickMode,
    #[error("{0}")]
    Config(ConfigError),
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: SocketAddr, reason: String },
    #[error("the kernel does not take the deny list: {0}")]
    NotDenied(io::Error),
    #[error(transparent)]
    TablesFull(#[from] TablesFull),
    #[error("{0}")]
    System(String),
}

impl Refused {
    /// Everything that is wrong, where documents are.
    fn problems(&self) -> &[Problem] {
        match self {
            Self::Config(ConfigError::Refused(Refusal(problems))) => problems,
            _ => &[],
        }
    }
}

impl Outcome {
    pub fn kind(&self) -> ReloadResult {
        match &self.result {
            Ok(changes) if changes.is_empty() => ReloadResult::Unchanged,
            Ok(_) => ReloadResult::Applied,
            Err(_) => ReloadResult::Refused,
        }
    }

    pub fn is_quick_mode(&self) -> bool {
        matches!(self.result, Err(Refused::QuickMode))
    }

    /// Everything that keeps the configuration from being served, a line each.
    pub fn refusal(&self) -> Option<Arc<[String]>> {
        let refused = self.result.as_ref().err()?;
        Some(match refused.problems() {
            [] => Arc::from([refused.to_string()]),
            problems => problems.iter().map(Problem::to_string).collect(),
        })
    }

    /// Logs every problem by itself, and the outcome in one line.
    pub fn log(&self, is_asked_for: bool) {
        let Self { revision, result } = self;
        match result {
            Ok(changes) if !changes.is_empty() => {
                tracing::info!("reloaded: {changes}; revision {revision} is served")
            }
            // Files are touched for many reasons.
            Ok(_) if !is_asked_for => tracing::debug!("nothing changed"),
            Ok(_) => tracing::info!("reloaded: nothing changed; revision {revision} is served"),
            Err(refused) => {
                for problem in refused.problems() {
                    match problem.severity {
                        Severity::Error => tracing::error!("{problem}"),
                        Severity::Warning => tracing::warn!("{problem}"),
                    }
                }
                let reason = match refused.problems() {
                    [] => refused.to_string(),
                    problems => count(problems),
                };
                tracing::error!("reload refused: {reason}; revision {revision} is still served");
            }
        }
    }

    /// The same as data.
    pub fn to_json(&self) -> impl Serialize {
        Json {
            result: self.kind().name(),
            revision: self.revision,
            changes: self.result.as_ref().ok().map(ToString::to_string),
            error: match &self.result {
                Err(refused) if refused.problems().is_empty() => Some(refused.to_string()),
                _ => None,
            },
            problems: match &self.result {
                Ok(_) => Vec::new(),
                Err(refused) => refused.problems().iter().map(JsonProblem::of).collect(),
            },
        }
    }
}

/// As `weir check` says it.
impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let revision = self.revision;
        match &self.result {
            Ok(changes) if changes.is_empty() => {
                writeln!(out, "nothing changed; revision {revision} is served")
            }
            Ok(changes) => writeln!(out, "{changes}; revision {revision} is served"),
            Err(refused) => {
                for problem in refused.problems() {
                    writeln!(out, "{problem}")?;
                }
                match refused.problems() {
                    [] => writeln!(out, "{refused}")?,
                    problems => writeln!(out, "{}", count(problems))?,
                }
                writeln!(out, "revision {revision} is still served")
            }
        }
    }
}

#[derive(Serialize)]
struct Json {
    result: &'static str,
    revision: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    changes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<JsonProblem>,
}

#[derive(Serialize)]
struct JsonProblem {
    severity: &'static str,
    file: String,
    line: u64,
    column: u64,
    key: String,
    message: String,
}

impl JsonProblem {
    fn of(problem: &Problem) -> Self {
        Self {
            severity: problem.severity.name(),
            file: problem.file.clone(),
            line: problem.position.line,
            column: problem.position.column,
            key: problem.key.clone(),
            message: problem.message.clone(),
        }
    }
}

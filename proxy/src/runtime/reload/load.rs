//! From a configuration on disk to what is to be served.

use std::fmt;
use std::path::Path;

use thiserror::Error;

use super::conflicts::{self, Conflict};
use crate::balance::Locality;
use crate::config::{self, Checked, Problem, Severity};
use crate::runtime::admin::AdminAddresses;
use crate::runtime::config_files::{self, FilesError};
use crate::snapshot::Plan;

/// Why there is nothing to serve.
#[derive(Debug, Error)]
pub enum ConfigError {
    #[error("--config {0}")]
    Files(#[from] FilesError),
    #[error("--deny-file {0}")]
    DenyFile(#[source] FilesError),
    #[error("{0}")]
    Refused(Refusal),
    #[error(transparent)]
    Conflict(#[from] Conflict),
}

/// All that is wrong with a configuration.
#[derive(Debug)]
pub struct Refusal(pub Vec<Problem>);

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "the configuration is refused")?;
        for problem in &self.0 {
            writeln!(out, "{problem}")?;
        }
        out.write_str(&count(&self.0))
    }
}

/// What a proxy is told beside its files, and what they must be right for.
#[derive(Clone, Copy, Debug)]
pub struct Standpoint<'a> {
    /// Where it stands, as far as it knows.
    pub locality: Option<&'a Locality>,
    pub admin: &'a AdminAddresses,
}

/// Loads and checks files for a proxy that stands there.
pub fn load(path: &Path, standpoint: Standpoint<'_>) -> Result<Checked, FilesError> {
    let sources = config_files::load(path)?;
    let in_the_way = |plan: &Plan| {
        let conflicts = conflicts::check(plan, standpoint.admin).into_iter();
        let told = |one: Conflict| Some((one.listener()?, one.to_string()));
        conflicts.filter_map(told).collect()
    };
    let own = standpoint.locality;
    Ok(config::check_with(&sources, own, in_the_way))
}

/// What `--config` names; warnings are handed to `warn`.
pub fn load_plan(
    path: &Path,
    standpoint: Standpoint<'_>,
    warn: impl Fn(&Problem),
) -> Result<Plan, ConfigError> {
    let checked = load(path, standpoint)?;
    let Some(plan) = checked.plan else {
        return Err(ConfigError::Refused(Refusal(checked.problems)));
    };
    checked.problems.iter().for_each(warn);
    if !checked.ignored.is_empty() {
        let documents = checked.ignored.len();
        tracing::info!("{documents} documents are not about traffic; `weir check` lists them");
    }
    Ok(plan)
}

/// Both, or all that is wrong with either.
pub fn both<A, B>(
    one: Result<A, ConfigError>,
    other: Result<B, ConfigError>,
) -> Result<(A, B), ConfigError> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok((one, other)),
        (Err(ConfigError::Refused(mut one)), Err(ConfigError::Refused(other))) => {
            one.0.extend(other.0);
            Err(ConfigError::Refused(one))
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

/// How many errors and warnings these are, in words.
pub fn count(problems: &[Problem]) -> String {
    let of = |severity| {
        let those = problems.iter().filter(|one| one.severity == severity);
        those.count()
    };
    let words = |number: usize, one: &str| match number {
        1 => format!("1 {one}"),
        _ => format!("{number} {one}s"),
    };
    format!(
        "{}, {}",
        words(of(Severity::Error), "error"),
        words(of(Severity::Warning), "warning")
    )
}

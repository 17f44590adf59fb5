//! From a configuration on disk to what is to be served.

use std::fmt;
use std::path::Path;

use thiserror::Error;

use super::conflicts::{self, Conflict};
use crate::balance::Locality;
use crate::config::{self, Checked, Objection, Problem, Severity};
use crate::runtime::admin::AdminAddresses;
use crate::runtime::config_files::{self, FilesError};
use crate::runtime::l4::L4Mode;
use crate::snapshot::{Plan, Transport};

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
    /// Who is to serve TCP and UDP.
    pub l4: L4Mode,
}

/// Loads and checks files for a proxy that stands there.
pub fn load(path: &Path, standpoint: Standpoint<'_>) -> Result<Checked, FilesError> {
    let sources = config_files::load(path)?;
    let objections = |plan: &Plan| {
        let conflicts = conflicts::check(plan, standpoint.admin).into_iter();
        let conflicts = conflicts.filter_map(|one| {
            Some(Objection {
                listener: one.listener()?,
                severity: Severity::Error,
                message: one.to_string(),
            })
        });
        conflicts.chain(unserved(plan, standpoint.l4)).collect()
    };
    let own = standpoint.locality;
    Ok(config::check_with(&sources, own, objections))
}

/// Listeners whose clients nobody serves.
fn unserved(plan: &Plan, mode: L4Mode) -> impl Iterator<Item = Objection> {
    let addresses = conflicts::unserved(plan).filter(move |_| mode != L4Mode::Xdp);
    addresses.map(|address| Objection {
        listener: (Transport::Udp, address),
        severity: Severity::Warning,
        message: "is served by nobody: it takes kernel programs, which `--l4 xdp` lets serve"
            .to_owned(),
    })
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
        tracing::info!(
            "{documents} documents are of kinds Weir does not read; `weir check` lists them"
        );
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

#[cfg(test)]
mod tests {
    use super::*;

    const DNS: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: dns}
spec: {listeners: [{name: dns, port: 53, protocol: UDP}]}
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: UDPRoute
metadata: {name: dns}
spec: {parentRefs: [{name: dns}], rules: [{backendRefs: [{name: dns, port: 53}]}]}
---
apiVersion: v1
kind: Service
metadata: {name: dns}
spec: {ports: [{port: 53, protocol: UDP}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: dns-1, labels: {kubernetes.io/service-name: dns}}
addressType: IPv4
ports: [{port: 53, protocol: UDP}]
endpoints: [{addresses: [10.0.0.1]}]
";

    #[test]
    fn datagrams_nobody_serves_are_warned_of_at_their_listener_unless_the_kernel_serves_them() {
        let path = std::env::temp_dir().join(format!("weir-load-{}.yaml", std::process::id()));
        std::fs::write(&path, DNS).expect("a writable directory");
        let warnings = [L4Mode::Auto, L4Mode::Proxy, L4Mode::Xdp].map(|l4| {
            let standpoint = Standpoint {
                locality: None,
                admin: &AdminAddresses {
                    admin: None,
                    metrics: None,
                    readiness: None,
                },
                l4,
            };
            let checked = load(&path, standpoint).expect("a readable file");
            assert!(checked.plan.is_some());
            let places = checked.problems.iter().map(|one| one.position.line);
            places.collect::<Vec<_>>()
        });
        let _ = std::fs::remove_file(&path);
        assert_eq!(warnings, [vec![4], vec![4], vec![]]);
    }
}

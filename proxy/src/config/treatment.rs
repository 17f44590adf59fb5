//! How a backend is treated, as far as documents say. It has parts; a part is taken whole from the most specific document
//! that has it. A new part is a field, and a line in each of the three functions here.

use std::sync::Arc;

use super::health::Health;
use super::reader::{Cursor, Object};
use crate::affinity::Affinity;
use crate::balance::{BoundedLoad, LatencySpan, Percent, Policy, Scoring, SlowStart};
use crate::check::ActiveCheck;
use crate::proxy_protocol::Version;
use crate::route::{Retry, RetryBudget, Timeouts};
use crate::snapshot::{BackendPolicy, PartOrigin};

/// The parts one document has, or several together.
#[derive(Clone, Debug, Default)]
pub struct Treatment {
    pub health: Part<Health>,
    pub affinity: Part<Affinity>,
    pub scoring: Part<Scoring>,
    pub bounded_load: Part<BoundedLoad>,
    pub max_ejected: Part<Percent>,
    pub slow_start: Part<SlowStart>,
    pub active_check: Part<ActiveCheck>,
    pub retry_budget: Part<RetryBudget>,
    pub latency: Part<LatencySpan>,
    /// The PROXY header its endpoints are sent.
    pub sends_header: Part<Version>,
    /// Of the requests on their way to it.
    pub retry: Part<Retry>,
    /// Of these requests, too.
    pub timeouts: Part<Timeouts>,
    /// Whether connections begin with a PROXY header, on listeners.
    pub reads_header: Part<bool>,
}

/// Parts that belong to rules, and to backends not at all.
const OF_RULES: [&str; 3] = [RETRY, TIMEOUTS, READS_HEADER];
const RETRY: &str = "retry";
const TIMEOUTS: &str = "timeouts";
const READS_HEADER: &str = "acceptProxyProtocol";

/// What a document says of one thing, if it does.
pub type Part<T> = Option<Said<T>>;

/// A value, and the document it is from.
#[derive(Clone, Debug)]
pub struct Said<T> {
    pub value: T,
    /// Kind, name and place.
    pub by: Arc<str>,
}

impl Treatment {
    /// With the parts it lacks from a less specific one.
    pub fn or(self, other: &Self) -> Self {
        Self {
            health: self.health.or_else(|| other.health.clone()),
            affinity: self.affinity.or_else(|| other.affinity.clone()),
            scoring: self.scoring.or_else(|| other.scoring.clone()),
            bounded_load: self.bounded_load.or_else(|| other.bounded_load.clone()),
            max_ejected: self.max_ejected.or_else(|| other.max_ejected.clone()),
            slow_start: self.slow_start.or_else(|| other.slow_start.clone()),
            active_check: self.active_check.or_else(|| other.active_check.clone()),
            retry_budget: self.retry_budget.or_else(|| other.retry_budget.clone()),
            latency: self.latency.or_else(|| other.latency.clone()),
            sends_header: self.sends_header.or_else(|| other.sends_header.clone()),
            reads_header: self.reads_header.or_else(|| other.reads_header.clone()),
            retry: self.retry.or_else(|| other.retry.clone()),
            timeouts: self.timeouts.or_else(|| other.timeouts.clone()),
        }
    }

    /// The parts it has, as documents call them, each with the document it is from.
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &Arc<str>)> {
        let parts = [
            ("health", by(&self.health)),
            ("sessionAffinity", by(&self.affinity)),
            ("scoring", by(&self.scoring)),
            ("boundedLoad", by(&self.bounded_load)),
            ("maxEjectedPercent", by(&self.max_ejected)),
            ("slowStart", by(&self.slow_start)),
            ("activeCheck", by(&self.active_check)),
            ("retryBudget", by(&self.retry_budget)),
            ("latency", by(&self.latency)),
            ("sendProxyProtocol", by(&self.sends_header)),
            (READS_HEADER, by(&self.reads_header)),
            (RETRY, by(&self.retry)),
            (TIMEOUTS, by(&self.timeouts)),
        ];
        parts.into_iter().filter_map(|(name, by)| Some((name, by?)))
    }

    /// What holds, with the defaults for what nobody says.
    pub fn policy(&self) -> BackendPolicy {
        let health = value(&self.health).unwrap_or_default();
        BackendPolicy {
            balance: Policy {
                scoring: value(&self.scoring).unwrap_or_default(),
                health: health.policy,
                bounded_load: value(&self.bounded_load),
                max_ejected: value(&self.max_ejected),
                slow_start: value(&self.slow_start),
            },
            affinity: value(&self.affinity),
            condition: health.condition,
            latency: value(&self.latency).unwrap_or_default(),
            sends_header: value(&self.sends_header),
            retry_budget: value(&self.retry_budget).unwrap_or_default(),
            origins: self
                .parts()
                .filter(|(part, _)| !OF_RULES.contains(part))
                .map(|(part, by)| PartOrigin {
                    part,
                    document: Arc::clone(by),
                })
                .collect(),
            check: value(&self.active_check),
        }
    }
}

fn by<T>(part: &Part<T>) -> Option<&Arc<str>> {
    part.as_ref().map(|said| &said.by)
}

fn value<T: Clone>(part: &Part<T>) -> Option<T> {
    part.as_ref().map(|said| said.value.clone())
}

/// Reads the part under a key. What is wrong with it was reported, and it is left out.
pub fn part<'a, T>(
    object: &mut Object<'a>,
    key: &'static str,
    read: impl FnOnce(&Cursor<'a>) -> Option<T>,
) -> Part<T> {
    let at = object.optional(key)?;
    Some(Said {
        value: read(&at)?,
        by: format!("{} ({})", at.context.resource, at.place()).into(),
    })
}

//! How each backend is treated, by whose word, and its endpoints.

use std::fmt::Write;

use super::{Extent, shortened};
use crate::affinity::Affinity;
use crate::balance::{HealthPolicy, LatencySpan, Percent, Scoring};
use crate::cli::table;
use crate::condition::Condition;
use crate::route::RetryBudget;
use crate::snapshot::{BackendPlan, BackendPolicy, Plan, Target};

/// Endpoints of a backend that are shown if not all are.
const FIRST: usize = 16;
/// Characters of an expression that are shown.
const EXPRESSION: usize = 60;

pub fn text(plan: &Plan, labels: &[String], extent: Extent) -> String {
    let mut text = String::new();
    for (backend, label) in plan.backends.iter().zip(labels) {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "BACKEND {label}, {}", backend.kind);
        text += &policy(&backend.policy);
        text += &endpoints(backend, extent);
    }
    text
}

/// One line for each part that is asked for, and another one that says whose word it is.
fn policy(policy: &BackendPolicy) -> String {
    let ejection = Some(ejection(&policy.balance.health));
    let affinity = policy.affinity.as_ref().map(Affinity::source);
    let affinity = affinity.map(|source| shortened(source, EXPRESSION));
    let scoring = policy.balance.scoring;
    let scoring = (scoring != Scoring::default()).then(|| scoring.to_string());
    let bounded = policy.balance.bounded_load;
    let bounded = bounded.map(|factor| format!("{} times the average", factor.factor()));
    let max_ejected = policy.balance.max_ejected;
    let max_ejected = max_ejected.map(|limit| format!("{} % of the endpoints", limit.value()));
    let slow_start = policy.balance.slow_start;
    let slow_start = slow_start.map(|slow_start| format!("over {:?}", slow_start.duration()));
    let check = policy.check.as_ref().map(ToString::to_string);
    let budget =
        (policy.retry_budget != RetryBudget::default()).then(|| retry_budget(policy.retry_budget));
    let condition = policy.condition.as_ref().map(Condition::source);
    let condition = condition.map(|source| shortened(source, EXPRESSION));
    let latency = match policy.latency {
        LatencySpan::FirstByte => None,
        LatencySpan::Full => Some("of the whole attempt".to_owned()),
    };
    let lines = [
        ("health", "ejection", ejection),
        ("health", "unhealthy if", condition),
        ("latency", "latency", latency),
        ("sessionAffinity", "affinity", affinity),
        ("scoring", "scoring", scoring),
        ("boundedLoad", "bounded load", bounded),
        ("maxEjectedPercent", "ejected at most", max_ejected),
        ("slowStart", "slow start", slow_start),
        ("activeCheck", "check", check),
        ("retryBudget", "retries", budget),
    ];
    let mut text = String::new();
    for (part, what, value) in lines {
        let Some(value) = value else { continue };
        let _ = writeln!(text, "  {what}: {value}");
        if let Some(origin) = policy.origins.iter().find(|origin| origin.part == part) {
            let _ = writeln!(text, "    by {}", origin.document);
        }
    }
    text
}

fn endpoints(backend: &BackendPlan, extent: Extent) -> String {
    if backend.targets.is_empty() {
        return "  no endpoints: 503\n".to_owned();
    }
    let shown = match extent {
        Extent::Short => FIRST.min(backend.targets.len()),
        Extent::All => backend.targets.len(),
    };
    let head = ["  ENDPOINT", "WEIGHT", "BUCKET", "KEY"].map(str::to_owned);
    let lines = backend.targets[..shown].iter().map(endpoint);
    let mut text = table::align(&std::iter::once(head).chain(lines).collect::<Vec<_>>());
    if shown < backend.targets.len() {
        let more = backend.targets.len() - shown;
        let _ = writeln!(text, "  and {more} more; --all lists them");
    }
    text
}

fn endpoint(target: &Target) -> [String; 4] {
    let address = target.address.to_string();
    let key = match &*target.key {
        key if key == address => String::new(),
        key => key.to_owned(),
    };
    [
        format!("  {address}"),
        target.weight.to_string(),
        target.bucket.0.to_string(),
        key,
    ]
}

/// How many retries there may be of what had reached an endpoint.
pub fn retry_budget(budget: RetryBudget) -> String {
    let RetryBudget { percent, floor } = budget;
    format!("{percent} % of requests, and {floor} a second")
}

/// A health policy in words.
pub fn ejection(policy: &HealthPolicy) -> String {
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

//! WeirPolicy: what the other policies have no words for. A new key is read by a line in [`read_policy`], and no longer
//! among those that are not supported yet.

use super::document::Metadata;
use super::health::read_duration;
use super::reader::{Cursor, Object};
use super::resources::{Policy, PolicyTarget, PolicyTargetKind, Resources};
use super::treatment::part;
use super::{active_check, agentgateway, targets};
use crate::balance::{BoundedLoad, LatencySpan, Percent, Scoring, SlowStart};
use crate::proxy_protocol::Version;
use crate::route::RetryBudget;

pub fn read_policy<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let Some(mut spec) = object.required("spec").and_then(|spec| spec.object()) else {
        return;
    };
    let backend = spec.optional("backend");
    let binds = backend
        .as_ref()
        .is_some_and(agentgateway::asks_for_affinity);
    let targets = targets::read(&mut spec, &metadata.id.namespace, binds);
    let mut treatment = backend
        .map(|backend| agentgateway::read_treatment(&backend))
        .unwrap_or_default();
    treatment.scoring = part(&mut spec, "scoring", |at| {
        at.choice(&[("seed", Scoring::Seed), ("adaptive", Scoring::Adaptive)])
    });
    treatment.bounded_load = part(&mut spec, "boundedLoad", read_bounded_load);
    treatment.max_ejected = part(&mut spec, "maxEjectedPercent", |at| {
        at.whole(0..=100).and_then(Percent::new)
    });
    treatment.slow_start = part(&mut spec, "slowStart", read_slow_start);
    treatment.active_check = part(&mut spec, "activeCheck", active_check::read);
    treatment.retry_budget = part(&mut spec, "retryBudget", read_retry_budget);
    treatment.latency = part(&mut spec, "latency", |at| {
        at.choice(&[
            ("firstByte", LatencySpan::FirstByte),
            ("full", LatencySpan::Full),
        ])
    });
    treatment.sends_header = part(&mut spec, "sendProxyProtocol", |at| {
        at.choice(&[("v1", Version::V1), ("v2", Version::V2)])
    });
    treatment.reads_header = part(&mut spec, "acceptProxyProtocol", |at| {
        read_accept(at, &targets)
    });
    spec.unsupported(&["circuitBreaker", "hedge"]);
    spec.elsewhere(&["sessionAffinity", "health"], "backend");
    spec.finish();
    resources.policies.push(Policy { targets, treatment });
}

/// How many times the average an endpoint may carry of what is bound by affinity.
fn read_bounded_load(at: &Cursor<'_>) -> Option<BoundedLoad> {
    at.number(1.0).and_then(BoundedLoad::new)
}

/// Whether connections begin with a PROXY header: a matter of listeners.
fn read_accept(at: &Cursor<'_>, targets: &[PolicyTarget<'_>]) -> Option<bool> {
    let is_gateway = |target: &PolicyTarget<'_>| target.kind == PolicyTargetKind::Gateway;
    if !targets.iter().all(is_gateway) {
        at.error("is about listeners; target a Gateway, and perhaps a listener by `sectionName`");
        return None;
    }
    at.boolean()
}

/// How long new and returning endpoints are eased in.
fn read_slow_start(at: &Cursor<'_>) -> Option<SlowStart> {
    let mut object = at.object()?;
    let duration = object.required("duration");
    object.finish();
    let at = duration?;
    let slow_start = SlowStart::new(read_duration(&at)?);
    if slow_start.is_none() {
        at.error("is no time at all; leave slowStart out, or write a duration such as 30s");
    }
    slow_start
}

/// How many requests that had reached an endpoint may be tried again.
fn read_retry_budget(at: &Cursor<'_>) -> Option<RetryBudget> {
    let mut object = at.object()?;
    let percent = object.optional("percent");
    let floor = object.optional("floor");
    object.finish();
    let default = RetryBudget::default();
    let percent = percent.map_or(Some(default.percent), |percent| percent.whole(0..=100));
    let floor = floor.map_or(Some(default.floor), |floor| floor.whole(0..=255));
    Some(RetryBudget {
        percent: percent?,
        floor: floor?,
    })
}

//! AgentgatewayBackend with a static target, and the policies that say how backends are treated.

use std::net::{IpAddr, SocketAddr};

use super::document::{Metadata, checked_name};
use super::health;
use super::reader::{Cursor, Object};
use super::resources::{Id, Policy, PolicyTarget, PolicyTargetKind, Resources, StaticBackend};
use crate::balance::HealthPolicy;

/// As the API limits them.
const MAX_TARGETS: usize = 16;

pub fn read_backend<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let Some(at_spec) = object.required("spec") else {
        return;
    };
    let Some(mut spec) = at_spec.object() else {
        return;
    };
    const OTHERS: [&str; 4] = ["ai", "mcp", "dynamicForwardProxy", "aws"];
    spec.unsupported(&OTHERS);
    let has_other = OTHERS.iter().any(|key| spec.optional(key).is_some());
    let target = spec.optional("static");
    if target.is_none() && !has_other {
        at_spec.error("has no `static` part; add it with `host` and `port`");
    }
    let health = spec
        .optional("policies")
        .and_then(|policies| read_treatment(&policies));
    spec.finish();
    resources.backends.push(StaticBackend {
        id: metadata.id,
        address: target.and_then(|target| read_static(&target)),
        health,
    });
}

fn read_static(at: &Cursor<'_>) -> Option<SocketAddr> {
    let mut object = at.object()?;
    let host = object.required("host");
    let port = object.required("port").and_then(|port| port.port());
    object.unsupported(&["unixPath"]);
    object.finish();
    let host = host?;
    let text = host.text()?;
    let Ok(address) = text.parse::<IpAddr>() else {
        host.error(format!(
            "`{text}` is not an IP address, and host names are not supported yet; write the address"
        ));
        return None;
    };
    Some(SocketAddr::new(address, port?))
}

pub fn read_policy<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let Some(mut spec) = object.required("spec").and_then(|spec| spec.object()) else {
        return;
    };
    let at_targets = spec.required("targetRefs");
    let backend = spec.optional("backend");
    spec.unsupported(&[
        "targetSelectors",
        "frontend",
        "traffic",
        "scoring",
        "latency",
        "activeCheck",
        "slowStart",
        "circuitBreaker",
        "boundedLoad",
        "maxEjectedPercent",
        "retryBudget",
        "hedge",
    ]);
    spec.finish();
    let health = backend.and_then(|backend| read_treatment(&backend));
    let Some(at_targets) = at_targets else {
        return;
    };
    let items = at_targets.list();
    if !(1..=MAX_TARGETS).contains(&items.len()) {
        at_targets.error(format!(
            "has {} entries; write 1 to {MAX_TARGETS}",
            items.len()
        ));
    }
    let targets: Vec<PolicyTarget<'a>> = items
        .iter()
        .filter_map(|item| read_target(item, &metadata.id.namespace))
        .collect();
    if targets.windows(2).any(|pair| pair[0].kind != pair[1].kind) {
        at_targets.error("names resources of more than one kind; write a policy for each kind");
    }
    resources.policies.push(Policy {
        targets,
        health: health.map(|(_, health)| health),
    });
}

/// How a backend is treated: of it only `health` so far.
fn read_treatment<'a>(at: &Cursor<'a>) -> Option<(Cursor<'a>, HealthPolicy)> {
    let mut object = at.object()?;
    object.unsupported(&[
        "sessionAffinity",
        "tcp",
        "tls",
        "http",
        "tunnel",
        "transformation",
        "auth",
        "ai",
        "mcp",
        "extAuth",
    ]);
    let health = object.optional("health");
    object.finish();
    let health = health?;
    let policy = health::read(&health)?;
    Some((health, policy))
}

fn read_target<'a>(at: &Cursor<'a>, namespace: &str) -> Option<PolicyTarget<'a>> {
    let mut object = at.object()?;
    object.unsupported(&["sectionName"]);
    let group = match object.optional("group") {
        Some(group) => group.supported_choice(
            &[("", ""), ("agentgateway.dev", "agentgateway.dev")],
            &["gateway.networking.k8s.io"],
        )?,
        None => "",
    };
    let kind = object.required("kind").and_then(|kind| {
        kind.supported_choice(
            &[
                ("Service", PolicyTargetKind::Service),
                ("AgentgatewayBackend", PolicyTargetKind::Backend),
            ],
            &["Gateway", "HTTPRoute"],
        )
    });
    let name = object.required("name").and_then(|name| checked_name(&name));
    object.finish();
    let kind = kind?;
    let expected = match kind {
        PolicyTargetKind::Service => "",
        PolicyTargetKind::Backend => "agentgateway.dev",
    };
    if group != expected {
        at.error(match kind {
            PolicyTargetKind::Service => "the group of a Service is empty; write `group: \"\"`",
            PolicyTargetKind::Backend => {
                "an AgentgatewayBackend needs `group: agentgateway.dev`; add it"
            }
        });
        return None;
    }
    Some(PolicyTarget {
        cursor: at.clone(),
        kind,
        id: Id::new(namespace, name?),
    })
}

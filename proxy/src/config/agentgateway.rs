//! AgentgatewayBackend with a static target, and the policies that say how backends are treated.

use std::net::{IpAddr, SocketAddr};

use super::document::{Metadata, checked_name};
use super::health;
use super::reader::{Cursor, Object};
use super::resources::{
    Id, Policy, PolicyTarget, PolicyTargetKind, Resources, StaticBackend, Treatment,
};
use crate::affinity::Affinity;

/// As agentgateway puts it.
const PART_OF_BACKEND: &str = "backend.sessionAffinity must target the whole AgentgatewayBackend, not an individual AI provider";
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
    let policies = spec.optional("policies");
    let treatment = policies.map(|policies| read_treatment(&policies));
    spec.finish();
    resources.backends.push(StaticBackend {
        id: metadata.id,
        address: target.and_then(|target| read_static(&target)),
        treatment: treatment.unwrap_or_default(),
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
    let binds = backend.as_ref().is_some_and(asks_for_affinity);
    let treatment = backend.map(|backend| read_treatment(&backend));
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
        .filter_map(|item| read_target(item, &metadata.id.namespace, binds))
        .collect();
    if targets.windows(2).any(|pair| pair[0].kind != pair[1].kind) {
        at_targets.error("names resources of more than one kind; write a policy for each kind");
    }
    resources.policies.push(Policy {
        targets,
        treatment: treatment.unwrap_or_default(),
    });
}

/// How a backend is treated: of it only `health` and `sessionAffinity` so far.
fn read_treatment(at: &Cursor<'_>) -> Treatment {
    let Some(mut object) = at.object() else {
        return Treatment::default();
    };
    object.unsupported(&[
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
    let affinity = object.optional("sessionAffinity");
    object.finish();
    Treatment {
        health: health.and_then(|health| health::read(&health)),
        affinity: affinity.and_then(|affinity| read_affinity(&affinity)),
    }
}

fn read_affinity(at: &Cursor<'_>) -> Option<Affinity> {
    let mut object = at.object()?;
    let source = object.required("source");
    object.finish();
    let source = source?;
    match Affinity::compile(source.text()?) {
        Ok(affinity) => Some(affinity),
        Err(error) => {
            source.error(error.to_string());
            None
        }
    }
}

/// Looks ahead: it decides what a target may be.
fn asks_for_affinity(at: &Cursor<'_>) -> bool {
    at.keys().any(|key| key == "sessionAffinity")
}

fn read_target<'a>(at: &Cursor<'a>, namespace: &str, binds: bool) -> Option<PolicyTarget<'a>> {
    let mut object = at.object()?;
    let section = object.optional("sectionName");
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
    if let Some(section) = section {
        section.error(match kind {
            PolicyTargetKind::Backend if binds => PART_OF_BACKEND,
            _ => "is not supported yet; leave it out",
        });
    }
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

//! AgentgatewayBackend with a static target, and the policies that say how backends are treated.

use std::net::{IpAddr, SocketAddr};

use super::document::Metadata;
use super::reader::{Cursor, Object};
use super::resources::{Policy, PolicyTarget, PolicyTargetKind, Resources, StaticBackend};
use super::treatment::{Treatment, part};
use super::{health, targets, traffic};
use crate::affinity::Affinity;

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
    let backend = spec.optional("backend");
    let binds = backend.as_ref().is_some_and(asks_for_affinity);
    let targets = targets::read(&mut spec, &metadata.id.namespace, binds);
    let traffic = spec.optional("traffic");
    spec.unsupported(&["frontend"]);
    spec.finish();
    let treatment = backend.map(|backend| read_treatment(&backend));
    let mut treatment = treatment.unwrap_or_default();
    if let Some(traffic) = traffic {
        read_traffic(&traffic, &targets, &mut treatment);
    }
    resources.policies.push(Policy { targets, treatment });
}

/// How requests are treated on their way, which a backend has no say in.
fn read_traffic(at: &Cursor<'_>, targets: &[PolicyTarget<'_>], treatment: &mut Treatment) {
    let Some(mut object) = at.object() else {
        return;
    };
    treatment.retry = part(&mut object, "retry", traffic::read_retry);
    treatment.timeouts = part(&mut object, "timeouts", traffic::read_timeouts);
    object.unsupported(&[
        "rateLimit",
        "transformation",
        "cors",
        "csrf",
        "extAuth",
        "extProc",
        "headerModifiers",
        "hostRewrite",
        "directResponse",
        "authorization",
        "jwtAuthentication",
        "basicAuthentication",
        "apiKeyAuthentication",
        "phase",
    ]);
    object.finish();
    let is_way = |target: &PolicyTarget<'_>| {
        use PolicyTargetKind::{Gateway, Route};
        matches!(target.kind, Gateway | Route)
    };
    if !targets.iter().all(is_way) {
        at.error("is about requests on their way; target a Gateway or an HTTPRoute");
    }
}

/// How a backend is treated: of it only `health` and `sessionAffinity` so far.
pub fn read_treatment(at: &Cursor<'_>) -> Treatment {
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
    let treatment = Treatment {
        health: part(&mut object, "health", health::read),
        affinity: part(&mut object, "sessionAffinity", read_affinity),
        ..Treatment::default()
    };
    object.finish();
    treatment
}

fn read_affinity(at: &Cursor<'_>) -> Option<Affinity> {
    let mut object = at.object()?;
    let source = object.required("source");
    object.finish();
    let source = source?;
    match Affinity::compile(source.text()?) {
        Ok(affinity) => {
            if let Some(kind) = affinity.unusable() {
                source.warning(format!(
                    "gives {kind} for every request, which binds none; write one that gives text"
                ));
            }
            Some(affinity)
        }
        Err(error) => {
            source.error(error.to_string());
            None
        }
    }
}

/// Looks ahead: it decides what a target may be.
pub fn asks_for_affinity(at: &Cursor<'_>) -> bool {
    at.keys().any(|key| key == "sessionAffinity")
}

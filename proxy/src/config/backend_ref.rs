//! References to backends: of a rule's requests, of their copies, of connections.

use super::agentgateway;
use super::document::checked_name;
use super::filters::{self, Holder};
use super::reader::{Cursor, Object};
use super::resources::{BackendRef, BackendTarget, Filtering, Id};
use super::treatment::Treatment;
use crate::snapshot::Transport;

/// As the Gateway API limits them.
const MAX_WEIGHT: i128 = 1_000_000;

/// `name` and perhaps `namespace`.
pub fn read_id(object: &mut Object<'_>, namespace: &str) -> Option<Id> {
    let name = object.required("name").and_then(|name| checked_name(&name));
    let namespace = match object.optional("namespace") {
        Some(namespace) => checked_name(&namespace),
        None => Some(namespace),
    };
    Some(Id::new(namespace?, name?))
}

/// A backend that gets a share of the requests of a rule.
pub fn read_http<'a>(at: &Cursor<'a>, namespace: &str) -> Option<BackendRef<'a>> {
    let mut object = at.object()?;
    let target = read_target(&mut object, namespace, Transport::Tcp);
    let weight = read_weight(&mut object);
    let treatment = read_policies(&mut object);
    let filters = object.items("filters");
    object.finish();
    let filters = filters::read(&filters, Holder::BackendRef, namespace);
    Some(BackendRef {
        cursor: at.clone(),
        target: target?,
        weight,
        treatment,
        filters,
    })
}

/// A backend that gets a share of the connections or datagrams of a route.
pub fn read_l4<'a>(
    at: &Cursor<'a>,
    namespace: &str,
    transport: Transport,
) -> Option<BackendRef<'a>> {
    let mut object = at.object()?;
    let target = read_target(&mut object, namespace, transport);
    let weight = read_weight(&mut object);
    let treatment = read_policies(&mut object);
    if !object.items("filters").is_empty() {
        at.error("has `filters`, which edit requests; leave them out");
    }
    object.finish();
    Some(BackendRef {
        cursor: at.clone(),
        target: target?,
        weight,
        treatment,
        filters: Filtering::default(),
    })
}

/// A backend for itself.
pub fn read_whole<'a>(at: &Cursor<'a>, namespace: &str) -> Option<BackendRef<'a>> {
    let mut object = at.object()?;
    let target = read_target(&mut object, namespace, Transport::Tcp);
    let treatment = read_policies(&mut object);
    object.finish();
    Some(BackendRef {
        cursor: at.clone(),
        target: target?,
        weight: 1,
        treatment,
        filters: Filtering::default(),
    })
}

/// How the backend is treated on this way, whatever is said of it elsewhere: as agentgateway has it, beyond the Gateway
/// API.
fn read_policies(object: &mut Object<'_>) -> Treatment {
    let policies = object.optional("policies");
    let treatment = policies.map(|policies| agentgateway::read_treatment(&policies));
    treatment.unwrap_or_default()
}

/// One that is wrong was reported, and counts as none: whether the backend is there is looked at all the same.
fn read_weight(object: &mut Object<'_>) -> u32 {
    let weight = object.optional("weight");
    weight
        .and_then(|weight| weight.whole(0..=MAX_WEIGHT))
        .unwrap_or(1)
}

#[derive(Clone, Copy)]
enum TargetKind {
    Service,
    Backend,
}

fn read_target(
    object: &mut Object<'_>,
    namespace: &str,
    transport: Transport,
) -> Option<BackendTarget> {
    let group = object.optional("group");
    let kind = object.optional("kind");
    let id = read_id(object, namespace);
    let port = object.optional("port");
    let group = match group {
        Some(group) => group.choice(&[("", ""), ("agentgateway.dev", "agentgateway.dev")]),
        None => Some(""),
    };
    let kind = match kind {
        Some(kind) => kind.choice(&[
            ("Service", TargetKind::Service),
            ("AgentgatewayBackend", TargetKind::Backend),
        ]),
        None => Some(TargetKind::Service),
    };
    let (id, at) = (id?, &object.cursor);
    match (kind?, group?) {
        (TargetKind::Service, "") => {
            let Some(port) = port else {
                at.error("has no `port`; add the port of the Service");
                return None;
            };
            Some(BackendTarget::Service {
                id,
                port: port.port()?,
                transport,
            })
        }
        (TargetKind::Backend, "agentgateway.dev") => Some(BackendTarget::Backend(id)),
        (TargetKind::Service, _) => {
            at.error("the group of a Service is empty; leave `group` out");
            None
        }
        (TargetKind::Backend, _) => {
            at.error("an AgentgatewayBackend needs `group: agentgateway.dev`; add it");
            None
        }
    }
}

//! TCPRoute and UDPRoute: which backends the connections or datagrams of a listener go to.

use super::backend_ref::read_l4;
use super::document::{Metadata, checked_name};
use super::http_route::read_parent;
use super::reader::{Cursor, Object};
use super::resources::{BackendRef, L4Route, Resources};
use crate::snapshot::Transport;

pub fn read_tcp_route<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    read(Transport::Tcp, object, metadata, resources);
}

pub fn read_udp_route<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    read(Transport::Udp, object, metadata, resources);
}

fn read<'a>(
    transport: Transport,
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let cursor = object.cursor.clone();
    let Some(mut spec) = object.required("spec").and_then(|spec| spec.object()) else {
        return;
    };
    let namespace = metadata.id.namespace.clone();
    let parents = spec.required("parentRefs");
    let parents = parents.map(|parents| parents.list()).unwrap_or_default();
    let at_rules = spec.required("rules");
    spec.unsupported(&["useDefaultGateways"]);
    spec.finish();
    let rules = at_rules.as_ref().map(Cursor::list).unwrap_or_default();
    let (rule_name, backends) = match &rules[..] {
        [only] => read_rule(only, &namespace, transport).unwrap_or_default(),
        [] => {
            if let Some(at_rules) = at_rules {
                at_rules.error("is empty; add a rule with backendRefs");
            }
            Default::default()
        }
        [_, second, ..] => {
            second.error(
                "is a second rule, and nothing tells connections apart; write one rule with all backendRefs",
            );
            Default::default()
        }
    };
    resources.l4_routes.push(L4Route {
        parents: parents
            .iter()
            .filter_map(|parent| read_parent(parent, &namespace))
            .collect(),
        id: metadata.id,
        cursor,
        transport,
        rule_name,
        backends,
    });
}

/// Name and backends of a rule.
fn read_rule<'a>(
    at: &Cursor<'a>,
    namespace: &str,
    transport: Transport,
) -> Option<(Option<&'a str>, Vec<BackendRef<'a>>)> {
    let mut rule = at.object()?;
    let name = rule.optional("name");
    let items = rule.items("backendRefs");
    rule.finish();
    if items.is_empty() {
        at.warning("has no backendRefs: its clients are turned away");
    }
    let backends: Vec<BackendRef<'a>> = items
        .iter()
        .filter_map(|item| read_l4(item, namespace, transport))
        .collect();
    if !backends.is_empty() && backends.iter().all(|backend| backend.weight == 0) {
        at.warning("has only backendRefs of weight 0: its clients are turned away");
    }
    let name = name.and_then(|name| checked_name(&name));
    Some((name, backends))
}

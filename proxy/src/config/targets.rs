//! `targetRefs`: what a policy is about.

use super::document::checked_name;
use super::reader::{Cursor, Object};
use super::resources::{Id, PolicyTarget, PolicyTargetKind, Section};

/// As agentgateway puts it.
const PART_OF_BACKEND: &str = "backend.sessionAffinity must target the whole AgentgatewayBackend, not an individual AI provider";
/// As the API limits them.
const MAX_TARGETS: usize = 16;
/// With the group of each.
const KINDS: [(PolicyTargetKind, &str); 6] = [
    (PolicyTargetKind::Gateway, "gateway.networking.k8s.io"),
    (PolicyTargetKind::Route, "gateway.networking.k8s.io"),
    (PolicyTargetKind::TcpRoute, "gateway.networking.k8s.io"),
    (PolicyTargetKind::UdpRoute, "gateway.networking.k8s.io"),
    (PolicyTargetKind::Service, ""),
    (PolicyTargetKind::Backend, "agentgateway.dev"),
];

/// `binds`: the policy has a `sessionAffinity`, which decides what a target may be.
pub fn read<'a>(spec: &mut Object<'a>, namespace: &str, binds: bool) -> Vec<PolicyTarget<'a>> {
    spec.unsupported(&["targetSelectors"]);
    let Some(at_targets) = spec.required("targetRefs") else {
        return Vec::new();
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
        .filter_map(|item| read_target(item, namespace, binds))
        .collect();
    if targets.windows(2).any(|pair| pair[0].kind != pair[1].kind) {
        at_targets.error("names resources of more than one kind; write a policy for each kind");
    }
    targets
}

fn read_target<'a>(at: &Cursor<'a>, namespace: &str, binds: bool) -> Option<PolicyTarget<'a>> {
    let mut object = at.object()?;
    let section = object.optional("sectionName");
    let group = match object.optional("group") {
        Some(group) => group.text()?,
        None => "",
    };
    let kind = object
        .required("kind")
        .and_then(|kind| kind.choice(&KINDS.map(|(kind, _)| (kind.name(), kind))));
    let name = object.required("name").and_then(|name| checked_name(&name));
    object.finish();
    let kind = kind?;
    let section = match section {
        Some(section) => read_section(&section, kind, binds),
        None => Some(Section::Whole),
    };
    let (_, expected) = KINDS.iter().find(|(of, _)| *of == kind)?;
    if group != *expected {
        let (kind, article) = match kind {
            PolicyTargetKind::Backend | PolicyTargetKind::Route => (kind.name(), "an"),
            _ => (kind.name(), "a"),
        };
        at.error(match *expected {
            "" => format!("the group of {article} {kind} is empty; write `group: \"\"`"),
            expected => format!("{article} {kind} needs `group: {expected}`; add it"),
        });
        return None;
    }
    Some(PolicyTarget {
        cursor: at.clone(),
        kind,
        id: Id::new(namespace, name?),
        section: section?,
    })
}

fn read_section<'a>(at: &Cursor<'a>, kind: PolicyTargetKind, binds: bool) -> Option<Section<'a>> {
    match kind {
        PolicyTargetKind::Gateway
        | PolicyTargetKind::Route
        | PolicyTargetKind::TcpRoute
        | PolicyTargetKind::UdpRoute => checked_name(at).map(Section::Name),
        PolicyTargetKind::Service => {
            let text = at.text()?;
            let port = text.parse().ok().filter(|port| *port != 0);
            if port.is_none() {
                at.error(format!(
                    "`{text}` is not the number of a port; write one of the Service's, in quotes"
                ));
            }
            port.map(Section::Port)
        }
        PolicyTargetKind::Backend => {
            at.error(if binds {
                PART_OF_BACKEND
            } else {
                "an AgentgatewayBackend with a static target has no sections; leave it out"
            });
            None
        }
    }
}

//! `targetRefs`: what a policy is about.

use super::document::checked_name;
use super::reader::{Cursor, Object};
use super::resources::{Id, PolicyTarget, PolicyTargetKind};

/// As agentgateway puts it.
const PART_OF_BACKEND: &str = "backend.sessionAffinity must target the whole AgentgatewayBackend, not an individual AI provider";
/// As the API limits them.
const MAX_TARGETS: usize = 16;

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

//! Kinds of documents: which are read, in which version, and which may lie beside them. A directory of real manifests
//! holds much that is for others; what is nearly one of ours, or of one of our groups, is a mistake all the same.

use super::document::Read;
use super::reader::{Cursor, closest};
use super::tree::Node;
use super::{agentgateway, gateway, http_route, l4_route, secret, service, weir_policy};

/// A kind that is read.
pub struct Kind {
    version: &'static str,
    pub name: &'static str,
    pub read: Read,
}

const fn kind(version: &'static str, name: &'static str, read: Read) -> Kind {
    Kind {
        version,
        name,
        read,
    }
}

const GATEWAY_API: &str = "gateway.networking.k8s.io";

static KINDS: [Kind; 10] = [
    kind(
        "gateway.networking.k8s.io/v1",
        "Gateway",
        gateway::read_gateway,
    ),
    kind(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        http_route::read_http_route,
    ),
    kind(
        "gateway.networking.k8s.io/v1alpha2",
        "TCPRoute",
        l4_route::read_tcp_route,
    ),
    kind(
        "gateway.networking.k8s.io/v1alpha2",
        "UDPRoute",
        l4_route::read_udp_route,
    ),
    kind("v1", "Service", service::read_service),
    kind(
        "discovery.k8s.io/v1",
        "EndpointSlice",
        service::read_endpoint_slice,
    ),
    kind("v1", "Secret", secret::read_secret),
    kind(
        "agentgateway.dev/v1alpha1",
        "AgentgatewayBackend",
        agentgateway::read_backend,
    ),
    kind(
        "agentgateway.dev/v1alpha1",
        "AgentgatewayPolicy",
        agentgateway::read_policy,
    ),
    kind("weir.dev/v1alpha1", "WeirPolicy", weir_policy::read_policy),
];

/// Kinds Weir will read one day: without them it would serve something else.
const LATER: [&str; 2] = ["GRPCRoute", "TLSRoute"];

/// Kinds of groups we read others of, without effect here: references across namespaces need no leave, and every
/// Gateway is ours.
const WITHOUT_EFFECT: [(&str, &str); 2] = [
    (GATEWAY_API, "GatewayClass"),
    (GATEWAY_API, "ReferenceGrant"),
];

/// Kinds of the core of Kubernetes.
const CORE: [&str; 17] = [
    "Binding",
    "ComponentStatus",
    "ConfigMap",
    "Endpoints",
    "Event",
    "LimitRange",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "PodTemplate",
    "PodDisruptionBudget",
    "ReplicationController",
    "ResourceQuota",
    "ServiceAccount",
    "Status",
];

/// Groups of Kubernetes whose kinds are not read here, by their whole names: many of its names end alike, ours too.
const KUBERNETES: [&str; 24] = [
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "extensions",
    "events.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "metrics.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy.networking.k8s.io",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "snapshot.storage.k8s.io",
    "storage.k8s.io",
    "kustomize.config.k8s.io",
];

/// Groups of others. A group ending in one after a dot is one, too.
const FOREIGN: [&str; 14] = [
    "cluster.x-k8s.io",
    "jobset.x-k8s.io",
    "kueue.x-k8s.io",
    "csi.x-k8s.io",
    "argoproj.io",
    "cert-manager.io",
    "cilium.io",
    "external-secrets.io",
    "fluxcd.io",
    "istio.io",
    "keda.sh",
    "knative.dev",
    "kyverno.io",
    "coreos.com",
];

/// What is to be done with a document.
pub enum Use {
    Read(&'static Kind),
    /// It is somebody else's; if it is about traffic, this kind says it here.
    Ignore {
        instead: Option<&'static str>,
    },
    /// Documents under `items`.
    List,
}

/// What a document of this version and kind is for; `None` if it is a mistake, which is reported.
pub fn use_of(document: &Node, at_version: &Cursor<'_>, at_kind: &Cursor<'_>) -> Option<Use> {
    let (version, kind) = (at_version.text(), at_kind.text());
    let (version, kind) = (version?, kind?);
    let group = group_of(version);
    if is_foreign(group) {
        return Some(Use::Ignore {
            instead: (kind == "Ingress").then_some("HTTPRoute"),
        });
    }
    if let Some(known) = KINDS.iter().find(|known| known.name == kind) {
        if version == known.version {
            return Some(match kind {
                "Secret" if secret::is_of_others(document) => Use::Ignore { instead: None },
                _ => Use::Read(known),
            });
        }
        at_version.error(format!(
            "`{version}` is not a version of {kind} that is read; write `{}`",
            known.version
        ));
        return None;
    }
    if WITHOUT_EFFECT.contains(&(group, kind)) || version == "v1" && CORE.contains(&kind) {
        return Some(Use::Ignore { instead: None });
    }
    if (version, kind) == ("v1", "List") {
        return Some(Use::List);
    }
    refuse(at_version, at_kind, group, kind);
    None
}

fn is_foreign(group: &str) -> bool {
    let is_in = |foreign: &str| {
        let rest = group.strip_suffix(foreign);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    if closest(group, &groups()).is_some() {
        return false;
    }
    KUBERNETES.contains(&group) || FOREIGN.iter().any(|foreign| is_in(foreign))
}

/// Groups of the kinds that are read.
fn groups() -> Vec<&'static str> {
    KINDS.iter().map(|kind| group_of(kind.version)).collect()
}

/// "" for the core of Kubernetes.
fn group_of(version: &str) -> &str {
    version.rsplit_once('/').map_or("", |(group, _)| group)
}

fn refuse(at_version: &Cursor<'_>, at_kind: &Cursor<'_>, group: &str, kind: &str) {
    if LATER.contains(&kind) {
        return at_kind.error(format!(
            "{kind} is not supported yet; leave the document out"
        ));
    }
    let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
    if let Some(meant) = closest(kind, &known) {
        return at_kind.error(format!(
            "`{kind}` is not a known kind; did you mean `{meant}`?"
        ));
    }
    if !groups().contains(&group) {
        return at_version.error(format!(
            "`{group}` is not a known group of kinds; correct it, or leave the document out"
        ));
    }
    at_kind.error(format!(
        "`{kind}` is not a known kind; there is {}",
        known.join(", ")
    ));
}

//! One document: which kind it is of, and what it is called.

use super::problem::Problems;
use super::reader::{Context, Cursor, Object, closest};
use super::resources::{Id, Resources};
use super::tree::Node;
use super::{
    agentgateway, annotations, gateway, http_route, l4_route, secret, service, weir_policy,
};
use crate::route::Created;

/// Kinds with the API versions they are read in.
const KINDS: [(&str, &str, Read); 10] = [
    (
        "gateway.networking.k8s.io/v1",
        "Gateway",
        gateway::read_gateway,
    ),
    (
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        http_route::read_http_route,
    ),
    (
        "gateway.networking.k8s.io/v1alpha2",
        "TCPRoute",
        l4_route::read_tcp_route,
    ),
    (
        "gateway.networking.k8s.io/v1alpha2",
        "UDPRoute",
        l4_route::read_udp_route,
    ),
    ("v1", "Service", service::read_service),
    (
        "discovery.k8s.io/v1",
        "EndpointSlice",
        service::read_endpoint_slice,
    ),
    ("v1", "Secret", secret::read_secret),
    (
        "agentgateway.dev/v1alpha1",
        "AgentgatewayBackend",
        agentgateway::read_backend,
    ),
    (
        "agentgateway.dev/v1alpha1",
        "AgentgatewayPolicy",
        agentgateway::read_policy,
    ),
    ("weir.dev/v1alpha1", "WeirPolicy", weir_policy::read_policy),
];

/// Kinds Weir will read one day.
const LATER: [&str; 2] = ["GRPCRoute", "TLSRoute"];

type Read = for<'a> fn(&mut Object<'a>, Metadata<'a>, &mut Resources<'a>);

/// What a resource is called, and what is noted on it.
pub struct Metadata<'a> {
    pub id: Id,
    pub created: Created,
    pub labels: Option<Cursor<'a>>,
    pub annotations: Option<Cursor<'a>>,
}

/// Reads a document into the list of its kind.
pub fn read<'a>(
    node: &'a Node,
    file: &'a str,
    problems: &'a Problems,
    resources: &mut Resources<'a>,
) {
    let context = Context {
        file,
        resource: name_of(node),
        problems,
        is_secret: false,
    };
    let root = Cursor::root(context, node);
    let Some(mut object) = root.object() else {
        return;
    };
    let (version, kind) = (object.required("apiVersion"), object.required("kind"));
    let (Some(version), Some(kind)) = (version, kind) else {
        return;
    };
    let (Some(version_text), Some(kind_text)) = (version.text(), kind.text()) else {
        return;
    };
    let Some((expected, name, read)) = KINDS.iter().find(|(_, name, _)| *name == kind_text) else {
        return refuse_kind(&kind, kind_text);
    };
    if version_text != *expected {
        version.error(format!(
            "`{version_text}` is not a version of {name} that is read; write `{expected}`"
        ));
        return;
    }
    object.ignored(&["status"]);
    let Some(metadata) = object
        .required("metadata")
        .and_then(|at| read_metadata(&at))
    else {
        return;
    };
    annotations::check(&metadata, name);
    let place = root.place();
    let key = (*name, metadata.id.clone());
    if let Some(first) = resources.names.get(&key) {
        root.error(format!(
            "has the name of the {name} at {first}; rename or remove one"
        ));
        return;
    }
    resources.names.insert(key, place);
    read(&mut object, metadata, resources);
    object.finish();
    resources.count += 1;
}

fn refuse_kind(kind: &Cursor<'_>, text: &str) {
    if LATER.contains(&text) {
        return kind.error(format!(
            "{text} is not supported yet; leave the document out"
        ));
    }
    let known: Vec<&str> = KINDS.iter().map(|(_, name, _)| *name).collect();
    kind.error(match closest(text, &known) {
        Some(meant) => format!("`{text}` is not a known kind; did you mean `{meant}`?"),
        None => format!(
            "`{text}` is not a known kind; there is {}",
            known.join(", ")
        ),
    });
}

/// Kind, namespace and name for problems, as far as they can be read.
fn name_of(document: &Node) -> String {
    let Some(kind) = document.child("kind").and_then(Node::as_text) else {
        return String::new();
    };
    let metadata = document.child("metadata");
    let text = |key: &str| metadata?.child(key)?.as_text();
    let namespace = text("namespace").unwrap_or("default");
    format!("{kind} {namespace}/{}", text("name").unwrap_or("?"))
}

/// Unknown fields are others' notes, and none of our business.
fn read_metadata<'a>(at: &Cursor<'a>) -> Option<Metadata<'a>> {
    let mut object = at.object()?;
    let name = object.required("name")?;
    let name_text = checked_name(&name)?;
    let namespace = match object.optional("namespace") {
        Some(namespace) => checked_name(&namespace)?,
        None => "default",
    };
    let created = object.optional("creationTimestamp");
    Some(Metadata {
        id: Id::new(namespace, name_text),
        created: match created.and_then(|created| created.text()) {
            Some(text) => Created::At(text.into()),
            None => Created::Unknown,
        },
        labels: object.optional("labels"),
        annotations: object.optional("annotations"),
    })
}

/// As Kubernetes names things: a DNS subdomain (RFC 1123).
pub fn checked_name<'a>(at: &Cursor<'a>) -> Option<&'a str> {
    let text = at.text()?;
    let is_inner =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    let is_edge = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let bytes = text.as_bytes();
    let is_name = text.len() <= 253
        && text.bytes().all(is_inner)
        && is_edge(bytes.first().copied())
        && is_edge(bytes.last().copied());
    if !is_name {
        at.error(format!(
            "`{text}` is not a name; write 1 to 253 lower-case letters, digits, hyphens and dots"
        ));
    }
    is_name.then_some(text)
}

//! One document: which kind it is of, and what it is called.

use super::annotations;
use super::kinds::{self, Use};
use super::problem::Problems;
use super::reader::{Context, Cursor, Object};
use super::resources::{Id, Resources};
use super::tree::Node;
use crate::route::Created;

/// Reads what is particular to a kind.
pub type Read = for<'a> fn(&mut Object<'a>, Metadata<'a>, &mut Resources<'a>);

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
    let kind = match kinds::use_of(node, &version, &kind) {
        None => return problems.saw(&root.context.resource),
        Some(Use::Read(kind)) => kind,
        Some(Use::Ignore { instead }) => {
            let instead = instead.map(|kind| format!("; use {kind}"));
            let noted = ignored(&root) + &instead.unwrap_or_default();
            return resources.ignored.push(noted);
        }
        Some(Use::List) => {
            object.ignored(&["metadata"]);
            for item in object.items("items") {
                read(item.node(), file, problems, resources);
            }
            return object.finish();
        }
    };
    problems.saw(&root.context.resource);
    object.ignored(&["status"]);
    let Some(metadata) = object
        .required("metadata")
        .and_then(|at| read_metadata(&at))
    else {
        return;
    };
    annotations::check(&metadata, kind.name);
    let place = root.place();
    let key = (kind.name, metadata.id.clone());
    if let Some(first) = resources.names.get(&key) {
        root.error(format!(
            "has the name of the {} at {first}; rename or remove one",
            kind.name
        ));
        return;
    }
    resources.names.insert(key, place);
    (kind.read)(&mut object, metadata, resources);
    object.finish();
    resources.count += 1;
}

/// How a document is told of that nobody reads.
fn ignored(root: &Cursor<'_>) -> String {
    format!("{} ({})", root.context.resource, root.place())
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

//! `filters` of a rule, or of one of its backendRefs: what is done to requests and their responses.

use super::mirror::read_mirror;
use super::reader::Cursor;
use super::redirect::read_redirect;
use super::resources::Filtering;
use crate::http::{EditError, FieldEdits, is_authority};
use crate::route::{PathRewrite, Rewrite};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Request,
    Response,
    Rewrite,
    Redirect,
    Mirror,
}

const KINDS: [(&str, Kind); 5] = [
    ("RequestHeaderModifier", Kind::Request),
    ("ResponseHeaderModifier", Kind::Response),
    ("URLRewrite", Kind::Rewrite),
    ("RequestRedirect", Kind::Redirect),
    ("RequestMirror", Kind::Mirror),
];
const LATER: [&str; 2] = ["ExtensionRef", "CORS"];

/// Where filters stand.
#[derive(Clone, Copy)]
pub enum Holder {
    /// In a rule, which may find paths by prefix alone.
    Rule { is_by_prefix: bool },
    /// At one of the backends its requests are shared out to.
    BackendRef,
}

/// Those that can be read.
pub fn read<'a>(items: &[Cursor<'a>], holder: Holder, namespace: &str) -> Filtering<'a> {
    let mut filtering = Filtering::default();
    let mut seen: Vec<(Kind, &Cursor<'_>)> = Vec::new();
    for item in items {
        if let Some(kind) = read_filter(item, &mut filtering, holder, namespace) {
            let is_repeated = seen.iter().any(|(earlier, _)| *earlier == kind);
            if is_repeated && kind != Kind::Mirror {
                item.error("is the second of its type; join the two");
            }
            seen.push((kind, item));
        }
    }
    if filtering.filters.redirect.is_some() {
        report_beside_redirect(&seen);
    }
    filtering
}

/// No endpoint is asked, so that there is nothing else to be done.
fn report_beside_redirect(filters: &[(Kind, &Cursor<'_>)]) {
    for (kind, at) in filters {
        match kind {
            Kind::Rewrite => {
                at.error("cannot stand beside a RequestRedirect; leave one of them out");
            }
            Kind::Request | Kind::Response | Kind::Mirror => {
                at.warning("does nothing beside a RequestRedirect, which asks no endpoint");
            }
            Kind::Redirect => {}
        }
    }
}

fn read_filter<'a>(
    at: &Cursor<'a>,
    filtering: &mut Filtering<'a>,
    holder: Holder,
    namespace: &str,
) -> Option<Kind> {
    let mut object = at.object()?;
    let kind = object.required("type");
    let parts = [
        (Kind::Request, object.optional("requestHeaderModifier")),
        (Kind::Response, object.optional("responseHeaderModifier")),
        (Kind::Rewrite, object.optional("urlRewrite")),
        (Kind::Redirect, object.optional("requestRedirect")),
        (Kind::Mirror, object.optional("requestMirror")),
    ];
    object.ignored(&["extensionRef", "cors"]);
    object.finish();
    let at_kind = kind?;
    let kind = at_kind.supported_choice(&KINDS, &LATER)?;
    let mut own = None;
    for (part_kind, part) in parts {
        match part {
            Some(part) if part_kind == kind => own = Some(part),
            Some(part) => part.error("does not belong to a filter of this type; leave it out"),
            None => {}
        }
    }
    let Some(own) = own else {
        at.error("says nothing of what to do; add the part its type is named after");
        return None;
    };
    let filters = &mut filtering.filters;
    match (kind, holder) {
        (Kind::Mirror, _) => filtering.mirrors.push(read_mirror(&own, namespace)?),
        (Kind::Request, _) => filters.request = read_edits(&own)?,
        (Kind::Response, _) => filters.response = read_edits(&own)?,
        (Kind::Rewrite, Holder::Rule { is_by_prefix }) => {
            filters.rewrite = read_rewrite(&own, is_by_prefix)?;
        }
        (Kind::Redirect, Holder::Rule { is_by_prefix }) => {
            filters.redirect = Some(read_redirect(&own, is_by_prefix)?);
        }
        (Kind::Rewrite, Holder::BackendRef) => {
            at_kind.error("URLRewrite is for all backends of a rule, so that a further try asks for the same; write it among the filters of the rule");
            return None;
        }
        (Kind::Redirect, Holder::BackendRef) => {
            at_kind.error("RequestRedirect answers in the place of every backend; write it among the filters of a rule without backendRefs");
            return None;
        }
    }
    Some(kind)
}

type Edit = fn(&mut FieldEdits, &str, &str) -> Result<(), EditError>;

fn read_edits(at: &Cursor<'_>) -> Option<FieldEdits> {
    let mut object = at.object()?;
    let set = object.items("set");
    let add = object.items("add");
    let remove = object.items("remove");
    object.finish();
    let mut edits = FieldEdits::default();
    let mut names = Vec::new();
    let mut is_right = true;
    let with_value = [(set, FieldEdits::set as Edit), (add, FieldEdits::add)];
    for (items, edit) in with_value {
        for item in items {
            is_right &= read_field(&item, &mut edits, edit, &mut names).is_some();
        }
    }
    for item in remove {
        let removed = item.text().and_then(|name| {
            is_once(&item, name, &mut names)?;
            report(&item, &item, edits.remove(name))
        });
        is_right &= removed.is_some();
    }
    is_right.then_some(edits)
}

fn read_field(
    at: &Cursor<'_>,
    edits: &mut FieldEdits,
    edit: Edit,
    names: &mut Vec<String>,
) -> Option<()> {
    let mut object = at.object()?;
    let name = object.required("name");
    let value = object.required("value");
    object.finish();
    let (name, value) = (name?, value?);
    let (name_text, value_text) = (name.text()?, value.text()?);
    is_once(&name, name_text, names)?;
    report(&name, &value, edit(edits, name_text, value_text))
}

/// What is done to a header is said in one place.
fn is_once(at: &Cursor<'_>, name: &str, names: &mut Vec<String>) -> Option<()> {
    let name = name.to_ascii_lowercase();
    if names.contains(&name) {
        at.error(format!("`{name}` stands here a second time; leave one out"));
        return None;
    }
    names.push(name);
    Some(())
}

fn report(name: &Cursor<'_>, value: &Cursor<'_>, edited: Result<(), EditError>) -> Option<()> {
    match edited {
        Ok(()) => Some(()),
        Err(EditError::Value) => {
            value.error(EditError::Value.to_string());
            None
        }
        Err(error) => {
            name.error(error.to_string());
            None
        }
    }
}

#[derive(Clone, Copy)]
enum PathKind {
    Full,
    Prefix,
}

fn read_rewrite(at: &Cursor<'_>, is_by_prefix: bool) -> Option<Rewrite> {
    let mut object = at.object()?;
    let host = object.optional("hostname");
    let path = object.optional("path");
    object.finish();
    let host = match host {
        Some(host) => Some(read_hostname(&host)?),
        None => None,
    };
    let path = match path {
        Some(path) => Some(read_path(&path, is_by_prefix)?),
        None => None,
    };
    Some(Rewrite { host, path })
}

pub fn read_hostname(at: &Cursor<'_>) -> Option<Box<str>> {
    let text = at.text()?;
    if !is_authority(text.as_bytes()) {
        at.error(format!(
            "`{text}` is not a host name; write one such as shop.example.com"
        ));
        return None;
    }
    Some(text.into())
}

pub fn read_path(at: &Cursor<'_>, is_by_prefix: bool) -> Option<PathRewrite> {
    let mut object = at.object()?;
    let kind = object.required("type");
    let full = object.optional("replaceFullPath");
    let prefix = object.optional("replacePrefixMatch");
    object.finish();
    let kind = kind?.choice(&[
        ("ReplaceFullPath", PathKind::Full),
        ("ReplacePrefixMatch", PathKind::Prefix),
    ])?;
    let (value, other, key) = match kind {
        PathKind::Full => (full, prefix, "replaceFullPath"),
        PathKind::Prefix => (prefix, full, "replacePrefixMatch"),
    };
    if let Some(other) = other {
        other.error("does not belong to this type; leave it out");
        return None;
    }
    let Some(value) = value else {
        at.error(format!("has no `{key}`; add it"));
        return None;
    };
    let text = value.text()?;
    let is_path = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic());
    let is_empty_prefix = text.is_empty() && matches!(kind, PathKind::Prefix);
    if !(is_path || is_empty_prefix) || text.contains(['?', '#', '"', '<', '>']) {
        value.error(format!(
            "`{text}` is not a path; write it with a leading slash and without query, as in /shop"
        ));
        return None;
    }
    match kind {
        PathKind::Full => Some(PathRewrite::Full(text.into())),
        PathKind::Prefix if is_by_prefix => Some(PathRewrite::prefix(text)),
        PathKind::Prefix => {
            value.error("replaces a prefix, but the rule matches paths otherwise; match by PathPrefix alone");
            None
        }
    }
}

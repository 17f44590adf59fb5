//! HTTPRoute: which requests go to which backends.

use std::collections::HashSet;

use super::backend_ref::{read_http, read_id};
use super::document::{Metadata, checked_name};
use super::filters::{self, Holder};
use super::gateway::read_host;
use super::reader::{Cursor, Object};
use super::resources::{BackendRef, HttpRoute, ParentRef, Resources, RouteRule};
use super::traffic::{read_retry, read_timeouts};
use crate::route::{FieldMatch, Match, PathMatch, Pattern};

const METHODS: [(&str, &str); 9] = [
    ("GET", "GET"),
    ("HEAD", "HEAD"),
    ("POST", "POST"),
    ("PUT", "PUT"),
    ("DELETE", "DELETE"),
    ("CONNECT", "CONNECT"),
    ("OPTIONS", "OPTIONS"),
    ("TRACE", "TRACE"),
    ("PATCH", "PATCH"),
];

pub fn read_http_route<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let Some(mut spec) = object.required("spec").and_then(|spec| spec.object()) else {
        return;
    };
    let namespace = metadata.id.namespace.clone();
    let parents = spec.required("parentRefs");
    let parents = parents.map(|parents| parents.list()).unwrap_or_default();
    let hosts = spec.items("hostnames");
    let rules = spec.required("rules");
    let items = rules.map(|rules| rules.list()).unwrap_or_default();
    spec.unsupported(&["useDefaultGateways"]);
    spec.finish();
    let mut rules: Vec<RouteRule<'a>> = Vec::new();
    let mut names = HashSet::new();
    let mut is_whole = true;
    for item in &items {
        let Some(rule) = read_rule(item, &namespace) else {
            continue;
        };
        is_whole &= rule.name.is_some() || !has_name(item);
        if let Some(name) = rule.name
            && !names.insert(name)
        {
            item.error(format!(
                "the name `{name}` is that of an earlier rule; rename one"
            ));
        }
        rules.push(rule);
    }
    resources.routes.push(HttpRoute {
        created: metadata.created,
        parents: parents
            .iter()
            .filter_map(|parent| read_parent(parent, &namespace))
            .collect(),
        hosts: hosts.iter().filter_map(read_host).collect(),
        is_whole: is_whole && rules.len() == items.len(),
        rules,
        id: metadata.id,
    });
}

pub fn read_parent<'a>(at: &Cursor<'a>, namespace: &str) -> Option<ParentRef<'a>> {
    let mut parent = at.object()?;
    let group = match parent.optional("group") {
        Some(group) => group.choice(&[("gateway.networking.k8s.io", ())]),
        None => Some(()),
    };
    let kind = match parent.optional("kind") {
        Some(kind) => kind.supported_choice(&[("Gateway", ())], &["Service", "ListenerSet"]),
        None => Some(()),
    };
    let gateway = read_id(&mut parent, namespace);
    let section = parent.optional("sectionName");
    let port = parent.optional("port");
    parent.finish();
    let section = match section {
        Some(section) => checked_name(&section).map(Some),
        None => Some(None),
    };
    let port = match port {
        Some(port) => port.port().map(Some),
        None => Some(None),
    };
    let ((), ()) = (group?, kind?);
    Some(ParentRef {
        cursor: at.clone(),
        gateway: gateway?,
        section: section?,
        port: port?,
    })
}

fn read_rule<'a>(at: &Cursor<'a>, namespace: &str) -> Option<RouteRule<'a>> {
    let mut rule = at.object()?;
    let name = rule.optional("name").and_then(|name| checked_name(&name));
    rule.unsupported(&["sessionPersistence"]);
    let filters = rule.items("filters");
    let matches = rule.items("matches");
    let backends = rule.items("backendRefs");
    let retry = rule.optional("retry");
    let timeouts = rule.optional("timeouts");
    rule.finish();
    let matches = if matches.is_empty() {
        vec![Match::default()]
    } else {
        matches.iter().filter_map(read_match).collect()
    };
    let is_prefix = |one: &Match| matches!(one.path, PathMatch::Any | PathMatch::Prefix(_));
    let is_by_prefix = matches.iter().all(is_prefix);
    let filters = filters::read(&filters, Holder::Rule { is_by_prefix }, namespace);
    let is_redirect = filters.filters.redirect.is_some();
    if is_redirect && let Some(backend) = backends.first() {
        backend.error(
            "stands beside the filter RequestRedirect, which asks no backend; leave one out",
        );
    }
    if backends.is_empty() && !is_redirect {
        at.warning("has no backendRefs: its requests are answered with 500");
    }
    let backends: Vec<BackendRef<'a>> = backends
        .iter()
        .filter_map(|backend| read_http(backend, namespace))
        .collect();
    if !backends.is_empty() && backends.iter().all(|backend| backend.weight == 0) {
        at.warning("has only backendRefs of weight 0: its requests are answered with 500");
    }
    // What cannot be read was reported, and the rest of the rule is looked at all the same.
    Some(RouteRule {
        name,
        matches,
        backends,
        retry: retry.and_then(|retry| read_retry(&retry)),
        timeouts: timeouts.and_then(|timeouts| read_timeouts(&timeouts)),
        filters,
    })
}

/// Whether there is a name, be it right or wrong.
fn has_name(rule: &Cursor<'_>) -> bool {
    let name = rule.node().child("name");
    name.is_some_and(|name| !name.is_empty())
}

fn read_match(at: &Cursor<'_>) -> Option<Match> {
    let mut object = at.object()?;
    let path = object.optional("path");
    let method = object.optional("method");
    let headers = object.items("headers");
    let query = object.items("queryParams");
    object.finish();
    let fields = |items: &[Cursor<'_>]| items.iter().map(read_field).collect::<Option<Vec<_>>>();
    let path = match path {
        Some(path) => read_path(&path),
        None => Some(PathMatch::Any),
    };
    let method = match method {
        Some(method) => method.choice(&METHODS).map(|method| Some(method.into())),
        None => Some(None),
    };
    let (headers, query) = (fields(&headers), fields(&query));
    Some(Match {
        path: path?,
        method: method?,
        headers: headers?,
        query: query?,
    })
}

#[derive(Clone, Copy)]
enum PathKind {
    Exact,
    Prefix,
    Regex,
}

fn read_path(at: &Cursor<'_>) -> Option<PathMatch> {
    let mut object = at.object()?;
    let kind = match object.optional("type") {
        Some(kind) => kind.choice(&[
            ("Exact", PathKind::Exact),
            ("PathPrefix", PathKind::Prefix),
            ("RegularExpression", PathKind::Regex),
        ]),
        None => Some(PathKind::Prefix),
    };
    let value = object.optional("value");
    object.finish();
    let (kind, Some(value)) = (kind?, value) else {
        return Some(PathMatch::Any);
    };
    let text = value.text()?;
    if let PathKind::Regex = kind {
        return read_regex(&value, text).map(PathMatch::Regex);
    }
    if !text.starts_with('/') || text.contains(['?', '#']) {
        value.error(format!(
            "`{text}` is not a path; write it with a leading slash and without query, as in /shop"
        ));
        return None;
    }
    Some(match kind {
        PathKind::Exact => PathMatch::Exact(text.into()),
        _ => PathMatch::prefix(text),
    })
}

/// A header or query parameter.
fn read_field(at: &Cursor<'_>) -> Option<FieldMatch> {
    let mut object = at.object()?;
    let is_regex = match object.optional("type") {
        Some(kind) => kind.choice(&[("Exact", false), ("RegularExpression", true)]),
        None => Some(false),
    };
    let name = object.required("name");
    let value = object.required("value");
    object.finish();
    let name = name?;
    let name_text = name.text()?;
    if name_text.is_empty() {
        name.error("is empty; write the name to look for");
        return None;
    }
    let value = value?;
    let text = value.text()?;
    let value = if is_regex? {
        read_regex(&value, text)?
    } else {
        Pattern::exact(text)
    };
    Some(FieldMatch {
        name: name_text.into(),
        value,
    })
}

fn read_regex(at: &Cursor<'_>, text: &str) -> Option<Pattern> {
    match Pattern::regex(text) {
        Ok(pattern) => Some(pattern),
        Err(error) => {
            at.error(format!("`{text}` {error}"));
            None
        }
    }
}

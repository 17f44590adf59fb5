//! Resources - the Gateway API's, Kubernetes' own, agentgateway's and Weir's - read from text and checked into a
//! [`Plan`]. Everything that is wrong is found in one go, each problem with its place and its remedy. Reading files and
//! opening sockets is done elsewhere.
//!
//! ```text
//! text ─► tree (values with positions) ─► resources, kind by kind ─► references resolved ─► Plan
//! ```

mod active_check;
mod agentgateway;
mod annotations;
mod backend_ref;
mod deny_list;
mod document;
mod filters;
mod gateway;
mod health;
mod http_route;
mod kinds;
mod l4_route;
mod locality;
mod mirror;
mod problem;
mod quick;
mod reader;
mod redirect;
mod resolve;
mod resolve_backends;
mod resolve_endpoints;
mod resolve_filters;
mod resolve_l4;
mod resolve_listeners;
mod resolve_policies;
mod resources;
mod secret;
mod service;
mod targets;
#[cfg(test)]
mod tests;
mod traffic;
mod treatment;
mod tree;
mod weir_policy;

pub use deny_list::read_deny_list;
pub use problem::{Position, Problem, Severity};
pub use quick::{QuickError, quick_documents};

use std::net::SocketAddr;

use problem::Problems;
use resources::Resources;

use crate::balance::Locality;
use crate::snapshot::{Plan, Transport};

/// One file.
#[derive(Clone, Debug)]
pub struct Source {
    /// As it is named in problems.
    pub name: String,
    pub text: String,
}

/// What came of checking.
#[derive(Debug)]
pub struct Checked {
    /// `None` if any problem is an error.
    pub plan: Option<Plan>,
    /// Documents that were understood.
    pub resources: usize,
    /// Documents Weir does not read, each with its place.
    pub ignored: Vec<String>,
    /// By file and position.
    pub problems: Vec<Problem>,
}

/// Checks all documents of all files together, for a proxy that stands here.
pub fn check(sources: &[Source], own: Option<&Locality>) -> Checked {
    check_with(sources, own, |_| Vec::new())
}

/// What there is to say about a listener of a plan where it is to be served.
#[derive(Clone, Debug)]
pub struct Objection {
    pub listener: (Transport, SocketAddr),
    pub severity: Severity,
    pub message: String,
}

/// The same; `objections` are what is said of the plan where it is to be served.
pub fn check_with(
    sources: &[Source],
    own: Option<&Locality>,
    objections: impl FnOnce(&Plan) -> Vec<Objection>,
) -> Checked {
    let problems = Problems::default();
    let files: Vec<(&str, Vec<tree::Node>)> = sources
        .iter()
        .map(|source| (source.name.as_str(), tree::parse(source, &problems)))
        .collect();
    let mut resources = Resources::default();
    for (name, documents) in &files {
        for document in documents {
            document::read(document, name, &problems, &mut resources);
        }
    }
    let (plan, places) = resolve::plan(&resources, own);
    for objection in objections(&plan) {
        match (places.get(&objection.listener), objection.severity) {
            (Some(at), Severity::Error) => at.error(objection.message),
            (Some(at), Severity::Warning) => at.warning(objection.message),
            (None, _) => {}
        }
    }
    let (resources, ignored) = (resources.count, resources.ignored);
    let serves_nothing = plan.listeners.is_empty() && plan.l4_services.is_empty();
    if serves_nothing && !problems.has_errors() {
        problems.push(nothing_to_serve(sources));
    }
    let is_refused = problems.has_errors();
    let problems = problems.into_sorted();
    Checked {
        plan: (!is_refused).then_some(plan),
        resources,
        ignored,
        problems,
    }
}

fn nothing_to_serve(sources: &[Source]) -> Problem {
    let file = sources.first().map(|source| source.name.clone());
    Problem {
        severity: Severity::Error,
        file: file.unwrap_or_default(),
        position: Position { line: 1, column: 1 },
        key: String::new(),
        message: "no Gateway anywhere: nothing would listen; add one".to_owned(),
    }
}

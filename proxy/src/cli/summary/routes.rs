//! Which requests of each listener go where. The first rule that matches a request counts.

use std::fmt::Write;

use super::shortened;
use crate::route::{
    FieldMatch, Fraction, Handling, Host, Match, PathMatch, Pattern, Retry, RetryOn, Rule, Timeouts,
};
use crate::snapshot::{L4Service, Plan, Transport};

/// Characters of a condition that are shown.
const CONDITION: usize = 40;

pub fn text(plan: &Plan, labels: &[String]) -> String {
    let mut text = String::new();
    for listener in &plan.listeners {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "LISTENER {}", listener.place());
        for rule in listener.rules.iter() {
            let _ = writeln!(text, "  {}", requests(rule));
            let _ = writeln!(text, "    to {}", destination(rule, labels));
        }
        text += "  anything else: 404\n";
    }
    for service in &plan.l4_services {
        let (address, transport) = (service.address, service.transport);
        let _ = writeln!(text, "LISTENER {address} {transport}");
        let _ = writeln!(text, "  all clients");
        let _ = writeln!(text, "    to {}", l4_destination(service, labels));
    }
    text
}

/// Where clients of an L4 service go, and by which route.
fn l4_destination(service: &L4Service, labels: &[String]) -> String {
    let shares: Vec<(usize, u64)> = service.split.weights().collect();
    let mut parts = vec![match shares[..] {
        [] => "nowhere: turned away".to_owned(),
        _ => backends(&shares, labels),
    }];
    if service.transport == Transport::Tcp && service.more_tries != Retry::DEFAULT_ATTEMPTS {
        let more = service.more_tries;
        parts.push(format!("{} tries", u16::from(more) + 1));
    }
    if !service.route.is_empty() {
        parts.push(format!("{}Route {}", service.transport, service.route));
    }
    parts.join("; ")
}

/// Which requests a rule is for.
fn requests(rule: &Rule) -> String {
    let mut parts = vec![host(&rule.host), path(&rule.matches.path)];
    parts.extend(conditions(&rule.matches));
    parts.join("  ")
}

/// Where they go, how often they are tried and how long they may take if not as usual, and which route they are of.
fn destination(rule: &Rule, labels: &[String]) -> String {
    let mut parts = vec![match rule.handling.redirect() {
        Some(redirect) => format!("elsewhere: {}", redirect.status),
        None => handled(&rule.handling, labels),
    }];
    parts.extend(mirrors(&rule.handling, labels));
    let retry = rule.handling.retry;
    if retry != Retry::default() {
        parts.push(tries(retry));
    }
    parts.extend(limits(rule.handling.timeouts));
    let origin = &rule.origin;
    if !origin.name.is_empty() {
        parts.push(format!(
            "rules[{}] of {}/{}",
            origin.rule, origin.namespace, origin.name
        ));
    }
    parts.join("; ")
}

fn host(host: &Host) -> String {
    match host {
        Host::Any => "*".to_owned(),
        Host::Exact(name) => name.to_string(),
        Host::Wildcard(suffix) => format!("*{suffix}"),
    }
}

fn path(path: &PathMatch) -> String {
    match path {
        PathMatch::Any => "/*".to_owned(),
        PathMatch::Exact(path) => shortened(path, CONDITION),
        PathMatch::Prefix(prefix) => shortened(prefix, CONDITION) + "/*",
        PathMatch::Regex(pattern) => format!("~ {}", shortened(pattern.as_str(), CONDITION)),
    }
}

/// What a request must have besides host and path.
fn conditions(matches: &Match) -> Vec<String> {
    let field = |what: &str, field: &FieldMatch| {
        let sign = match field.value {
            Pattern::Exact(_) => "=",
            Pattern::Regex { .. } => "~",
        };
        let text = format!("{what} {}{sign}{}", field.name, field.value.as_str());
        shortened(&text, CONDITION)
    };
    let method = matches.method.iter().map(|method| method.to_string());
    let headers = matches.headers.iter().map(|one| field("header", one));
    let query = matches.query.iter().map(|one| field("query", one));
    method.chain(headers).chain(query).collect()
}

fn handled(handling: &Handling, labels: &[String]) -> String {
    let shares: Vec<(usize, u64)> = handling.split.weights().collect();
    match shares[..] {
        [] => "nowhere: 500".to_owned(),
        _ => backends(&shares, labels),
    }
}

/// Backends, with their weights where there are several.
fn backends(shares: &[(usize, u64)], labels: &[String]) -> String {
    let label = |place: usize| labels.get(place).map_or("?", String::as_str);
    if let [(only, _)] = shares {
        return label(*only).to_owned();
    }
    let each = shares.iter();
    let each: Vec<String> = each
        .map(|(place, weight)| format!("{} ({weight})", label(*place)))
        .collect();
    each.join(", ")
}

/// Who else gets requests, and of all how many.
fn mirrors(handling: &Handling, labels: &[String]) -> Vec<String> {
    let of_shares = handling.split.filters();
    let filters = handling.filters.iter().chain(of_shares);
    let mut texts = Vec::new();
    for mirror in filters.flat_map(|filters| &filters.mirrors) {
        let label = labels.get(mirror.backend).map_or("?", String::as_str);
        let text = match mirror.fraction {
            Fraction::ALL => format!("mirrored to {label}"),
            part => format!("{} % mirrored to {label}", part.percent()),
        };
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    texts
}

/// How long a request may take, and one try of it.
fn limits(timeouts: Timeouts) -> impl Iterator<Item = String> {
    let request = timeouts.request.map(|most| format!("{most:?} in all"));
    let attempt = timeouts.backend_request;
    let attempt = attempt.map(|most| format!("{most:?} a try"));
    request.into_iter().chain(attempt)
}

/// How often a request is tried in all, and after what.
fn tries(retry: Retry) -> String {
    match (retry.attempts, retry.on) {
        (0, _) => "1 try".to_owned(),
        (more, RetryOn::NoConnection) => {
            format!("{} tries if no connection stands", u16::from(more) + 1)
        }
        (more, RetryOn::Failure(_)) => format!("{} tries", u16::from(more) + 1),
    }
}

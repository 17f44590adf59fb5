//! Names become what they name: listeners with the rules of the routes attached to them, backends with their endpoints.

use std::collections::HashMap;
use std::sync::Arc;

use super::reader::{Cursor, closest};
use super::resolve_backends::Backends;
use super::resolve_filters;
use super::resolve_l4::{self, L4Handling};
use super::resolve_listeners::{ListenerPlaces, Listeners};
use super::resolve_policies::{self, Way};
use super::resources::{
    Gateway, GatewayListener, HttpRoute, Id, L4Route, ParentRef, PolicyTargetKind, Protocol,
    Resources, RouteRule,
};
use crate::balance::Locality;
use crate::route::{Handling, Host, Origin, Rule, Split};
use crate::snapshot::Plan;

/// What the resources ask for, with where its listeners stand. Where any has a problem, it is not what they ask for.
pub fn plan<'r>(
    resources: &'r Resources<'r>,
    own: Option<&'r Locality>,
) -> (Plan, ListenerPlaces<'r>) {
    let gateways = resources.gateways.iter();
    let mut attachment = Attachment {
        gateways: gateways.map(|gateway| (&gateway.id, gateway)).collect(),
        listeners: Listeners::new(&resources.gateways),
        backends: Backends::new(resources, own),
    };
    for route in &resources.routes {
        for backend in route.rules.iter().flat_map(|rule| &rule.backends) {
            let unserved = "its requests are answered with 503";
            attachment.backends.find(backend, unserved);
        }
        for mirror in route.rules.iter().flat_map(RouteRule::mirrors) {
            let unserved = "copies of requests for it are dropped";
            attachment.backends.find(&mirror.backend, unserved);
        }
        for parent in &route.parents {
            attachment.attach(route, parent);
        }
    }
    for route in &resources.l4_routes {
        for backend in &route.backends {
            let unserved = "its clients are turned away";
            attachment.backends.find(backend, unserved);
        }
        for parent in &route.parents {
            attachment.attach_l4(route, parent);
        }
    }
    attachment.backends.report_unknown(resources);
    resolve_policies::report_unknown(resources);
    let places = attachment.listeners.places();
    let (listeners, l4_services) = attachment.listeners.finish();
    let plan = Plan {
        listeners,
        l4_services,
        backends: attachment.backends.into_plans(),
        ..Plan::default()
    };
    (plan, places)
}

/// Routes on their way to become rules of listeners.
struct Attachment<'r> {
    gateways: HashMap<&'r Id, &'r Gateway<'r>>,
    listeners: Listeners<'r>,
    backends: Backends<'r>,
}

impl<'r> Attachment<'r> {
    /// Adds the rules of a route to the listeners that it names as a parent.
    fn attach(&mut self, route: &'r HttpRoute<'r>, parent: &ParentRef<'_>) {
        let Some((gateway, open)) = self.open_listeners(&route.id, Protocol::Http, parent) else {
            return;
        };
        let mut is_attached = false;
        for listener in open {
            let hosts = common_hosts(&listener.host, &route.hosts);
            is_attached |= !hosts.is_empty();
            let rules = self.rules(route, gateway, listener.name, parent);
            let way = (&gateway.id, listener.name);
            self.listeners.attach(way, &route.id, &hosts, &rules);
        }
        if !is_attached {
            parent.cursor.error(format!(
                "no hostname of the route is one of the listeners of Gateway {}; make them overlap",
                gateway.id
            ));
        }
    }

    /// Has the listeners that a TCPRoute or UDPRoute names as a parent served by it.
    fn attach_l4(&mut self, route: &'r L4Route<'r>, parent: &ParentRef<'_>) {
        let protocol = Protocol::L4(route.transport);
        let Some((gateway, open)) = self.open_listeners(&route.id, protocol, parent) else {
            return;
        };
        for listener in open {
            let way = Way {
                gateway: &gateway.id,
                listener: listener.name,
                route: (protocol.route_kind(), &route.id),
                rule: route.rule_name,
            };
            let said = self.backends.on_the_way(&way);
            let retry = said.retry.map(|said| said.value).unwrap_or_default();
            let reads_header = said.reads_header.is_some_and(|said| said.value);
            let mut shares = Vec::new();
            for backend in &route.backends {
                if let Some(place) = self.backends.place(backend, &way) {
                    let policy = self.backends.policy(place);
                    resolve_l4::check_policy(backend, route.transport, policy);
                    let is_anywhere = gateway.addresses.iter().any(|(ip, _)| ip.is_unspecified());
                    if policy.sends_header.is_some() && is_anywhere && !reads_header {
                        backend.cursor.error(format!(
                            "is sent PROXY headers, which say what clients connect to; give Gateway {} `addresses`",
                            gateway.id
                        ));
                    }
                    shares.push((place, backend.weight));
                }
            }
            let handling = L4Handling {
                split: Split::new(shares),
                retry,
                reads_header,
            };
            let way = (&gateway.id, listener.name);
            let l4 = &mut self.listeners.l4;
            l4.attach(way, route, parent, &handling);
        }
    }

    /// The Gateway a route names as a parent, and those listeners of it that take the route; if there are none, that is
    /// reported.
    fn open_listeners(
        &self,
        route: &Id,
        protocol: Protocol,
        parent: &ParentRef<'_>,
    ) -> Option<(&'r Gateway<'r>, Vec<&'r GatewayListener<'r>>)> {
        let Some(gateway) = self.gateways.get(&parent.gateway).copied() else {
            let known = self.gateways.keys().copied();
            let message = missing(&parent.cursor, "Gateway", &parent.gateway, known)?;
            parent.cursor.error(message);
            return None;
        };
        let mut listeners: Vec<&GatewayListener<'_>> = gateway
            .listeners
            .iter()
            .filter(|listener| parent.section.is_none_or(|name| name == listener.name))
            .filter(|listener| parent.port.is_none_or(|port| port == listener.port))
            .collect();
        if listeners.is_empty() {
            // The one that is meant may be one with a problem of its own.
            if gateway.is_whole {
                let names: Vec<&str> = gateway.listeners.iter().map(|one| one.name).collect();
                parent.cursor.error(format!(
                    "Gateway {} has no such listener; it has {}",
                    gateway.id,
                    names.join(", ")
                ));
            }
            return None;
        }
        listeners.retain(|listener| listener.protocol == protocol);
        if listeners.is_empty() {
            if gateway.is_whole || parent.section.is_some() {
                parent.cursor.error(format!(
                    "Gateway {} has no such listener for {}s; add one with `protocol: {}`",
                    gateway.id,
                    protocol.route_kind().name(),
                    protocol.name(),
                ));
            }
            return None;
        }
        listeners.retain(|listener| listener.is_open || gateway.id.namespace == route.namespace);
        if listeners.is_empty() {
            parent.cursor.error(format!(
                "Gateway {} takes no routes of namespace {}; set `allowedRoutes.namespaces.from: All` there",
                gateway.id, route.namespace
            ));
            return None;
        }
        Some((gateway, listeners))
    }

    /// The rules of a route for requests that come this way, for any host.
    fn rules(
        &mut self,
        route: &'r HttpRoute<'r>,
        gateway: &'r Gateway<'r>,
        listener: &'r str,
        parent: &ParentRef<'_>,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (place, rule) in route.rules.iter().enumerate() {
            let way = Way {
                gateway: &gateway.id,
                listener,
                route: (PolicyTargetKind::Route, &route.id),
                rule: rule.name,
            };
            let said = self.backends.on_the_way(&way);
            if let Some(accept) = said.reads_header.as_ref().filter(|said| said.value) {
                parent.cursor.error(format!(
                    "listener {listener} is to accept PROXY headers, as {} says, which HTTP listeners do not yet; name a TCP listener there",
                    accept.by
                ));
            }
            for backend in &rule.backends {
                if let Some(place) = self.backends.place(backend, &way) {
                    resolve_l4::check_http_policy(backend, self.backends.policy(place));
                }
            }
            let retry = rule.retry.or(said.retry.map(|said| said.value));
            let timeouts = rule.timeouts.or(said.timeouts.map(|said| said.value));
            let handling = Arc::new(Handling {
                retry: retry.unwrap_or_default(),
                timeouts: timeouts.unwrap_or_default(),
                ..resolve_filters::handling(rule, &mut self.backends, &way)
            });
            rules.extend(rule.matches.iter().map(|matches| Rule {
                host: Host::Any,
                matches: matches.clone(),
                origin: Origin {
                    created: route.created.clone(),
                    namespace: route.id.namespace.as_str().into(),
                    name: route.id.name.as_str().into(),
                    rule: place,
                },
                handling: Arc::clone(&handling),
            }));
        }
        rules
    }
}

/// The hosts of a route that a listener serves.
fn common_hosts(listener: &Host, route: &[Host]) -> Vec<Host> {
    match route {
        [] => vec![listener.clone()],
        hosts => hosts.iter().filter_map(|host| host.and(listener)).collect(),
    }
}

/// Says that a name names nothing; `None` if it names a document that could not be read.
pub fn missing<'i>(
    at: &Cursor<'_>,
    kind: &str,
    id: &Id,
    known: impl ExactSizeIterator<Item = &'i Id>,
) -> Option<String> {
    if at.context.problems.has_seen(&format!("{kind} {id}")) {
        return None;
    }
    let known: Vec<String> = match at.context.problems.may_guess(known.len()) {
        true => known.map(Id::to_string).collect(),
        false => Vec::new(),
    };
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    Some(match closest(&id.to_string(), &known) {
        Some(meant) => format!("there is no {kind} {id}; did you mean {meant}?"),
        None => format!("there is no {kind} {id}; add it, or correct the name"),
    })
}

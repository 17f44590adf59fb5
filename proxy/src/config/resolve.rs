//! Names become what they name: listeners with the rules of the routes attached to them, backends with their endpoints.

use std::collections::HashMap;
use std::sync::Arc;

use super::reader::closest;
use super::resolve_backends::Backends;
use super::resolve_listeners::Listeners;
use super::resolve_policies::{self, Way};
use super::resources::{
    BackendRef, Gateway, GatewayListener, HttpRoute, Id, ParentRef, Resources, RouteRule,
};
use crate::balance::Locality;
use crate::route::{Filters, Handling, Host, Origin, Portion, Rule, Split};
use crate::snapshot::Plan;

/// What the resources ask for. Where any has a problem, it is not what they ask for.
pub fn plan(resources: &Resources<'_>, own: Option<&Locality>) -> Plan {
    let gateways = resources.gateways.iter();
    let mut attachment = Attachment {
        gateways: gateways.map(|gateway| (&gateway.id, gateway)).collect(),
        listeners: Listeners::new(&resources.gateways),
        backends: Backends::new(resources, own),
    };
    for route in &resources.routes {
        for backend in route.rules.iter().flat_map(|rule| &rule.backends) {
            attachment.backends.find(backend);
        }
        for parent in &route.parents {
            attachment.attach(route, parent);
        }
    }
    attachment.backends.report_unknown(resources);
    resolve_policies::report_unknown(resources);
    Plan {
        listeners: attachment.listeners.finish(),
        backends: attachment.backends.into_plans(),
    }
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
        let Some(gateway) = self.gateways.get(&parent.gateway).copied() else {
            let known = self.gateways.keys().copied();
            let message = missing("Gateway", &parent.gateway, known);
            return parent.cursor.error(message);
        };
        let Some(open) = open_listeners(gateway, route, parent) else {
            return;
        };
        let mut is_attached = false;
        for listener in open {
            let hosts = common_hosts(&listener.host, &route.hosts);
            is_attached |= !hosts.is_empty();
            let rules = self.rules(route, gateway, listener.name);
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

    /// The rules of a route for requests that come this way, for any host.
    fn rules(
        &mut self,
        route: &'r HttpRoute<'r>,
        gateway: &'r Gateway<'r>,
        listener: &'r str,
    ) -> Vec<Rule> {
        let mut rules = Vec::new();
        for (place, rule) in route.rules.iter().enumerate() {
            let way = Way {
                gateway: &gateway.id,
                listener,
                route: &route.id,
                rule: rule.name,
            };
            let said = self.backends.on_the_way(&way);
            let retry = rule.retry.or(said.retry.map(|said| said.value));
            let timeouts = rule.timeouts.or(said.timeouts.map(|said| said.value));
            let portions = rule.backends.iter().filter_map(|backend| {
                Some(Portion {
                    backend: self.backends.place(&backend.target, &way)?,
                    weight: backend.weight,
                    filters: filters_of(rule, backend),
                })
            });
            let handling = Arc::new(Handling {
                retry: retry.unwrap_or_default(),
                timeouts: timeouts.unwrap_or_default(),
                filters: rule.filters.clone(),
                ..Split::of(portions).into()
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

/// What is done to requests of this backend, if it differs from what is done to those of the others.
fn filters_of(rule: &RouteRule<'_>, backend: &BackendRef<'_>) -> Option<Arc<Filters>> {
    let own = backend.filters.as_ref()?;
    Some(match &rule.filters {
        Some(common) => Arc::new(common.followed_by(own)),
        None => Arc::clone(own),
    })
}

/// The listeners a route may attach to; if there are none, that is reported.
fn open_listeners<'r>(
    gateway: &'r Gateway<'r>,
    route: &HttpRoute<'_>,
    parent: &ParentRef<'_>,
) -> Option<Vec<&'r GatewayListener<'r>>> {
    let named: Vec<&GatewayListener<'_>> = gateway
        .listeners
        .iter()
        .filter(|listener| parent.section.is_none_or(|name| name == listener.name))
        .filter(|listener| parent.port.is_none_or(|port| port == listener.port))
        .collect();
    if named.is_empty() {
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
    let open: Vec<&GatewayListener<'_>> = named
        .into_iter()
        .filter(|listener| listener.is_open || gateway.id.namespace == route.id.namespace)
        .collect();
    if open.is_empty() {
        parent.cursor.error(format!(
            "Gateway {} takes no routes of namespace {}; set `allowedRoutes.namespaces.from: All` there",
            gateway.id, route.id.namespace
        ));
        return None;
    }
    Some(open)
}

/// The hosts of a route that a listener serves.
fn common_hosts(listener: &Host, route: &[Host]) -> Vec<Host> {
    match route {
        [] => vec![listener.clone()],
        hosts => hosts.iter().filter_map(|host| host.and(listener)).collect(),
    }
}

/// Says that a name names nothing.
pub fn missing<'i>(kind: &str, id: &Id, known: impl Iterator<Item = &'i Id>) -> String {
    let known: Vec<String> = known.map(Id::to_string).collect();
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    match closest(&id.to_string(), &known) {
        Some(meant) => format!("there is no {kind} {id}; did you mean {meant}?"),
        None => format!("there is no {kind} {id}; add it, or correct the name"),
    }
}

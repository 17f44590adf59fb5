//! Names become what they name: listeners with the rules of the routes attached to them, backends with their endpoints.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use super::reader::closest;
use super::resolve_backends::Backends;
use super::resources::{Gateway, GatewayListener, HttpRoute, Id, ParentRef, Resources};
use crate::balance::Locality;
use crate::route::{Host, Origin, Rule, Rules, Split};
use crate::snapshot::{Listener, Plan};

/// What the resources ask for. Where any has a problem, it is not what they ask for.
pub fn plan(resources: &Resources<'_>, own: Option<&Locality>) -> Plan {
    let mut backends = Backends::new(resources, own);
    let mut listeners = Listeners::default();
    for gateway in &resources.gateways {
        listeners.add(gateway);
    }
    for route in &resources.routes {
        let rules = rules_of(route, &mut backends);
        attach(route, &rules, resources, &mut listeners);
    }
    backends.report_unknown();
    Plan {
        listeners: listeners.finish(),
        backends: backends.into_plans(),
    }
}

/// The rules of a route, for any host.
fn rules_of(route: &HttpRoute<'_>, backends: &mut Backends<'_>) -> Vec<Rule> {
    let mut rules = Vec::new();
    for (place, rule) in route.rules.iter().enumerate() {
        let shares = rule
            .backends
            .iter()
            .filter_map(|backend| Some((backends.place(backend)?, backend.weight)));
        let handling = Arc::new(Split::new(shares).into());
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

/// Adds the rules to all listeners that the route names as parents.
fn attach(
    route: &HttpRoute<'_>,
    rules: &[Rule],
    resources: &Resources<'_>,
    listeners: &mut Listeners<'_>,
) {
    for parent in &route.parents {
        let Some(gateway) = find_gateway(parent, resources) else {
            continue;
        };
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
            continue;
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
            continue;
        }
        let mut is_attached = false;
        for listener in open {
            let hosts = common_hosts(&listener.host, &route.hosts);
            is_attached |= !hosts.is_empty();
            listeners.attach(&gateway.id, listener.name, &route.id, &hosts, rules);
        }
        if !is_attached {
            parent.cursor.error(format!(
                "no hostname of the route is one of the listeners of Gateway {}; make them overlap",
                gateway.id
            ));
        }
    }
}

fn find_gateway<'r, 'a>(
    parent: &ParentRef<'a>,
    resources: &'r Resources<'a>,
) -> Option<&'r Gateway<'a>> {
    let found = resources
        .gateways
        .iter()
        .find(|gateway| gateway.id == parent.gateway);
    if found.is_none() {
        let ids = resources.gateways.iter().map(|gateway| &gateway.id);
        parent
            .cursor
            .error(missing("Gateway", &parent.gateway, ids));
    }
    found
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

/// Listeners with the rules attached so far.
#[derive(Default)]
struct Listeners<'r> {
    list: Vec<Pending<'r>>,
    /// Where each address was first listened on.
    taken: HashMap<SocketAddr, String>,
}

struct Pending<'r> {
    gateway: &'r Id,
    listener: &'r GatewayListener<'r>,
    address: SocketAddr,
    routes: Vec<Id>,
    rules: Vec<Rule>,
}

impl<'r> Listeners<'r> {
    fn add(&mut self, gateway: &'r Gateway<'r>) {
        for listener in &gateway.listeners {
            for ip in &gateway.addresses {
                let address = SocketAddr::new(*ip, listener.port);
                if let Some(first) = self.taken.get(&address) {
                    listener.at_port.error(format!(
                        "{address} is listened on already at {first}; choose another port, or one listener and routes with hostnames"
                    ));
                    continue;
                }
                self.taken.insert(address, listener.at_port.place());
                self.list.push(Pending {
                    gateway: &gateway.id,
                    listener,
                    address,
                    routes: Vec::new(),
                    rules: Vec::new(),
                });
            }
        }
    }

    /// A route that names a listener twice is attached once.
    fn attach(&mut self, gateway: &Id, name: &str, route: &Id, hosts: &[Host], rules: &[Rule]) {
        for pending in &mut self.list {
            let is_meant = pending.gateway == gateway && pending.listener.name == name;
            if !is_meant || pending.routes.contains(route) {
                continue;
            }
            pending.routes.push(route.clone());
            for host in hosts {
                pending.rules.extend(rules.iter().map(|rule| Rule {
                    host: host.clone(),
                    ..rule.clone()
                }));
            }
        }
    }

    fn finish(self) -> Vec<Listener> {
        let finished = self.list.into_iter().map(|pending| {
            if pending.routes.is_empty() {
                pending
                    .listener
                    .at_port
                    .warning("no route is attached: all requests are answered with 404");
            }
            Listener {
                address: pending.address,
                rules: Rules::new(pending.rules),
            }
        });
        finished.collect()
    }
}

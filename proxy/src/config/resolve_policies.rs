//! Policies by what they are about, and which of them hold for a backend on the way requests take to it.

use std::collections::HashMap;

use super::reader::closest;
use super::resolve::missing;
use super::resources::{
    BackendTarget, Gateway, HttpRoute, Id, L4Route, PolicyTarget, PolicyTargetKind, Resources,
    Section, Service,
};
use super::treatment::Treatment;
use crate::snapshot::Transport;

/// The way requests take to a backend.
#[derive(Clone, Copy, Debug)]
pub struct Way<'r> {
    pub gateway: &'r Id,
    pub listener: &'r str,
    /// Its kind, and its name.
    pub route: (PolicyTargetKind, &'r Id),
    pub rule: Option<&'r str>,
}

/// What all policies say, by what they say it of.
pub struct Policies<'r> {
    said: HashMap<Key<'r>, Treatment>,
}

type Key<'r> = (PolicyTargetKind, &'r Id, Section<'r>);

impl<'r> Policies<'r> {
    /// Two policies cannot say the same part of one target.
    pub fn new(resources: &'r Resources<'r>) -> Self {
        let mut said: HashMap<Key<'r>, Treatment> = HashMap::new();
        for policy in &resources.policies {
            for target in &policy.targets {
                let key = (target.kind, &target.id, target.section);
                let of_target = said.entry(key).or_default();
                for (part, _) in policy.treatment.parts() {
                    if let Some((_, first)) = of_target.parts().find(|(name, _)| *name == part) {
                        target.cursor.error(format!(
                            "has its `{part}` from {first} already; leave one out"
                        ));
                    }
                }
                *of_target = std::mem::take(of_target).or(&policy.treatment);
            }
        }
        Self { said }
    }

    /// What holds for a backend of which this is said where it is referred to, and by itself. Of each part the most
    /// specific word counts: that, then policies of the rule, the route, the backend or Service, the listener, the gateway.
    pub fn treatment(&self, backend: &BackendTarget, own: &Treatment, way: &Way<'_>) -> Treatment {
        use PolicyTargetKind::{Backend, Service};
        let whole = Section::Whole;
        let (of_port, of_backend) = match backend {
            BackendTarget::Service { id, port, .. } => (
                Some((Service, id, Section::Port(*port))),
                (Service, id, whole),
            ),
            BackendTarget::Backend(id) => (None, (Backend, id, whole)),
        };
        let [of_rule, of_route, of_listener, of_gateway] = keys(way);
        let most_specific_first = [
            of_rule,
            of_route,
            of_port,
            Some(of_backend),
            of_listener,
            of_gateway,
        ];
        self.merged(own.clone(), &most_specific_first)
    }

    /// What holds for the requests that come this way, whatever backend they go to.
    pub fn on_the_way(&self, way: &Way<'_>) -> Treatment {
        self.merged(Treatment::default(), &keys(way))
    }

    fn merged(&self, own: Treatment, most_specific_first: &[Option<Key<'_>>]) -> Treatment {
        let keys = most_specific_first.iter().flatten();
        let said = keys.filter_map(|key| self.said.get(key));
        said.fold(own, Treatment::or)
    }
}

/// What policies about a way may be about, the most specific first.
fn keys<'w>(way: &Way<'w>) -> [Option<Key<'w>>; 4] {
    use PolicyTargetKind::Gateway;
    let whole = Section::Whole;
    let (kind, route) = way.route;
    [
        way.rule.map(|rule| (kind, route, Section::Name(rule))),
        Some((kind, route, whole)),
        Some((Gateway, way.gateway, Section::Name(way.listener))),
        Some((Gateway, way.gateway, whole)),
    ]
}

/// Reports policies about what is not there.
pub fn report_unknown(resources: &Resources<'_>) {
    let known = Known::new(resources);
    for target in resources.policies.iter().flat_map(|one| &one.targets) {
        if let Some(problem) = known.problem(target) {
            target.cursor.error(problem);
        }
    }
}

struct Known<'r> {
    gateways: HashMap<&'r Id, &'r Gateway<'r>>,
    routes: HashMap<&'r Id, &'r HttpRoute<'r>>,
    tcp_routes: HashMap<&'r Id, &'r L4Route<'r>>,
    udp_routes: HashMap<&'r Id, &'r L4Route<'r>>,
    services: HashMap<&'r Id, &'r Service<'r>>,
    backends: HashMap<&'r Id, ()>,
}

impl<'r> Known<'r> {
    fn new(resources: &'r Resources<'r>) -> Self {
        let backends = resources.backends.iter();
        let l4_routes = |transport| {
            let routes = resources.l4_routes.iter();
            let routes = routes.filter(move |route| route.transport == transport);
            routes.map(|route| (&route.id, route)).collect()
        };
        Self {
            tcp_routes: l4_routes(Transport::Tcp),
            udp_routes: l4_routes(Transport::Udp),
            gateways: resources
                .gateways
                .iter()
                .map(|one| (&one.id, one))
                .collect(),
            routes: resources.routes.iter().map(|one| (&one.id, one)).collect(),
            services: resources
                .services
                .iter()
                .map(|one| (&one.id, one))
                .collect(),
            backends: backends.map(|one| (&one.id, ())).collect(),
        }
    }

    fn problem(&self, target: &PolicyTarget<'_>) -> Option<String> {
        let (id, kind) = (&target.id, target.kind.name());
        match target.kind {
            PolicyTargetKind::Gateway => {
                let Some(gateway) = self.gateways.get(id) else {
                    return missing(&target.cursor, kind, id, self.gateways.keys().copied());
                };
                let names = gateway.listeners.iter().map(|listener| listener.name);
                let names = names.collect::<Vec<_>>();
                missing_name(target, "listener", &names).filter(|_| gateway.is_whole)
            }
            PolicyTargetKind::Route => {
                let Some(route) = self.routes.get(id) else {
                    return missing(&target.cursor, kind, id, self.routes.keys().copied());
                };
                let names: Vec<&str> = route.rules.iter().filter_map(|rule| rule.name).collect();
                missing_name(target, "rule", &names).filter(|_| route.is_whole)
            }
            PolicyTargetKind::TcpRoute => Self::l4_problem(&self.tcp_routes, target),
            PolicyTargetKind::UdpRoute => Self::l4_problem(&self.udp_routes, target),
            PolicyTargetKind::Service => {
                let Some(service) = self.services.get(id) else {
                    return missing(&target.cursor, kind, id, self.services.keys().copied());
                };
                match target.section {
                    Section::Port(port) => service.missing_port(port, None),
                    _ => None,
                }
            }
            PolicyTargetKind::Backend => match self.backends.contains_key(id) {
                true => None,
                false => missing(&target.cursor, kind, id, self.backends.keys().copied()),
            },
        }
    }

    fn l4_problem(
        routes: &HashMap<&Id, &L4Route<'_>>,
        target: &PolicyTarget<'_>,
    ) -> Option<String> {
        match routes.get(&target.id) {
            Some(route) => missing_name(target, "rule", route.rule_name.as_slice()),
            None => missing(
                &target.cursor,
                target.kind.name(),
                &target.id,
                routes.keys().copied(),
            ),
        }
    }
}

/// Says that a section names nothing.
fn missing_name(target: &PolicyTarget<'_>, what: &str, names: &[&str]) -> Option<String> {
    let Section::Name(name) = target.section else {
        return None;
    };
    if names.contains(&name) {
        return None;
    }
    let remedy = match (closest(name, names), names) {
        (Some(meant), _) => format!("did you mean {meant}?"),
        (None, []) => "none of its own has a name".to_owned(),
        (None, names) => format!("it has {}", names.join(", ")),
    };
    let (kind, id) = (target.kind.name(), &target.id);
    Some(format!("{kind} {id} has no {what} {name}; {remedy}"))
}

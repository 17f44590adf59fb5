//! Backends that routes refer to, with their endpoints and the policy that holds for them.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::locality::completed;
use super::resolve::missing;
use super::resources::{
    BackendRef, BackendTarget, EndpointSlice, Id, PolicyTargetKind, Readiness, Resources, Service,
    ServicePort, StaticBackend,
};
use super::treatment::Treatment;
use crate::balance::{BackendKind, Locality, LocalityPolicy, Weight};
use crate::snapshot::{BackendPlan, BackendPolicy, Target};

pub struct Backends<'r> {
    resources: &'r Resources<'r>,
    /// Where the proxy stands, if it knows.
    own: Option<&'r Locality>,
    services: HashMap<&'r Id, &'r Service<'r>>,
    slices: HashMap<&'r Id, Vec<&'r EndpointSlice<'r>>>,
    statics: HashMap<&'r Id, &'r StaticBackend>,
    policies: HashMap<(PolicyTargetKind, &'r Id), Treatment>,
    places: HashMap<BackendTarget, usize>,
    plans: Vec<BackendPlan>,
}

impl<'r> Backends<'r> {
    pub fn new(resources: &'r Resources<'r>, own: Option<&'r Locality>) -> Self {
        let mut slices: HashMap<&Id, Vec<&EndpointSlice<'_>>> = HashMap::new();
        for slice in &resources.slices {
            slices.entry(&slice.service).or_default().push(slice);
        }
        let services = resources.services.iter();
        let statics = resources.backends.iter();
        Self {
            resources,
            own,
            services: services.map(|service| (&service.id, service)).collect(),
            slices,
            statics: statics.map(|backend| (&backend.id, backend)).collect(),
            policies: by_target(resources),
            places: HashMap::new(),
            plans: Vec::new(),
        }
    }

    /// The place of the backend referred to.
    pub fn place(&mut self, reference: &BackendRef<'_>) -> Option<usize> {
        if let Some(place) = self.places.get(&reference.target) {
            return Some(*place);
        }
        let plan = match &reference.target {
            BackendTarget::Service { id, port } => self.service(reference, id, *port),
            BackendTarget::Backend(id) => self.static_backend(reference, id),
        }?;
        let place = self.plans.len();
        self.plans.push(plan);
        self.places.insert(reference.target.clone(), place);
        Some(place)
    }

    pub fn into_plans(self) -> Vec<BackendPlan> {
        self.plans
    }

    /// Reports what names a Service or backend that is not there, other than routes.
    pub fn report_unknown(&self) {
        for slice in &self.resources.slices {
            if !self.services.contains_key(&slice.service) {
                let known = self.services.keys().copied();
                let message = missing("Service", &slice.service, known);
                slice.cursor.error(message);
            }
        }
        for target in self.resources.policies.iter().flat_map(|one| &one.targets) {
            let is_known = match target.kind {
                PolicyTargetKind::Service => self.services.contains_key(&target.id),
                PolicyTargetKind::Backend => self.statics.contains_key(&target.id),
            };
            if is_known {
                continue;
            }
            target.cursor.error(match target.kind {
                PolicyTargetKind::Service => {
                    missing("Service", &target.id, self.services.keys().copied())
                }
                PolicyTargetKind::Backend => missing(
                    "AgentgatewayBackend",
                    &target.id,
                    self.statics.keys().copied(),
                ),
            });
        }
    }

    fn service(&self, reference: &BackendRef<'_>, id: &Id, port: u16) -> Option<BackendPlan> {
        let Some(service) = self.services.get(id) else {
            let message = missing("Service", id, self.services.keys().copied());
            reference.cursor.error(message);
            return None;
        };
        let Some(found) = service.ports.iter().find(|one| one.port == port) else {
            let ports: Vec<String> = service
                .ports
                .iter()
                .map(|one| one.port.to_string())
                .collect();
            reference.cursor.error(format!(
                "Service {id} has no port {port}; it has {}",
                ports.join(", ")
            ));
            return None;
        };
        let targets = self.targets(service, found);
        Some(BackendPlan {
            kind: BackendKind::Service,
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            policy: self.policy_of(PolicyTargetKind::Service, id, &Treatment::default()),
            targets,
        })
    }

    /// The endpoints of all slices that may be used: the ready ones; where there are none, those that still answer.
    fn targets(&self, service: &Service<'_>, port: &ServicePort<'_>) -> Vec<Target> {
        let mut candidates = self.candidates(service, port);
        let best = candidates.iter().map(|one| one.readiness).min();
        candidates.retain(|one| Some(one.readiness) == best && one.readiness != Readiness::Unready);
        if candidates.is_empty() {
            service.cursor.warning(format!(
                "has no ready endpoint for port {}: its requests are answered with 503",
                port.port
            ));
            return Vec::new();
        }
        let preference = &service.preference;
        let targets: Vec<Target> = candidates
            .into_iter()
            .filter_map(|one| self.placed(one, preference.policy))
            .collect();
        let Some(cursor) = &preference.cursor else {
            return targets;
        };
        if self.own.is_none() {
            cursor.warning(
                "the proxy does not know where it is, so all endpoints are as near; tell it by --locality and --node-name",
            );
        } else if targets.is_empty() {
            cursor.warning(format!(
                "no endpoint for port {} is where the proxy is: its requests are answered with 503",
                port.port
            ));
        }
        targets
    }

    /// One that stands in two slices, as it may for a while, is one.
    fn candidates<'s>(
        &'s self,
        service: &Service<'_>,
        port: &ServicePort<'_>,
    ) -> Vec<Candidate<'s>> {
        let mut candidates = Vec::new();
        let mut seen = HashSet::new();
        for slice in self.slices.get(&service.id).into_iter().flatten() {
            let Some(port) = slice.ports.iter().find(|one| one.name == port.name) else {
                continue;
            };
            for endpoint in &slice.endpoints {
                let readiness = if service.publishes_unready {
                    Readiness::Ready
                } else {
                    endpoint.readiness
                };
                for ip in &endpoint.addresses {
                    let mut target = Target::at(SocketAddr::new(*ip, port.port), slice.weight);
                    if let Some(key) = &endpoint.key {
                        target.key = key.as_str().into();
                    }
                    if seen.insert((target.key.clone(), target.address)) {
                        candidates.push(Candidate {
                            target,
                            readiness,
                            locality: &endpoint.locality,
                        });
                    }
                }
            }
        }
        candidates
    }

    /// In its bucket; `None` if the Service does not want it.
    fn placed(&self, candidate: Candidate<'_>, policy: LocalityPolicy) -> Option<Target> {
        let locality = match self.own {
            Some(own) => completed(candidate.locality.clone(), own),
            None => candidate.locality.clone(),
        };
        Some(Target {
            bucket: policy.bucket(self.own, &locality)?,
            ..candidate.target
        })
    }

    fn static_backend(&self, reference: &BackendRef<'_>, id: &Id) -> Option<BackendPlan> {
        let Some(backend) = self.statics.get(id) else {
            let message = missing("AgentgatewayBackend", id, self.statics.keys().copied());
            reference.cursor.error(message);
            return None;
        };
        Some(BackendPlan {
            kind: BackendKind::Backend,
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            policy: self.policy_of(PolicyTargetKind::Backend, id, &backend.treatment),
            targets: vec![Target::at(backend.address?, Weight::ONE)],
        })
    }

    /// What stands on a backend itself is more specific than what a policy says of it.
    fn policy_of(&self, kind: PolicyTargetKind, id: &Id, own: &Treatment) -> BackendPolicy {
        let of_policies = self.policies.get(&(kind, id));
        let both = of_policies.map(|policies| own.clone().or(policies));
        both.as_ref().unwrap_or(own).policy()
    }
}

/// An endpoint of a Service, before it is known whether it is used.
struct Candidate<'s> {
    target: Target,
    readiness: Readiness,
    locality: &'s Locality,
}

/// What policies say, by what they say it of. Two cannot say the same part of one target.
fn by_target<'r>(resources: &'r Resources<'r>) -> HashMap<(PolicyTargetKind, &'r Id), Treatment> {
    let mut said: HashMap<_, Treatment> = HashMap::new();
    for policy in &resources.policies {
        for target in &policy.targets {
            let of_target = said.entry((target.kind, &target.id)).or_default();
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
    said
}

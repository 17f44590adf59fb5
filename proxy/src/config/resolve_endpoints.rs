//! Which endpoints of a Service are used, and in which bucket each stands.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;

use super::locality::completed;
use super::resources::{EndpointSlice, Id, Readiness, Resources, Service, ServicePort, SlicePort};
use crate::balance::{Locality, LocalityPolicy};
use crate::snapshot::Target;

pub struct Endpoints<'r> {
    /// Where the proxy stands, if it knows.
    own: Option<&'r Locality>,
    slices: HashMap<&'r Id, Vec<&'r EndpointSlice<'r>>>,
}

/// An endpoint of a Service, before it is known whether it is used.
struct Candidate<'r> {
    target: Target,
    readiness: Readiness,
    locality: &'r Locality,
}

impl<'r> Endpoints<'r> {
    pub fn new(resources: &'r Resources<'r>, own: Option<&'r Locality>) -> Self {
        let mut slices: HashMap<&Id, Vec<&EndpointSlice<'_>>> = HashMap::new();
        for slice in &resources.slices {
            slices.entry(&slice.service).or_default().push(slice);
        }
        Self { own, slices }
    }

    /// The endpoints of all slices that may be used: the ready ones; where there are none, those that still answer.
    pub fn of(&self, service: &Service<'_>, port: &ServicePort<'_>, unserved: &str) -> Vec<Target> {
        let mut candidates = self.candidates(service, port);
        let best = candidates.iter().map(|one| one.readiness).min();
        candidates.retain(|one| Some(one.readiness) == best && one.readiness != Readiness::Unready);
        if candidates.is_empty() {
            service.cursor.warning(format!(
                "has no ready endpoint for port {}: {unserved}",
                port.port
            ));
            return Vec::new();
        }
        let preference = &service.preference;
        let targets: Vec<Target> = candidates
            .into_iter()
            .filter_map(|one| self.placed(one, preference.policy))
            .collect();
        if !targets.is_empty() && targets.iter().all(|one| one.weight.is_drained()) {
            service.cursor.warning(format!(
                "has only endpoints of weight 0 for port {}: {unserved}",
                port.port
            ));
        }
        let Some(cursor) = &preference.cursor else {
            return targets;
        };
        if self.own.is_none() {
            cursor.warning(
                "the proxy does not know where it is, so all endpoints are as near; tell it by --locality and --node-name",
            );
        } else if targets.is_empty() {
            cursor.warning(format!(
                "no endpoint for port {} is where the proxy is: {unserved}",
                port.port
            ));
        }
        targets
    }

    /// One that stands in two slices, as it may for a while, is one.
    fn candidates(&self, service: &Service<'_>, port: &ServicePort<'_>) -> Vec<Candidate<'r>> {
        let mut candidates = Vec::new();
        let mut seen = HashSet::new();
        for slice in self.slices.get(&service.id).into_iter().flatten() {
            let is_meant =
                |one: &&SlicePort<'_>| one.name == port.name && one.transport == port.transport;
            let Some(port) = slice.ports.iter().find(is_meant) else {
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
}

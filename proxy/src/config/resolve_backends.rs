//! Backends that routes refer to, each once for every way it is treated.

use std::collections::HashMap;

use super::resolve::missing;
use super::resolve_endpoints::Endpoints;
use super::resolve_policies::{Policies, Way};
use super::resources::{
    BackendRef, BackendTarget, Id, Resources, Service, ServicePort, StaticBackend,
};
use super::treatment::Treatment;
use crate::balance::{BackendKind, Locality, Weight};
use crate::snapshot::{BackendPlan, BackendPolicy, Target, Transport};

pub struct Backends<'r> {
    endpoints: Endpoints<'r>,
    services: HashMap<&'r Id, &'r Service<'r>>,
    statics: HashMap<&'r Id, &'r StaticBackend>,
    policies: Policies<'r>,
    found: HashMap<&'r BackendTarget, Found>,
    plans: Vec<BackendPlan>,
}

/// A backend that was referred to.
struct Found {
    targets: Vec<Target>,
    /// What it says itself.
    own: Treatment,
    /// Places of its plans: one for each way it is treated.
    places: Vec<usize>,
}

impl<'r> Backends<'r> {
    pub fn new(resources: &'r Resources<'r>, own: Option<&'r Locality>) -> Self {
        let services = resources.services.iter();
        let statics = resources.backends.iter();
        Self {
            endpoints: Endpoints::new(resources, own),
            services: services.map(|service| (&service.id, service)).collect(),
            statics: statics.map(|backend| (&backend.id, backend)).collect(),
            policies: Policies::new(resources),
            found: HashMap::new(),
            plans: Vec::new(),
        }
    }

    /// Whether the backend referred to is there; reported if not. `unserved` says what becomes of its traffic if it has no
    /// endpoint.
    pub fn find(&mut self, reference: &'r BackendRef<'r>, unserved: &str) -> bool {
        if self.found.contains_key(&reference.target) {
            return true;
        }
        let found = match &reference.target {
            BackendTarget::Service {
                id,
                port,
                transport,
            } => self.service(reference, id, (*port, *transport), unserved),
            BackendTarget::Backend(id) => self.static_backend(reference, id),
        };
        let is_there = found.is_some();
        self.found
            .extend(found.map(|found| (&reference.target, found)));
        is_there
    }

    /// The place of a backend referred to on this way; `None` if it was not [found](Self::find).
    pub fn place(&mut self, reference: &'r BackendRef<'r>, way: &Way<'_>) -> Option<usize> {
        let target = &reference.target;
        let found = self.found.get_mut(target)?;
        let own = reference.treatment.clone().or(&found.own);
        let treatment = self.policies.treatment(target, &own, way);
        let policy = treatment.policy();
        let mut places = found.places.iter();
        if let Some(place) = places.find(|place| self.plans[**place].policy == policy) {
            return Some(*place);
        }
        let (kind, id) = match target {
            BackendTarget::Service { id, .. } => (BackendKind::Service, id),
            BackendTarget::Backend(id) => (BackendKind::Backend, id),
        };
        let place = self.plans.len();
        self.plans.push(BackendPlan {
            kind,
            namespace: id.namespace.clone(),
            name: id.name.clone(),
            policy,
            targets: found.targets.clone(),
        });
        found.places.push(place);
        Some(place)
    }

    /// How a backend that was [placed](Self::place) is treated.
    pub fn policy(&self, place: usize) -> &BackendPolicy {
        &self.plans[place].policy
    }

    /// What policies say of the requests that come this way.
    pub fn on_the_way(&self, way: &Way<'_>) -> Treatment {
        self.policies.on_the_way(way)
    }

    pub fn into_plans(self) -> Vec<BackendPlan> {
        self.plans
    }

    /// Reports slices of Services that are not there.
    pub fn report_unknown(&self, resources: &Resources<'_>) {
        for slice in &resources.slices {
            if !self.services.contains_key(&slice.service) {
                let known = self.services.keys().copied();
                let message = missing(&slice.cursor, "Service", &slice.service, known);
                if let Some(message) = message {
                    slice.cursor.error(message);
                }
            }
        }
    }

    fn service(
        &self,
        reference: &BackendRef<'_>,
        id: &Id,
        (port, transport): (u16, Transport),
        unserved: &str,
    ) -> Option<Found> {
        let Some(service) = self.services.get(id) else {
            let message = missing(
                &reference.cursor,
                "Service",
                id,
                self.services.keys().copied(),
            )?;
            reference.cursor.error(message);
            return None;
        };
        let is_meant = |one: &&ServicePort<'_>| one.port == port && one.transport == transport;
        let Some(found) = service.ports.iter().find(is_meant) else {
            let message = service.missing_port(port, Some(transport))?;
            reference.cursor.error(message);
            return None;
        };
        Some(Found {
            targets: self.endpoints.of(service, found, unserved),
            own: Treatment::default(),
            places: Vec::new(),
        })
    }

    fn static_backend(&self, reference: &BackendRef<'_>, id: &Id) -> Option<Found> {
        let Some(backend) = self.statics.get(id) else {
            let message = missing(
                &reference.cursor,
                "AgentgatewayBackend",
                id,
                self.statics.keys().copied(),
            )?;
            reference.cursor.error(message);
            return None;
        };
        Some(Found {
            targets: vec![Target::at(backend.address?, Weight::ONE)],
            own: backend.treatment.clone(),
            places: Vec::new(),
        })
    }
}

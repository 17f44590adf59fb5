//! Service and EndpointSlice: where requests for a Service go. Its cluster IP is never used.

use std::net::IpAddr;

use super::document::{Metadata, checked_name};
use super::locality;
use super::reader::{Cursor, Object};
use super::resources::{
    EndpointSlice, Id, Readiness, Resources, Service, ServicePort, SliceEndpoint, SlicePort,
};
use crate::balance::{Locality, Weight};
use crate::snapshot::Transport;

/// Label of an EndpointSlice that says whose endpoints it holds.
pub const SERVICE_LABEL: &str = "kubernetes.io/service-name";
/// Annotation of an EndpointSlice: weight of each of its endpoints.
pub const WEIGHT_ANNOTATION: &str = "weir.dev/weight";

pub fn read_service<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let cursor = object.cursor.clone();
    let Some(mut spec) = object.required("spec").and_then(|spec| spec.object()) else {
        return;
    };
    // How a cluster reaches the Service; we go to its endpoints.
    spec.ignored(&[
        "allocateLoadBalancerNodePorts",
        "clusterIP",
        "clusterIPs",
        "externalIPs",
        "externalTrafficPolicy",
        "healthCheckNodePort",
        "ipFamilies",
        "ipFamilyPolicy",
        "loadBalancerClass",
        "loadBalancerIP",
        "loadBalancerSourceRanges",
        "selector",
    ]);
    spec.unsupported(&["sessionAffinityConfig", "externalName"]);
    if let Some(kind) = spec.optional("type") {
        let types = [("ClusterIP", ()), ("NodePort", ()), ("LoadBalancer", ())];
        kind.supported_choice(&types, &["ExternalName"]);
    }
    if let Some(affinity) = spec.optional("sessionAffinity") {
        affinity.supported_choice(&[("None", ())], &["ClientIP"]);
    }
    let preference = locality::read_preference(&mut spec);
    let unready = spec.optional("publishNotReadyAddresses");
    let items = spec.items("ports");
    spec.finish();
    let ports: Vec<ServicePort<'a>> = items.iter().filter_map(read_port).collect();
    resources.services.push(Service {
        id: metadata.id,
        is_whole: ports.len() == items.len(),
        ports,
        publishes_unready: unready.and_then(|unready| unready.boolean()) == Some(true),
        preference,
        cursor,
    });
}

fn read_port<'a>(at: &Cursor<'a>) -> Option<ServicePort<'a>> {
    let mut object = at.object()?;
    object.ignored(&["targetPort", "nodePort"]);
    let name = object.optional("name");
    let port = object.required("port").and_then(|port| port.port());
    let transport = read_transport(&mut object);
    object.finish();
    let name = match name {
        Some(name) => name.text()?,
        None => "",
    };
    Some(ServicePort {
        name,
        port: port?,
        transport: transport?,
    })
}

fn read_transport(object: &mut Object<'_>) -> Option<Transport> {
    if let Some(application) = object.optional("appProtocol") {
        application.supported_choice(
            &[("http", ()), ("kubernetes.io/ws", ()), ("tcp", ())],
            &["https", "kubernetes.io/h2c", "grpc"],
        )?;
    }
    match object.optional("protocol") {
        Some(protocol) => {
            let transports = [("TCP", Transport::Tcp), ("UDP", Transport::Udp)];
            protocol.supported_choice(&transports, &["SCTP"])
        }
        None => Some(Transport::Tcp),
    }
}

pub fn read_endpoint_slice<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let cursor = object.cursor.clone();
    let family = object
        .required("addressType")
        .and_then(|family| family.supported_choice(&[("IPv4", false), ("IPv6", true)], &["FQDN"]));
    let ports = object.items("ports");
    let endpoints = object.items("endpoints");
    if endpoints.is_empty() {
        cursor.warning("has no endpoints");
    }
    let namespace = metadata.id.namespace.clone();
    let mut labels = metadata.labels.as_ref().and_then(Cursor::object);
    let service = match (&metadata.labels, &mut labels) {
        // Labels of a wrong type were reported.
        (Some(_), None) => None,
        (_, labels) => read_service_label(&cursor, &namespace, labels.as_mut()),
    };
    let weight = read_weight(&metadata);
    let of_all = labels.map(locality::read_labels).unwrap_or_default();
    let ports: Vec<SlicePort<'a>> = ports.iter().filter_map(read_slice_port).collect();
    let endpoints: Vec<SliceEndpoint> = endpoints
        .iter()
        .filter_map(|endpoint| read_endpoint(endpoint, family?, &namespace, &of_all))
        .collect();
    if let (Some(service), Some(weight)) = (service, weight) {
        resources.slices.push(EndpointSlice {
            cursor,
            service,
            weight,
            ports,
            endpoints,
        });
    }
}

fn read_service_label(
    cursor: &Cursor<'_>,
    namespace: &str,
    labels: Option<&mut Object<'_>>,
) -> Option<Id> {
    let Some(label) = labels.and_then(|labels| labels.optional(SERVICE_LABEL)) else {
        cursor.error(format!(
            "has no label `{SERVICE_LABEL}`; add it with the name of the Service"
        ));
        return None;
    };
    Some(Id::new(namespace, checked_name(&label)?))
}

fn read_weight(metadata: &Metadata<'_>) -> Option<Weight> {
    let Some(annotations) = &metadata.annotations else {
        return Some(Weight::ONE);
    };
    let Some(weight) = annotations.object()?.optional(WEIGHT_ANNOTATION) else {
        return Some(Weight::ONE);
    };
    // Annotations are text.
    let text = weight.text()?;
    let parsed = text.parse().ok().map(Weight::new);
    if parsed.is_none() {
        weight.error(format!(
            "`{text}` is not a weight; write a whole number from 0 to 65535 in quotes"
        ));
    }
    parsed
}

fn read_slice_port<'a>(at: &Cursor<'a>) -> Option<SlicePort<'a>> {
    let mut object = at.object()?;
    let name = object.optional("name");
    let port = object.required("port").and_then(|port| port.port());
    let transport = read_transport(&mut object);
    object.finish();
    let name = match name {
        Some(name) => name.text()?,
        None => "",
    };
    Some(SlicePort {
        name,
        port: port?,
        transport: transport?,
    })
}

fn read_endpoint(
    at: &Cursor<'_>,
    is_v6: bool,
    namespace: &str,
    of_all: &Locality,
) -> Option<SliceEndpoint> {
    let mut object = at.object()?;
    // Hints say where others would send traffic; the Service's own preference decides here.
    object.ignored(&["hostname", "hints", "deprecatedTopology"]);
    let (node, zone) = (object.optional("nodeName"), object.optional("zone"));
    let addresses = object.required("addresses");
    let conditions = object.optional("conditions");
    let target = object.optional("targetRef");
    object.finish();
    let at_addresses = addresses?;
    let addresses = at_addresses.list();
    if addresses.is_empty() {
        at_addresses.error("is empty; add an address");
    }
    let addresses: Vec<IpAddr> = addresses
        .iter()
        .filter_map(|address| read_address(address, is_v6))
        .collect();
    let readiness = match conditions {
        Some(conditions) => read_readiness(&conditions)?,
        None => Readiness::Ready,
    };
    let mut locality = of_all.clone();
    for (part, said) in [(&mut locality.node, node), (&mut locality.zone, zone)] {
        if let Some(said) = said {
            said.text()?.clone_into(part);
        }
    }
    let key = match target {
        Some(target) => read_target(&target, namespace)?,
        None => None,
    };
    Some(SliceEndpoint {
        addresses,
        readiness,
        locality,
        key,
    })
}

fn read_address(at: &Cursor<'_>, is_v6: bool) -> Option<IpAddr> {
    let text = at.text()?;
    let address = text.parse().ok();
    let fits = address.filter(|address: &IpAddr| address.is_ipv6() == is_v6);
    if fits.is_none() {
        let family = if is_v6 { "IPv6" } else { "IPv4" };
        at.error(format!(
            "`{text}` is not an {family} address, which `addressType` says it is"
        ));
    }
    fits
}

/// A condition that is not said is good news (`EndpointConditions` in discovery.k8s.io/v1).
fn read_readiness(at: &Cursor<'_>) -> Option<Readiness> {
    let mut object = at.object()?;
    let mut condition = |key, unsaid| match object.optional(key) {
        Some(condition) => condition.boolean(),
        None => Some(unsaid),
    };
    let ready = condition("ready", true);
    let serving = condition("serving", ready == Some(true));
    let terminating = condition("terminating", false);
    object.finish();
    Some(match (ready?, serving?, terminating?) {
        (true, _, _) => Readiness::Ready,
        (false, true, true) => Readiness::Leaving,
        (false, _, _) => Readiness::Unready,
    })
}

/// Who the endpoint is: a Pod. Of other kinds the address says it.
fn read_target(at: &Cursor<'_>, namespace: &str) -> Option<Option<String>> {
    let mut object = at.object()?;
    object.ignored(&["apiVersion", "uid", "resourceVersion", "fieldPath"]);
    let kind = object.required("kind").and_then(|kind| kind.text());
    let name = object.required("name").and_then(|name| checked_name(&name));
    let namespace = match object.optional("namespace") {
        Some(namespace) => checked_name(&namespace),
        None => Some(namespace),
    };
    object.finish();
    let (kind, name, namespace) = (kind?, name?, namespace?);
    Some((kind == "Pod").then(|| format!("//Pod/{namespace}/{name}")))
}

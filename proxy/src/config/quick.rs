//! The documents that say what `--listen` and `--to` say, so that a first experiment becomes a file.

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};

use super::service::{SERVICE_LABEL, WEIGHT_ANNOTATION};
use crate::affinity::Affinity;
use crate::balance::Scoring;
use crate::snapshot::Target;

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuickError {
    #[error("--listen {0}: a document needs the port; give one instead of 0")]
    AnyPort(SocketAddr),
    #[error("{0}: a document cannot hold the zone of an IPv6 address; give an address without one")]
    Zone(SocketAddr),
}

/// YAML that [`check`](super::check) reads as [`Plan::quick`](crate::snapshot::Plan::quick) of the same arguments.
pub fn quick_documents(
    listen: &[SocketAddr],
    targets: &[Target],
    affinity: Option<&Affinity>,
    scoring: Scoring,
) -> Result<String, QuickError> {
    for address in listen {
        if address.port() == 0 {
            return Err(QuickError::AnyPort(*address));
        }
    }
    let addresses = targets.iter().map(|target| &target.address);
    for address in listen.iter().chain(addresses) {
        if matches!(address, SocketAddr::V6(v6) if v6.scope_id() != 0) {
            return Err(QuickError::Zone(*address));
        }
    }
    // Writing to a String cannot fail.
    let mut text = String::new();
    let gateways = runs(listen, |address| address.ip());
    for (number, gateway) in (1..).zip(&gateways) {
        let _ = write_gateway(&mut text, number, gateway);
    }
    let _ = write_route(&mut text, gateways.len());
    let shape = |target: &Target| {
        let address = target.address;
        (address.is_ipv6(), address.port(), target.weight)
    };
    for (number, slice) in (1..).zip(runs(targets, shape)) {
        let _ = write_slice(&mut text, number, slice);
    }
    if let Some(affinity) = affinity {
        let _ = write_affinity(&mut text, affinity);
    }
    if scoring != Scoring::default() {
        let _ = write_scoring(&mut text, scoring);
    }
    Ok(text)
}

/// Neighbours that are alike, together. The order stays.
fn runs<T, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K) -> Vec<&[T]> {
    items.chunk_by(|one, next| key(one) == key(next)).collect()
}

fn write_gateway(out: &mut String, number: usize, listen: &[SocketAddr]) -> std::fmt::Result {
    let [first, ..] = listen else { return Ok(()) };
    writeln!(out, "apiVersion: gateway.networking.k8s.io/v1")?;
    writeln!(out, "kind: Gateway")?;
    writeln!(
        out,
        "metadata: {{name: listen-{number}, namespace: default}}"
    )?;
    writeln!(out, "spec:")?;
    writeln!(out, "  gatewayClassName: weir")?;
    writeln!(out, "  addresses:")?;
    writeln!(out, "  - {{type: IPAddress, value: \"{}\"}}", first.ip())?;
    writeln!(out, "  listeners:")?;
    for port in listen.iter().map(SocketAddr::port) {
        writeln!(
            out,
            "  - {{name: http-{port}, port: {port}, protocol: HTTP}}"
        )?;
    }
    writeln!(out, "---")
}

fn write_route(out: &mut String, gateways: usize) -> std::fmt::Result {
    writeln!(out, "apiVersion: gateway.networking.k8s.io/v1")?;
    writeln!(out, "kind: HTTPRoute")?;
    writeln!(out, "metadata: {{name: default, namespace: default}}")?;
    writeln!(out, "spec:")?;
    writeln!(out, "  parentRefs:")?;
    for number in 1..=gateways {
        writeln!(out, "  - {{name: listen-{number}}}")?;
    }
    writeln!(out, "  rules:")?;
    writeln!(out, "  - backendRefs:")?;
    writeln!(out, "    - {{name: default, port: 80}}")?;
    writeln!(out, "---")?;
    writeln!(out, "apiVersion: v1")?;
    writeln!(out, "kind: Service")?;
    writeln!(out, "metadata: {{name: default, namespace: default}}")?;
    writeln!(out, "spec:")?;
    writeln!(out, "  ports:")?;
    writeln!(out, "  - {{name: http, port: 80}}")
}

fn write_slice(out: &mut String, number: usize, targets: &[Target]) -> std::fmt::Result {
    let [first, ..] = targets else { return Ok(()) };
    let family = match first.address.ip() {
        IpAddr::V4(_) => "IPv4",
        IpAddr::V6(_) => "IPv6",
    };
    writeln!(out, "---")?;
    writeln!(out, "apiVersion: discovery.k8s.io/v1")?;
    writeln!(out, "kind: EndpointSlice")?;
    writeln!(out, "metadata:")?;
    writeln!(out, "  name: default-{number}")?;
    writeln!(out, "  namespace: default")?;
    writeln!(out, "  labels: {{{SERVICE_LABEL}: default}}")?;
    if first.weight.share() != 1 {
        let weight = first.weight;
        writeln!(out, "  annotations: {{{WEIGHT_ANNOTATION}: \"{weight}\"}}")?;
    }
    writeln!(out, "addressType: {family}")?;
    writeln!(out, "ports:")?;
    writeln!(out, "- {{name: http, port: {}}}", first.address.port())?;
    writeln!(out, "endpoints:")?;
    for target in targets {
        writeln!(out, "- addresses: [\"{}\"]", target.address.ip())?;
    }
    Ok(())
}

fn write_affinity(out: &mut String, affinity: &Affinity) -> std::fmt::Result {
    writeln!(out, "---")?;
    writeln!(out, "apiVersion: agentgateway.dev/v1alpha1")?;
    writeln!(out, "kind: AgentgatewayPolicy")?;
    writeln!(out, "metadata: {{name: affinity, namespace: default}}")?;
    writeln!(out, "spec:")?;
    writeln!(out, "  targetRefs:")?;
    writeln!(out, "  - {{group: \"\", kind: Service, name: default}}")?;
    writeln!(out, "  backend:")?;
    // A string of JSON is one of YAML.
    let source = serde_json::Value::from(affinity.source());
    writeln!(out, "    sessionAffinity: {{source: {source}}}")
}

fn write_scoring(out: &mut String, scoring: Scoring) -> std::fmt::Result {
    writeln!(out, "---")?;
    writeln!(out, "apiVersion: weir.dev/v1alpha1")?;
    writeln!(out, "kind: WeirPolicy")?;
    writeln!(out, "metadata: {{name: scoring, namespace: default}}")?;
    writeln!(out, "spec:")?;
    writeln!(out, "  targetRefs:")?;
    writeln!(out, "  - {{group: \"\", kind: Service, name: default}}")?;
    writeln!(out, "  scoring: {scoring}")
}

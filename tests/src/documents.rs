//! Resources for a scenario's endpoints: one listener, one rule, one Service, in a file that is gone when this is; and the
//! same for TCP, as text.

use std::fs;
use std::io;
use std::iter::repeat;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

use crate::endpoint::Script;
use crate::scenario::{PORT, Scenario};

/// What is said of the rule and of its Service, beside what makes them work.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said<'a> {
    /// More keys of the rule, as `retry: {attempts: 2}`, on lines of their own without indent.
    pub rule: &'a str,
    /// More keys of the Service, as `trafficDistribution: PreferClose`.
    pub service: &'a str,
    /// More keys of each endpoint, as `zone: a`; of none, if there are fewer.
    pub endpoints: &'a [&'a str],
    /// More documents, each begun by `---`.
    pub documents: &'a str,
}

/// The file.
pub struct Documents(PathBuf);

impl Documents {
    pub fn write(
        listen: SocketAddr,
        endpoints: impl Iterator<Item = SocketAddr>,
        said: Said<'_>,
    ) -> io::Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-documents-{}-{number}.yaml", std::process::id());
        let keys = said.endpoints.iter().copied().chain(repeat(""));
        let endpoints: Vec<String> = endpoints
            .zip(keys)
            .map(|(endpoint, keys)| format!("{{addresses: [{}], {keys}}}", endpoint.ip()))
            .collect();
        let rule: String = said
            .rule
            .lines()
            .map(|line| format!("    {line}\n"))
            .collect();
        let text = format!(
            "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  addresses: [{{value: \"{}\"}}]
  listeners: [{{name: http, port: {}, protocol: HTTP}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: shop}}
spec:
  parentRefs: [{{name: web}}]
  rules:
  - backendRefs: [{{name: shop, port: 80}}]
{rule}---
apiVersion: v1
kind: Service
metadata: {{name: shop}}
spec: {{ports: [{{port: 80}}], {}}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: shop-1, labels: {{kubernetes.io/service-name: shop}}}}
addressType: IPv4
ports: [{{port: {PORT}}}]
endpoints: [{}]
{}",
            listen.ip(),
            listen.port(),
            said.service,
            endpoints.join(", "),
            said.documents,
        );
        let path = std::env::temp_dir().join(name);
        fs::write(&path, text)?;
        Ok(Self(path))
    }

    /// A scenario that is served from documents; they must outlive its start only.
    pub fn scenario(scripts: Vec<Script>, said: Said<'_>) -> Result<Scenario> {
        Self::scenario_with(scripts, said, &[])
    }

    /// The same, with more flags.
    pub fn scenario_with(scripts: Vec<Script>, said: Said<'_>, flags: &[&str]) -> Result<Scenario> {
        let mut written = None;
        let scenario = Scenario::start(scripts, |star, mut options| {
            let endpoints = star.endpoints.iter();
            let endpoints = endpoints.map(|peer| SocketAddr::new(peer.address(), PORT));
            let documents = Self::write(options.listen[0], endpoints, said);
            let documents = written.insert(documents.expect("a writable folder"));
            options.config = Some(documents.path().to_owned());
            options.more = flags.iter().map(|flag| (*flag).to_owned()).collect();
            options
        });
        drop(written);
        scenario
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// A listener of TCP, a route and a Service with these endpoints, all on the listener's port. Others may stand behind it.
pub fn tcp(listen: SocketAddr, endpoints: impl IntoIterator<Item = IpAddr>) -> String {
    let port = listen.port();
    let family = if listen.is_ipv4() { "IPv4" } else { "IPv6" };
    let endpoints: String = endpoints
        .into_iter()
        .map(|address| format!("- {{addresses: [\"{address}\"]}}\n"))
        .collect();
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: gate-{port}}}
spec:
  addresses: [{{value: \"{}\"}}]
  listeners: [{{name: raw, port: {port}, protocol: TCP}}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {{name: at-{port}}}
spec:
  parentRefs: [{{name: gate-{port}}}]
  rules: [{{backendRefs: [{{name: at-{port}, port: {port}}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: at-{port}}}
spec: {{ports: [{{port: {port}}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: at-{port}-1, labels: {{kubernetes.io/service-name: at-{port}}}}}
addressType: {family}
ports: [{{port: {port}}}]
endpoints:
{endpoints}",
        listen.ip(),
    )
}

impl Drop for Documents {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

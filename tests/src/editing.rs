//! A configuration somebody edits while it is served: a folder of files, written as careful people do, by renaming.

use std::fmt::Write;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A directory that is gone when this is.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> io::Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-editing-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Puts a file in the place of the one before, which is whole until then.
    pub fn write(&self, name: &str, text: &str) -> io::Result<PathBuf> {
        let (new, path) = (self.0.join(format!(".{name}.new")), self.0.join(name));
        fs::write(&new, text)?;
        fs::rename(new, &path)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One Service behind listeners, and all requests sent to it.
#[derive(Clone, Debug)]
pub struct Service {
    pub listen: Vec<SocketAddr>,
    /// With their weights.
    pub endpoints: Vec<(SocketAddr, u16)>,
}

impl Service {
    /// Endpoints of weight 1.
    pub fn of(listen: SocketAddr, endpoints: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            listen: vec![listen],
            endpoints: endpoints.into_iter().map(|one| (one, 1)).collect(),
        }
    }

    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        for (number, listen) in self.listen.iter().enumerate() {
            let (ip, port) = (listen.ip(), listen.port());
            // Writing to a String cannot fail.
            let _ = write!(
                text,
                "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web-{number}}}
spec:
  addresses: [{{value: \"{ip}\"}}]
  listeners: [{{name: http, port: {port}, protocol: HTTP}}]
---
"
            );
        }
        let parents: Vec<String> = (0..self.listen.len())
            .map(|number| format!("{{name: web-{number}}}"))
            .collect();
        let _ = write!(
            text,
            "apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: all}}
spec:
  parentRefs: [{}]
  rules: [{{backendRefs: [{{name: shop, port: 80}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: shop}}
spec: {{ports: [{{port: 80}}]}}
",
            parents.join(", ")
        );
        self.write_slices(&mut text);
        text
    }

    /// A slice for each port and weight, as a slice has one of either.
    fn write_slices(&self, text: &mut String) {
        let mut rest = self.endpoints.clone();
        rest.sort_by_key(|(endpoint, weight)| (endpoint.port(), *weight));
        let slices = rest.chunk_by(|one, next| (one.0.port(), one.1) == (next.0.port(), next.1));
        for (number, slice) in slices.enumerate() {
            let (port, weight) = (slice[0].0.port(), slice[0].1);
            let _ = write!(
                text,
                "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: shop-{number}
  labels: {{kubernetes.io/service-name: shop}}
  annotations: {{weir.dev/weight: '{weight}'}}
addressType: IPv4
ports: [{{port: {port}}}]
endpoints:
"
            );
            for (endpoint, _) in slice {
                let _ = writeln!(text, "- {{addresses: [{}]}}", endpoint.ip());
            }
        }
    }
}

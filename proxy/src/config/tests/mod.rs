//! Whole configurations as people write them, and what comes of them.

mod checks;
mod l4;
mod locality;
mod others;
mod placement;
mod policy_problems;
mod problems;
mod secrets;
mod serving;
mod texts;
mod traffic;
mod virtual_addresses;

use super::*;

/// A Gateway, a route and a Service with two ready endpoints. Tests add to it or change a line.
const SHOP: &str = r#"apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  gatewayClassName: weir
  listeners:
  - {name: http, port: 8080, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs:
  - name: web
  rules:
  - backendRefs:
    - {name: shop, port: 80}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  ports:
  - {name: http, port: 80}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: shop-1
  labels: {kubernetes.io/service-name: shop}
addressType: IPv4
ports:
- {name: http, port: 8000}
endpoints:
- addresses: [10.0.0.1]
  targetRef: {kind: Pod, name: shop-a}
- addresses: [10.0.0.2]
"#;

fn checked(text: &str) -> Checked {
    checked_at(None, text)
}

fn checked_at(own: Option<&Locality>, text: &str) -> Checked {
    let source = Source {
        name: "a.yaml".to_owned(),
        text: text.to_owned(),
    };
    check(&[source], own)
}

fn plan(text: &str) -> Plan {
    let checked = checked(text);
    match checked.plan {
        Some(plan) => plan,
        None => panic!("refused: {}", lines(&checked.problems)),
    }
}

fn lines(problems: &[Problem]) -> String {
    let lines: Vec<String> = problems.iter().map(Problem::to_string).collect();
    lines.join("\n")
}

/// The text with one part of it replaced.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert_eq!(text.matches(from).count(), 1, "once in the text: {from}");
    text.replace(from, to)
}

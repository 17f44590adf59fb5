//! What `weir check` prints of a good configuration.

use crate::cli::summary::{Extent, summary};
use crate::config::{Source, check};

const SHOP: &str = r#"apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  listeners: [{name: in, port: 8081, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: web}]
  hostnames: [shop.example.com, "*.example.org"]
  rules:
  - name: cart
    matches:
    - {path: {value: /cart}, method: GET, headers: [{name: X-Canary, value: "yes"}]}
    - {path: {type: RegularExpression, value: "/items/[0-9]+"}, queryParams: [{name: a, value: b}]}
    backendRefs:
    - {name: shop, port: 80, weight: 9}
    - {group: agentgateway.dev, kind: AgentgatewayBackend, name: api}
  - matches: [{path: {type: Exact, value: /gone}}]
    backendRefs: [{name: shop, port: 80, weight: 0}]
  - backendRefs: [{name: shop, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: shop-1
  labels: {kubernetes.io/service-name: shop}
  annotations: {weir.dev/weight: "3"}
addressType: IPv4
ports: [{port: 8000}]
endpoints: [{addresses: [10.0.0.1], targetRef: {kind: Pod, name: shop-a}}, {addresses: [10.0.0.2]}]
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayBackend
metadata: {name: api}
spec: {static: {host: 10.0.0.9, port: 80}}
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: careful}
spec:
  targetRefs:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop, sectionName: cart}
  backend:
    health: {eviction: {duration: 10s, consecutiveFailures: 3, restoreHealth: 50}}
    sessionAffinity: {source: 'request.headers["x-session-id"]'}
"#;

fn printed(text: &str, extent: Extent) -> String {
    let source = Source {
        name: "shop.yaml".to_owned(),
        text: text.to_owned(),
    };
    let checked = check(&[source], None);
    summary(&checked.plan.expect("a good configuration"), extent)
}

#[test]
fn what_a_rule_asks_for_its_requests_is_shown_whoever_says_it() {
    let text = SHOP.replace(
        "  - name: cart\n",
        "  - name: cart\n    retry: {attempts: 1}\n    timeouts: {request: 10s, backendRequest: 2s500ms}\n",
    ) + "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: limits}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop}]
  traffic: {timeouts: {request: 30s}, retry: {attempts: 0}}
";
    let printed = printed(&text, Extent::Short);
    for line in [
        "    to default/shop (9), default/api (1); 2 tries; 10s in all; 2.5s a try; rules[0] of default/shop\n",
        "    to nowhere: 500; 1 try; 30s in all; rules[1] of default/shop\n",
    ] {
        assert!(printed.contains(line), "{line}{printed}");
    }
}

#[test]
fn mirrors_are_shown_with_their_part_of_the_requests() {
    let last = "  - backendRefs: [{name: shop, port: 80}]\n";
    let mirror = |part: &str| {
        format!(
            "{{type: RequestMirror, requestMirror: {{backendRef: {{name: shop, port: 80}}{part}}}}}"
        )
    };
    let (all, part) = (
        mirror(""),
        mirror(", fraction: {numerator: 1, denominator: 8}"),
    );
    let text = SHOP.replace(last, &format!("{last}    filters: [{all}, {part}]\n"));
    let printed = printed(&text, Extent::Short);
    let line = "; mirrored to default/shop#2; 12.5 % mirrored to default/shop#2; rules[2] of";
    assert!(printed.contains(line), "{printed}");
}

#[test]
fn routes_and_backends_are_shown_with_what_holds_and_whose_word_it_is() {
    let expected = r#"LISTENER 0.0.0.0:8081
  shop.example.com  /gone
    to nowhere: 500; rules[1] of default/shop
  shop.example.com  ~ /items/[0-9]+  query a=b
    to default/shop (9), default/api (1); rules[0] of default/shop
  shop.example.com  /cart/*  GET  header X-Canary=yes
    to default/shop (9), default/api (1); rules[0] of default/shop
  shop.example.com  /*
    to default/shop#2; rules[2] of default/shop
  *.example.org  /gone
    to nowhere: 500; rules[1] of default/shop
  *.example.org  ~ /items/[0-9]+  query a=b
    to default/shop (9), default/api (1); rules[0] of default/shop
  *.example.org  /cart/*  GET  header X-Canary=yes
    to default/shop (9), default/api (1); rules[0] of default/shop
  *.example.org  /*
    to default/shop#2; rules[2] of default/shop
  anything else: 404

BACKEND default/shop, Service
  ejection: 3 failures in a row for 10s, longer each time, back with health 50 %
    by AgentgatewayPolicy default/careful (shop.yaml:52:13)
  affinity: request.headers["x-session-id"]
    by AgentgatewayPolicy default/careful (shop.yaml:53:22)
  ENDPOINT       WEIGHT  BUCKET  KEY
  10.0.0.1:8000  3       0       //Pod/default/shop-a
  10.0.0.2:8000  3       0
BACKEND default/api, Backend
"#;
    let text = printed(SHOP, Extent::Short);
    assert!(text.starts_with(expected), "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest.is_some_and(|widest| widest <= 100), "{text}");
}

#[test]
fn listeners_below_http_are_shown_with_where_their_clients_go() {
    let text = SHOP.replace(
        "protocol: HTTP}]",
        "protocol: HTTP}, {name: raw, port: 8082, protocol: TCP}, {name: dns, port: 53, protocol: UDP}]",
    ) + "---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {name: raw}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: shop, port: 80, weight: 9}, {group: agentgateway.dev, kind: AgentgatewayBackend, name: api}]}]
";
    let printed = printed(&text, Extent::Short);
    let expected = "LISTENER 0.0.0.0:8082 TCP
  all clients
    to default/shop#2 (9), default/api#2 (1); TCPRoute default/raw
LISTENER 0.0.0.0:53 UDP
  all clients
    to nowhere: turned away
";
    assert!(printed.contains(expected), "{printed}");
}

#[test]
fn of_many_endpoints_the_first_are_shown_and_all_on_demand() {
    let many: Vec<String> = (1..=40)
        .map(|last| format!("{{addresses: [10.0.1.{last}]}}"))
        .collect();
    let text = SHOP.replace("{addresses: [10.0.0.2]}", &many.join(", "));
    let shows = |extent, line: &str| printed(&text, extent).lines().any(|found| found == line);
    assert!(shows(Extent::Short, "  and 25 more; --all lists them"));
    assert!(!shows(Extent::Short, "  10.0.1.40:8000  3       0"));
    assert!(shows(Extent::All, "  10.0.1.40:8000  3       0"));
}

#[test]
fn a_check_names_its_files_in_either_way() {
    for words in [&["check", "x.yaml"][..], &["check", "--config", "x.yaml"]] {
        assert!(super::parse_words(words).is_ok(), "{words:?}");
    }
    let refusal = super::refusal(&["check"]);
    assert!(refusal.contains("<FILE|DIR>"), "{refusal}");
}

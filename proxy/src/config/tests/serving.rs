//! What a right configuration comes to.

use std::net::SocketAddr;
use std::time::Duration;

use super::*;

#[test]
fn the_example_of_the_manual_is_served_without_a_warning() {
    let manual = include_str!("../../../../docs/configuration.md");
    let (_, section) = manual.split_once("## A whole configuration").expect("it");
    let (_, from) = section.split_once("```yaml\n").expect("an example");
    let (example, _) = from.split_once("```").expect("its end");
    let checked = checked(example);
    assert_eq!(lines(&checked.problems), "");
    assert_eq!(checked.resources, example.matches("---\n").count() + 1);
    let plan = checked.plan.expect("no problem");
    assert_eq!(plan.listeners[0].rules.iter().count(), 2);
    assert_eq!(plan.targets().count(), 5, "the cart has its own affinity");
}
use crate::affinity::Affinity;
use crate::balance::{
    BackendKind, BoundedLoad, Eviction, HealthPolicy, LatencySpan, Percent, Scoring, SlowStart,
    Weight,
};
use crate::condition::Condition;
use crate::route::Host;
use crate::snapshot::Target;

fn address(text: &str) -> SocketAddr {
    text.parse().expect("a literal address")
}

fn keys(plan: &Plan) -> Vec<&str> {
    plan.targets().map(|target| &*target.key).collect()
}

#[test]
fn a_service_is_its_ready_endpoints_named_by_their_pods() {
    let plan = plan(SHOP);
    assert_eq!(plan.listeners[0].address, address("0.0.0.0:8080"));
    assert_eq!(plan.listeners[0].rules.backends(), [0]);
    let backend = &plan.backends[0];
    assert_eq!(backend.kind, BackendKind::Service);
    assert_eq!((&*backend.namespace, &*backend.name), ("default", "shop"));
    assert_eq!(backend.policy.balance.health, HealthPolicy::default());
    assert_eq!(keys(&plan), ["//Pod/default/shop-a", "10.0.0.2:8000"]);
    assert_eq!(backend.targets[0].address, address("10.0.0.1:8000"));
}

#[test]
fn unready_endpoints_are_left_out_unless_the_service_publishes_them() {
    let unready = changed(
        SHOP,
        "- addresses: [10.0.0.2]\n",
        "- {addresses: [10.0.0.2], conditions: {ready: false, serving: true, terminating: true}}\n",
    );
    assert_eq!(keys(&plan(&unready)), ["//Pod/default/shop-a"]);
    let published = changed(
        &unready,
        "  - {name: http, port: 80}",
        "  - {name: http, port: 80}\n  publishNotReadyAddresses: true",
    );
    assert_eq!(keys(&plan(&published)).len(), 2);
}

#[test]
fn slices_add_up_by_the_name_of_the_port_and_carry_weights() {
    let more = r#"---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: shop-2
  labels: {kubernetes.io/service-name: shop, other: label}
  annotations: {weir.dev/weight: "3", other: note}
  uid: whatever
addressType: IPv6
ports:
- {name: metrics, port: 9000}
- {name: http, port: 8001, protocol: TCP, appProtocol: http}
endpoints:
- {addresses: ["fd00::1"], zone: a, nodeName: b}
- {addresses: ["fd00::1"]}
"#;
    let plan = plan(&(SHOP.to_owned() + more));
    let targets = &plan.backends[0].targets;
    assert_eq!(targets.len(), 3, "one that stands there twice is one");
    assert_eq!(
        targets[2],
        Target::at(address("[fd00::1]:8001"), Weight::new(3))
    );
}

#[test]
fn a_route_is_for_the_hosts_it_shares_with_the_listener() {
    let listener = changed(
        SHOP,
        "protocol: HTTP}",
        "protocol: HTTP, hostname: '*.example.com'}",
    );
    let host = |text: &str| Host::parse(text).expect("a host name");
    let hosts = |text: &str| -> Vec<Host> {
        let plan = plan(text);
        plan.listeners[0]
            .rules
            .iter()
            .map(|rule| rule.host.clone())
            .collect()
    };
    assert_eq!(hosts(&listener), [host("*.example.com")]);
    let route = changed(
        &listener,
        "  parentRefs:",
        "  hostnames: [a.example.com, b.example.org]\n  parentRefs:",
    );
    assert_eq!(hosts(&route), [host("a.example.com")]);
    let none = changed(&route, "a.example.com", "a.example.net");
    let problems = lines(&checked(&none).problems);
    assert!(problems.contains("no hostname of the route"), "{problems}");
}

#[test]
fn a_gateway_takes_routes_of_other_namespaces_only_if_it_says_so() {
    let apart = SHOP.replace(
        "metadata: {name: web}",
        "metadata: {name: web, namespace: infra}",
    );
    let apart = changed(&apart, "  - name: web", "  - {name: web, namespace: infra}");
    let problems = lines(&checked(&apart).problems);
    assert!(
        problems.contains("takes no routes of namespace default"),
        "{problems}"
    );
    let open = changed(
        &apart,
        "protocol: HTTP}",
        "protocol: HTTP, allowedRoutes: {namespaces: {from: All}}}",
    );
    assert_eq!(plan(&open).listeners[0].rules.backends(), [0]);
}

#[test]
fn routes_split_by_weight_over_kinds_of_backends() {
    let text = changed(
        SHOP,
        "    - {name: shop, port: 80}\n",
        "    - {name: shop, port: 80, weight: 9}
    - {group: agentgateway.dev, kind: AgentgatewayBackend, name: api, weight: 1}\n",
    ) + "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayBackend
metadata: {name: api}
spec:
  static: {host: 10.0.0.9, port: 80}
  policies: {health: {eviction: {duration: 1m30s, restoreHealth: 50}}}
---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {name: never}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend: {health: {}}
";
    let plan = plan(&text);
    assert_eq!(
        plan.backends[0].policy.balance.health,
        HealthPolicy { eviction: None }
    );
    let api = &plan.backends[1];
    assert_eq!(api.kind, BackendKind::Backend);
    assert_eq!(
        api.targets,
        [Target::at(address("10.0.0.9:80"), Weight::ONE)]
    );
    let eviction = Eviction {
        duration: Some(Duration::from_secs(90)),
        restore_health: Percent::new(50),
        ..Eviction::default()
    };
    assert_eq!(api.policy.balance.health.eviction, Some(eviction));
    let rule = plan.listeners[0].rules.iter().next().expect("a rule");
    let drawn = |number| rule.handling.split.draw(|_| number);
    assert_eq!(drawn(8).map(|share| share.backend), Some(0));
    assert_eq!(drawn(9).map(|share| share.backend), Some(1));
}

#[test]
fn what_a_backend_says_itself_binds_before_a_policy_and_both_spellings_are_read() {
    let documents = "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayBackend
metadata: {name: api}
spec:
  static: {host: 10.0.0.9, port: 80}
  policies:
    sessionAffinity:
      source: request.headers[\"x-session-id\"]
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: by-path}
spec:
  targetRefs:
  - {group: agentgateway.dev, kind: AgentgatewayBackend, name: api}
  backend:
    sessionAffinity:
      source: request.path
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: by-cookie}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend: {sessionAffinity: {source: 'cookie(\"session\")'}}
";
    let split = changed(
        SHOP,
        "    - {name: shop, port: 80}\n",
        "    - {name: shop, port: 80}
    - {group: agentgateway.dev, kind: AgentgatewayBackend, name: api}\n",
    );
    let bound = |text: &str| -> Vec<String> {
        let plan = plan(text);
        let affinities = plan
            .backends
            .iter()
            .map(|backend| backend.policy.affinity.as_ref());
        affinities
            .map(|affinity| affinity.map_or("", Affinity::source).to_owned())
            .collect()
    };
    let text = split + documents;
    let cookie = "cookie(\"session\")";
    assert_eq!(bound(&text), [cookie, "request.headers[\"x-session-id\"]"]);
    let own = "  policies:
    sessionAffinity:
      source: request.headers[\"x-session-id\"]\n";
    assert_eq!(bound(&changed(&text, own, "")), [cookie, "request.path"]);
}

#[test]
fn policies_that_say_different_things_of_a_backend_add_up() {
    let text = SHOP.to_owned()
        + "---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {name: spread}
spec:
  targetRefs: [{kind: Service, name: shop}]
  boundedLoad: 1.25
  scoring: adaptive
  maxEjectedPercent: 30
  slowStart: {duration: 30s}
  retryBudget: {percent: 5}
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: by-path}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend: {sessionAffinity: {source: request.path}}
";
    let plan = plan(&text);
    let policy = &plan.backends[0].policy;
    assert_eq!(policy.balance.bounded_load, BoundedLoad::new(1.25));
    assert_eq!(policy.balance.scoring, Scoring::Adaptive);
    assert_eq!(policy.balance.max_ejected, Percent::new(30));
    let slow_start = SlowStart::new(Duration::from_secs(30));
    assert_eq!(policy.balance.slow_start, slow_start);
    assert_eq!(
        (policy.retry_budget.percent, policy.retry_budget.floor),
        (5, 5)
    );
    assert_eq!(policy.balance.health, HealthPolicy::default());
    assert_eq!(policy.affinity, Affinity::compile("request.path").ok());
}

#[test]
fn a_condition_belongs_to_the_health_of_a_backend() {
    let text = SHOP.to_owned()
        + "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: judged}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend:
    health:
      unhealthyCondition: response.code == 429 || response.code >= 500
      eviction: {consecutiveFailures: 2, preferRetryAfter: true}
---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {name: whole}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: web}]
  latency: full
  backend: {health: {unhealthyCondition: 'false'}}
";
    let plan = plan(&text);
    let policy = &plan.backends[0].policy;
    let source = policy.condition.as_ref().map(Condition::source);
    assert_eq!(source, Some("response.code == 429 || response.code >= 500"));
    let eviction = policy.balance.health.eviction.expect("an eviction");
    assert!(eviction.prefers_rate_limit);
    assert_eq!(policy.latency, LatencySpan::Full);
}

#[test]
fn json_says_the_same_as_yaml() {
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(SHOP).expect("YAML");
    let sources: Vec<Source> = documents
        .iter()
        .enumerate()
        .map(|(number, document)| Source {
            name: format!("{number}.json"),
            text: serde_json::to_string_pretty(document).expect("JSON"),
        })
        .collect();
    assert_eq!(check(&sources, None).plan, Some(plan(SHOP)));
}

#[test]
fn the_documents_of_a_quick_start_serve_the_same() {
    let target = |text: &str, weight| Target::at(address(text), Weight::new(weight));
    let listen = ["0.0.0.0:80", "0.0.0.0:81", "[::1]:80"].map(address);
    let targets = [
        target("10.0.0.2:80", 1),
        target("10.0.0.1:80", 1),
        target("10.0.0.1:81", 1),
        target("10.0.0.3:80", 3),
        target("[fd00::1]:80", 0),
    ];
    let affinity =
        Affinity::compile(r#"request.headers["x\\y"] + ': # "'"#).expect("an expression");
    let text =
        quick_documents(&listen, &targets, Some(&affinity), Scoring::Adaptive).expect("documents");
    let written = plan(&text);
    let quick = Plan::quick(&listen, &targets)
        .with_affinity(Some(&affinity))
        .with_scoring(Scoring::Adaptive);
    let (written_one, quick_one) = (&written.backends[0], &quick.backends[0]);
    assert_eq!(written_one.targets, quick_one.targets);
    assert_eq!(written_one.policy.affinity, quick_one.policy.affinity);
    assert_eq!(written_one.policy.balance, quick_one.policy.balance);
    let served = |plan: &Plan| -> Vec<(SocketAddr, Vec<usize>)> {
        let listeners = plan.listeners.iter();
        listeners
            .map(|listener| (listener.address, listener.rules.backends()))
            .collect()
    };
    assert_eq!(served(&written), served(&quick));
    for listener in &written.listeners {
        let rules: Vec<_> = listener.rules.iter().collect();
        assert_eq!(rules.len(), 1);
        assert_eq!(rules[0].host, Host::Any);
        assert_eq!(rules[0].matches, crate::route::Match::default());
    }
    let any = quick_documents(&["127.0.0.1:0"].map(address), &targets, None, Scoring::Seed);
    assert_eq!(any, Err(QuickError::AnyPort(address("127.0.0.1:0"))));
}

#[test]
fn a_file_has_room_for_many_services_and_endpoints() {
    use std::fmt::Write;
    let mut text = SHOP.to_owned();
    for number in 0..3_000 {
        let (high, low) = (number / 250, number % 250 + 1);
        writeln!(
            text,
            "- {{addresses: [10.1.{high}.{low}], conditions: {{ready: true}}, targetRef: {{kind: Pod, name: p-{number}}}}}"
        )
        .expect("memory");
    }
    for number in 0..1_100 {
        let service = format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: s-{number}}}\nspec: {{ports: [{{port: 80}}]}}\n"
        );
        text.push_str(&service);
    }
    assert_eq!(plan(&text).targets().count(), 3_002);
}

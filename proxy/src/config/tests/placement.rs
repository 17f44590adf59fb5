//! Which of several policies holds for a backend.

use super::*;
use crate::affinity::Affinity;
use crate::balance::HealthPolicy;

/// Two routes, and a listener each on one Gateway, to one Service.
const TWO: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  listeners:
  - {name: in, port: 81, protocol: HTTP}
  - {name: out, port: 82, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: one}
spec:
  parentRefs: [{name: web, sectionName: in}]
  rules:
  - name: cart
    matches: [{path: {value: /cart}}]
    backendRefs: [{name: shop, port: 80}]
  - backendRefs: [{name: shop, port: 80}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: two}
spec:
  parentRefs: [{name: web, sectionName: out}]
  rules:
  - backendRefs: [{name: shop, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{port: 8000}]
endpoints: [{addresses: [10.0.0.1]}]
";

const GATEWAY: &str = "group: gateway.networking.k8s.io, kind: Gateway, name: web";
const ROUTE: &str = "group: gateway.networking.k8s.io, kind: HTTPRoute, name: one";
const SERVICE: &str = "kind: Service, name: shop";

/// A policy that binds by its own name.
fn policy(name: &str, target: &str) -> String {
    format!(
        "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {{name: {name}}}
spec:
  targetRefs: [{{{target}}}]
  backend: {{sessionAffinity: {{source: '\"{name}\"'}}}}
"
    )
}

/// What binds the rule for `/cart`, the other one of the first route, and the second route's.
fn bound(policies: &[(&str, &str)]) -> [String; 3] {
    let policies = policies.iter().map(|(name, target)| policy(name, target));
    let plan = plan(&(TWO.to_owned() + &policies.collect::<String>()));
    let mut bound = plan.listeners.iter().flat_map(|listener| {
        listener.rules.iter().map(|rule| {
            let share = rule.handling.split.draw(|_| 0).expect("a backend");
            let affinity = plan.backends[share.backend].policy.affinity.as_ref();
            affinity
                .map_or("", Affinity::source)
                .trim_matches('"')
                .to_owned()
        })
    });
    std::array::from_fn(|_| bound.next().expect("three rules"))
}

#[test]
fn the_more_specific_policy_holds_whatever_the_order_of_documents() {
    let listener = format!("{GATEWAY}, sectionName: in");
    let rule = format!("{ROUTE}, sectionName: cart");
    let port = format!("{SERVICE}, sectionName: '80'");
    let mut policies = vec![("gateway", GATEWAY)];
    assert_eq!(bound(&policies), ["gateway", "gateway", "gateway"]);
    policies.push(("listener", &listener));
    assert_eq!(bound(&policies), ["listener", "listener", "gateway"]);
    policies.insert(0, ("service", SERVICE));
    assert_eq!(bound(&policies), ["service", "service", "service"]);
    policies.push(("port", &port));
    assert_eq!(bound(&policies), ["port", "port", "port"]);
    policies.push(("route", ROUTE));
    assert_eq!(bound(&policies), ["route", "route", "port"]);
    policies.insert(0, ("rule", &rule));
    assert_eq!(bound(&policies), ["rule", "route", "port"]);
    policies.reverse();
    assert_eq!(bound(&policies), ["rule", "route", "port"]);
}

#[test]
fn what_is_said_where_a_backend_is_referred_to_holds_over_all_else() {
    let inline = TWO.replacen(
        "{name: shop, port: 80}",
        "{name: shop, port: 80, policies: {sessionAffinity: {source: source.address}}}",
        1,
    );
    let policies = [
        policy("rule", &format!("{ROUTE}, sectionName: cart")),
        policy("service", SERVICE),
        "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: health}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend: {health: {}}
"
        .to_owned(),
    ];
    let plan = plan(&(inline + &policies.concat()));
    let of_rule = |place: usize| {
        let rules = plan.listeners[0].rules.iter();
        let shares: Vec<usize> = rules
            .map(|rule| rule.handling.split.draw(|_| 0).expect("a backend").backend)
            .collect();
        &plan.backends[shares[place]].policy
    };
    let source = |place| of_rule(place).affinity.as_ref().map(Affinity::source);
    assert_eq!(source(0), Some("source.address"));
    assert_eq!(source(1), Some("\"service\""));
    for place in 0..2 {
        assert_eq!(
            of_rule(place).balance.health,
            HealthPolicy { eviction: None },
            "another part"
        );
    }
}

#[test]
fn retries_are_those_of_the_rule_then_of_the_most_specific_policy() {
    let retrying = |name: &str, target: &str, attempts: u8| {
        format!(
            "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {{name: {name}}}
spec:
  targetRefs: [{{{target}}}]
  traffic: {{retry: {{attempts: {attempts}}}}}
"
        )
    };
    let text = TWO.to_owned()
        + &retrying("gateway", GATEWAY, 3)
        + &retrying("listener", &format!("{GATEWAY}, sectionName: in"), 4)
        + &retrying("rule", &format!("{ROUTE}, sectionName: cart"), 5);
    let attempts = |text: &str| -> Vec<u8> {
        let plan = plan(text);
        assert_eq!(plan.backends.len(), 1, "backends have no part in it");
        let rules = plan.listeners.iter().flat_map(|one| one.rules.iter());
        rules.map(|rule| rule.handling.retry.attempts).collect()
    };
    assert_eq!(attempts(&text), [5, 4, 3]);
    let own = changed(
        &text,
        "  - name: cart\n",
        "  - name: cart\n    retry: {attempts: 0}\n",
    );
    assert_eq!(attempts(&own), [0, 4, 3]);

    for (policy, expected) in [
        (
            retrying("service", SERVICE, 1),
            "spec.traffic: is about requests on their way; target a Gateway or an HTTPRoute",
        ),
        (
            retrying("route", ROUTE, 1).replace("attempts", "attemps"),
            "spec.traffic.retry.attemps: is not a known field; did you mean `attempts`?",
        ),
        (
            retrying("route", ROUTE, 1).replace("retry", "rateLimit"),
            "spec.traffic.rateLimit: is not supported yet; leave it out",
        ),
    ] {
        let problems = lines(&checked(&(TWO.to_owned() + &policy)).problems);
        assert!(problems.contains(expected), "{problems}");
    }
}

#[test]
fn timeouts_are_those_of_the_rule_then_of_the_most_specific_policy() {
    let limiting = |name: &str, target: &str, timeouts: &str| {
        format!(
            "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {{name: {name}}}
spec:
  targetRefs: [{{{target}}}]
  traffic: {{timeouts: {{{timeouts}}}}}
"
        )
    };
    let text = TWO.to_owned()
        + &limiting("gateway", GATEWAY, "request: 3s, backendRequest: 1s")
        + &limiting("route", ROUTE, "request: 4s");
    let limits = |text: &str| -> Vec<(Option<u64>, Option<u64>)> {
        let plan = plan(text);
        assert_eq!(plan.backends.len(), 1, "backends have no part in it");
        let rules = plan.listeners.iter().flat_map(|one| one.rules.iter());
        let timeouts = rules.map(|rule| rule.handling.timeouts);
        timeouts
            .map(|one| [one.request, one.backend_request].map(|it| it.map(|it| it.as_secs())))
            .map(|[request, attempt]| (request, attempt))
            .collect()
    };
    // Taken whole: the route leaves the Gateway's limit of a try out.
    let of_gateway = (Some(3), Some(1));
    let of_route = (Some(4), None);
    assert_eq!(limits(&text), [of_route, of_route, of_gateway]);
    let own = changed(
        &text,
        "  - name: cart\n",
        "  - name: cart\n    timeouts: {request: 0s}\n",
    );
    assert_eq!(limits(&own), [(None, None), of_route, of_gateway]);

    let of_service = limiting("service", SERVICE, "request: 1s");
    let problems = lines(&checked(&(TWO.to_owned() + &of_service)).problems);
    let expected = "spec.traffic: is about requests on their way; target a Gateway or an HTTPRoute";
    assert!(problems.contains(expected), "{problems}");
    let twice = text.clone() + &limiting("again", ROUTE, "request: 5s");
    let problems = lines(&checked(&twice).problems);
    let expected = "has its `timeouts` from AgentgatewayPolicy default/route";
    assert!(problems.contains(expected), "{problems}");
}

#[test]
fn what_a_backend_says_itself_holds_over_any_policy() {
    let text = TWO.replace(
        "backendRefs: [{name: shop, port: 80}]",
        "backendRefs: [{group: agentgateway.dev, kind: AgentgatewayBackend, name: api}]",
    ) + "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayBackend
metadata: {name: api}
spec:
  static: {host: 10.0.0.9, port: 80}
  policies: {health: {}}
" + &policy("rule", &format!("{ROUTE}, sectionName: cart")).replace(
        "backend: {",
        "backend: {health: {eviction: {duration: 9s}}, ",
    );
    let plan = plan(&text);
    assert_eq!(plan.backends.len(), 2, "with affinity and without");
    let never = HealthPolicy { eviction: None };
    for backend in &plan.backends {
        assert_eq!(backend.policy.balance.health, never);
    }
    let origins = &plan.backends[0].policy.origins;
    let origins = origins
        .iter()
        .map(|one| format!("{}: {}", one.part, one.document));
    let from = |document: &str| {
        let line = text.lines().position(|line| line.contains(document));
        line.expect("a line of the text") + 1
    };
    assert_eq!(
        origins.collect::<Vec<_>>(),
        [
            format!(
                "health: AgentgatewayBackend default/api (a.yaml:{}:22)",
                from("policies: {health")
            ),
            format!(
                "sessionAffinity: AgentgatewayPolicy default/rule (a.yaml:{}:66)",
                from("backend: {health")
            ),
        ]
    );
}

#[test]
fn a_backend_treated_differently_by_routes_keeps_its_endpoints() {
    let plan = plan(&(TWO.to_owned() + &policy("route", ROUTE)));
    assert_eq!(plan.backends.len(), 2);
    assert_eq!(plan.backends[0].targets, plan.backends[1].targets);
    assert_eq!(plan.backends[0].name, plan.backends[1].name);
}

#[test]
fn policies_about_what_is_not_there_are_told() {
    for (target, expected) in [
        (
            "group: gateway.networking.k8s.io, kind: Gateway, name: wep",
            "there is no Gateway default/wep; did you mean default/web?",
        ),
        (
            "group: gateway.networking.k8s.io, kind: Gateway, name: web, sectionName: inn",
            "Gateway default/web has no listener inn; did you mean in?",
        ),
        (
            "group: gateway.networking.k8s.io, kind: HTTPRoute, name: three",
            "there is no HTTPRoute default/three; add it, or correct the name",
        ),
        (
            "group: gateway.networking.k8s.io, kind: HTTPRoute, name: one, sectionName: checkout",
            "HTTPRoute default/one has no rule checkout; it has cart",
        ),
        (
            "group: gateway.networking.k8s.io, kind: HTTPRoute, name: two, sectionName: cart",
            "HTTPRoute default/two has no rule cart; none of its own has a name",
        ),
        (
            "kind: Service, name: shop, sectionName: '81'",
            "Service default/shop has no port 81; it has 80",
        ),
        (
            "kind: Service, name: shop, sectionName: http",
            "spec.targetRefs[0].sectionName: `http` is not the number of a port; write one of the Service's, in quotes",
        ),
        (
            "kind: Gateway, name: web",
            "a Gateway needs `group: gateway.networking.k8s.io`; add it",
        ),
        (
            "group: apps, kind: Service, name: shop",
            "the group of a Service is empty; write `group: \"\"`",
        ),
        (
            "group: apps, kind: Deployment, name: shop",
            "spec.targetRefs[0].kind: `Deployment` is not one of Gateway, HTTPRoute, TCPRoute, UDPRoute, Service, AgentgatewayBackend",
        ),
        (
            "kind: Service, name: shop}, {group: gateway.networking.k8s.io, kind: Gateway, name: web",
            "names resources of more than one kind; write a policy for each kind",
        ),
        (
            "kind: Service, name: shop}, {kind: Service, name: shop",
            "spec.targetRefs[1]: has its `sessionAffinity` from AgentgatewayPolicy default/p (a.yaml:",
        ),
    ] {
        let text = TWO.to_owned() + &policy("p", target);
        let problems = lines(&checked(&text).problems);
        assert!(problems.contains(expected), "{target}\n{problems}");
        assert_eq!(problems.lines().count(), 1, "{problems}");
    }
    let many = vec![SERVICE; 17].join("}, {");
    let problems = lines(&checked(&(TWO.to_owned() + &policy("p", &many))).problems);
    assert!(
        problems.contains("has 17 entries; write 1 to 16"),
        "{problems}"
    );
}

#[test]
fn two_rules_of_a_route_cannot_have_one_name() {
    let text = changed(
        TWO,
        "  - backendRefs: [{name: shop, port: 80}]\n---\napiVersion: gateway.networking.k8s.io/v1",
        "  - {name: cart}\n---\napiVersion: gateway.networking.k8s.io/v1",
    );
    let problems = lines(&checked(&text).problems);
    assert!(
        problems.contains("spec.rules[1]: the name `cart` is that of an earlier rule; rename one"),
        "{problems}"
    );
}

//! TCPRoute and UDPRoute: what they come to, and what is wrong with them.

use super::*;
use crate::snapshot::{L4Service, Transport};

/// A Gateway with HTTP, TCP and UDP, each to a port of one Service; the TCP port is that of HTTP.
const STORE: &str = r#"apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: gate}
spec:
  addresses: [{value: 192.0.2.1}, {value: "2001:db8::1"}]
  listeners:
  - {name: web, port: 8080, protocol: HTTP}
  - {name: raw, port: 5432, protocol: TCP}
  - {name: dns, port: 5432, protocol: UDP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: store}
spec:
  parentRefs: [{name: gate}]
  rules: [{backendRefs: [{name: store, port: 80}]}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {name: store}
spec:
  parentRefs: [{name: gate, sectionName: raw}]
  rules:
  - name: all
    backendRefs: [{name: store, port: 80, weight: 3}, {name: store, port: 81}]
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: UDPRoute
metadata: {name: names}
spec:
  parentRefs: [{name: gate}]
  rules: [{backendRefs: [{name: store, port: 53}]}]
---
apiVersion: v1
kind: Service
metadata: {name: store}
spec:
  ports:
  - {name: http, port: 80}
  - {name: other, port: 81}
  - {name: dns, port: 53, protocol: UDP}
  - {name: dns-tcp, port: 53}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: store-1
  labels: {kubernetes.io/service-name: store}
addressType: IPv4
ports:
- {name: http, port: 8000}
- {name: other, port: 8001}
- {name: dns, port: 1053, protocol: UDP}
- {name: dns-tcp, port: 2053}
endpoints:
- addresses: [10.0.0.1]
"#;

fn services(plan: &Plan, transport: Transport) -> Vec<&L4Service> {
    let services = plan.l4_services.iter();
    services.filter(|one| one.transport == transport).collect()
}

/// Ports of the endpoints a service leads to, with the weights of their backends.
fn shares(plan: &Plan, service: &L4Service) -> Vec<(u16, u64)> {
    let weights = service.split.weights();
    let ports = weights.flat_map(|(place, weight)| {
        let targets = plan.backends[place].targets.iter();
        targets.map(move |target| (target.address.port(), weight))
    });
    ports.collect()
}

#[test]
fn connections_of_a_tcp_listener_go_to_the_backends_of_its_route() {
    let plan = plan(STORE);
    let tcp = services(&plan, Transport::Tcp);
    let addresses: Vec<String> = tcp.iter().map(|one| one.address.to_string()).collect();
    assert_eq!(addresses, ["192.0.2.1:5432", "[2001:db8::1]:5432"]);
    for service in tcp {
        assert_eq!(service.route, "default/store");
        assert_eq!(service.more_tries, 2);
        assert_eq!(shares(&plan, service), [(8000, 3), (8001, 1)]);
    }
    assert_eq!(plan.listeners.len(), 2, "HTTP listeners are others");
}

#[test]
fn a_udp_route_goes_to_the_udp_port_of_that_number() {
    let plan = plan(STORE);
    let udp = services(&plan, Transport::Udp);
    assert_eq!(udp.len(), 2);
    assert_eq!(shares(&plan, udp[0]), [(1053, 1)]);
}

#[test]
fn an_endpoint_that_serves_http_and_tcp_is_one_of_one_backend() {
    let plan = plan(STORE);
    let of_http = plan.listeners[0].rules.backends();
    let tcp = services(&plan, Transport::Tcp);
    let of_tcp: Vec<usize> = tcp[0].split.weights().map(|(place, _)| place).collect();
    assert_eq!(of_http, of_tcp[..1]);
    assert_eq!(plan.backends.len(), 3, "ports 80, 81 and 53/UDP");
}

const POLICY: &str = "
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: sticky}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: TCPRoute, name: store, sectionName: all}]
  backend:
    sessionAffinity: {source: string(source.address)}
";

#[test]
fn connections_are_bound_by_the_clients_address_and_nothing_else() {
    let text = STORE.to_owned() + POLICY;
    let bound = plan(&text);
    for service in services(&bound, Transport::Tcp) {
        for (place, _) in service.split.weights() {
            let affinity = bound.backends[place].policy.affinity.as_ref();
            assert!(affinity.is_some_and(|it| it.is_client_address()));
        }
    }
    let text = changed(&text, "string(source.address)", "request.path");
    let problems = lines(&checked(&text).problems);
    let expected = "a.yaml:25:19: error: TCPRoute default/store: spec.rules[0].backendRefs[0]: is bound by \
        `request.path`, as AgentgatewayPolicy default/sticky (a.yaml:65:22) says, which connections do not have; \
        write source.address";
    assert_eq!(problems.lines().next(), Some(expected), "{problems}");
}

#[test]
fn mistakes_in_l4_routes_are_told() {
    let policy = POLICY.replace("sectionName: all", "sectionName: al");
    let second = "
---
apiVersion: gateway.networking.k8s.io/v1alpha2
kind: TCPRoute
metadata: {name: second}
spec:
  parentRefs: [{name: gate, sectionName: raw}]
  rules: [{backendRefs: [{name: store, port: 80}]}]
";
    let with_second = format!("- addresses: [10.0.0.1]{second}");
    let with_policy = format!("- addresses: [10.0.0.1]{policy}");
    assert_eq!(lines(&checked(STORE).problems), "");
    let cases: &[(&str, &str, &str)] = &[
        (
            "- addresses: [10.0.0.1]\n",
            &with_second,
            "TCPRoute default/second: spec.parentRefs[0]: listener raw of Gateway default/gate is served by TCPRoute default/store at a.yaml:18:1 already; a TCP listener takes one route",
        ),
        (
            "- addresses: [10.0.0.1]\n",
            &with_policy,
            "spec.targetRefs[0]: TCPRoute default/store has no rule al; did you mean all?",
        ),
        (
            "sectionName: raw",
            "sectionName: web",
            "TCPRoute default/store: spec.parentRefs[0]: Gateway default/gate has no such listener for TCPRoutes; add one with `protocol: TCP`",
        ),
        (
            "{name: dns, port: 5432, protocol: UDP}",
            "{name: dns, port: 8080, protocol: TCP}",
            "spec.listeners[2].port: 192.0.2.1:8080 is listened on already at a.yaml:7:23; choose another port",
        ),
        (
            "port: 5432, protocol: TCP}",
            "port: 5432, protocol: TCP, hostname: a.example}",
            "spec.listeners[1].hostname: is of requests; leave it out, or write `protocol: HTTP`",
        ),
        (
            "{name: store, port: 53}",
            "{name: store, port: 80}",
            "UDPRoute default/names: spec.rules[0].backendRefs[0]: Service default/store has no UDP port 80; it has 80, 81, 53/UDP, 53",
        ),
        (
            "rules: [{backendRefs: [{name: store, port: 53}]}]",
            "rules: [{backendRefs: [{name: store, port: 53}]}, {}]",
            "spec.rules[1]: is a second rule, and nothing tells connections apart; write one rule with all backendRefs",
        ),
        (
            "rules: [{backendRefs: [{name: store, port: 53}]}]",
            "rules: []",
            "spec.rules: is empty; add a rule with backendRefs",
        ),
        (
            "{name: store, port: 53}",
            "{name: store, port: 53, weight: 0}",
            "warning: UDPRoute default/names: spec.rules[0]: has only backendRefs of weight 0: its clients are turned away",
        ),
        (
            "[{name: gate, sectionName: raw}]",
            "[]",
            "spec.listeners[1].port: no route is attached: all clients are turned away",
        ),
    ];
    for (from, to, expected) in cases {
        let problems = lines(&checked(&changed(STORE, from, to)).problems);
        assert!(problems.contains(expected), "{to}:\n{problems}");
    }
}

const HEADERS: &str = "
---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {name: in}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: Gateway, name: gate, sectionName: raw}]
  acceptProxyProtocol: true
---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {name: out}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: TCPRoute, name: store}]
  sendProxyProtocol: v2
";

#[test]
fn proxy_headers_are_read_and_sent_where_policies_say_so() {
    let plan = plan(&(STORE.to_owned() + HEADERS));
    let reads = |transport| {
        let services = services(&plan, transport).into_iter();
        services.map(|one| one.reads_header).collect::<Vec<_>>()
    };
    assert_eq!(reads(Transport::Tcp), [true, true]);
    assert_eq!(reads(Transport::Udp), [false, false]);
    let sends = |place: usize| plan.backends[place].policy.sends_header;
    let of_http = plan.listeners[0].rules.backends();
    assert_eq!(
        sends(of_http[0]),
        None,
        "for HTTP it is treated in another way"
    );
    for (place, _) in services(&plan, Transport::Tcp)[0].split.weights() {
        assert_eq!(sends(place), Some(crate::proxy_protocol::Version::V2));
    }
}

#[test]
fn proxy_headers_where_there_can_be_none_are_told() {
    let text = STORE.to_owned() + HEADERS;
    for (from, to, expected) in [
        (
            "name: gate, sectionName: raw}]\n  accept",
            "name: gate, sectionName: web}]\n  accept",
            "HTTPRoute default/store: spec.parentRefs[0]: listener web is to accept PROXY headers, as WeirPolicy default/in",
        ),
        (
            "kind: Gateway, name: gate, sectionName: raw}]\n  accept",
            "kind: TCPRoute, name: store}]\n  accept",
            "spec.acceptProxyProtocol: is about listeners; target a Gateway",
        ),
        (
            "kind: TCPRoute, name: store}]\n  send",
            "kind: UDPRoute, name: names}]\n  send",
            "which datagrams do not have; leave sendProxyProtocol out",
        ),
        (
            "kind: TCPRoute, name: store}]\n  send",
            "kind: HTTPRoute, name: store}]\n  send",
            "which connections of HTTP do not have yet; target the TCPRoute there",
        ),
        (
            "sendProxyProtocol: v2",
            "sendProxyProtocol: v3",
            "spec.sendProxyProtocol: `v3` is not one of v1, v2",
        ),
    ] {
        let problems = lines(&checked(&changed(&text, from, to)).problems);
        assert!(problems.contains(expected), "{to}:\n{problems}");
    }
    let anywhere = changed(
        &text,
        "  addresses: [{value: 192.0.2.1}, {value: \"2001:db8::1\"}]\n",
        "",
    );
    let anywhere = changed(
        &anywhere,
        "acceptProxyProtocol: true",
        "acceptProxyProtocol: false",
    );
    let problems = lines(&checked(&anywhere).problems);
    assert!(
        problems.contains("give Gateway default/gate `addresses`"),
        "{problems}"
    );
}

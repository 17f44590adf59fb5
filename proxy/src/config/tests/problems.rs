//! What is wrong with a configuration, one mistake at a time and many at once.

use super::*;

#[test]
fn seven_mistakes_in_one_file_are_listed_with_their_places() {
    let text = r#"apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  listeners:
  - {name: http, port: 80800, protocol: HTTP}
  - {name: one, port: 8081, protocol: HTTP}
  - {name: two, port: 8081, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs:
  - name: web
  hostname: [shop.example.com]
  rules:
  - matches:
    - path: {type: RegularExpression, value: "/a(b"}
    sessionPersistence: {type: Cookie}
    backendRefs:
    - {name: shpo, port: 80}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  ports:
  - {name: http, port: "80"}
"#;
    let expected = "\
a.yaml:6:24: error: Gateway default/web: spec.listeners[0].port: 80800 is out of range; write a whole number from 1 to 65535
a.yaml:8:23: error: Gateway default/web: spec.listeners[2].port: 0.0.0.0:8081 is listened on already at a.yaml:7:23; choose another port, or one listener and routes with hostnames
a.yaml:16:3: error: HTTPRoute default/shop: spec.hostname: is not a known field; did you mean `hostnames`?
a.yaml:19:46: error: HTTPRoute default/shop: spec.rules[0].matches[0].path.value: `/a(b` is not a regular expression: unclosed group
a.yaml:20:5: error: HTTPRoute default/shop: spec.rules[0].sessionPersistence: is not supported yet; leave it out
a.yaml:22:7: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: there is no Service default/shpo; did you mean default/shop?
a.yaml:29:24: error: Service default/shop: spec.ports[0].port: is the text `80`; write a whole number from 1 to 65535";
    let checked = checked(text);
    assert_eq!(lines(&checked.problems), expected);
    assert_eq!(checked.plan, None);
}

/// What is changed in the shop, and the one line it leads to, from its position on.
const MISTAKES: [(&str, &str, &str); 34] = [
    (
        "kind: Gateway",
        "kind: Gatewey",
        "2:7: error: Gatewey default/web: kind: `Gatewey` is not a known kind; did you mean `Gateway`?",
    ),
    (
        "kind: HTTPRoute",
        "kind: GRPCRoute",
        "10:7: error: GRPCRoute default/shop: kind: GRPCRoute is not supported yet; leave the document out",
    ),
    (
        "apiVersion: v1\n",
        "apiVersion: v2\n",
        "19:13: error: Service default/shop: apiVersion: `v2` is not a version of Service that is read; write `v1`",
    ),
    (
        "{name: web}",
        "{name: Web}",
        "3:18: error: Gateway default/Web: metadata.name: `Web` is not a name; write 1 to 253 lower-case letters, digits, hyphens and dots",
    ),
    (
        "port: 8080, ",
        "",
        "7:5: error: Gateway default/web: spec.listeners[0]: has no `port`; add it",
    ),
    (
        "protocol: HTTP",
        "protocol: HTTPS",
        "7:40: error: Gateway default/web: spec.listeners[0].protocol: `HTTPS` is not supported yet; write HTTP or TCP or UDP",
    ),
    (
        "protocol: HTTP",
        "protocol: SPDY",
        "7:40: error: Gateway default/web: spec.listeners[0].protocol: `SPDY` is not one of HTTP, TCP, UDP",
    ),
    (
        "protocol: HTTP}",
        "protocol: HTTP, tls: {mode: Terminate}}",
        "7:46: error: Gateway default/web: spec.listeners[0].tls: is not supported yet; leave it out",
    ),
    (
        "protocol: HTTP}",
        "protocol: HTTP, hostname: 'a:80'}",
        "7:56: error: Gateway default/web: spec.listeners[0].hostname: `a:80` has a port; leave it out, routes match the name only",
    ),
    (
        "  gatewayClassName: weir",
        "  addresses: [{value: here}]",
        "5:23: error: Gateway default/web: spec.addresses[0].value: `here` is not an IP address; write one such as 0.0.0.0 or ::",
    ),
    (
        "  - name: web",
        "  - name: wbe",
        "14:5: error: HTTPRoute default/shop: spec.parentRefs[0]: there is no Gateway default/wbe; did you mean default/web?",
    ),
    (
        "  - name: web",
        "  - {name: web, sectionName: https}",
        "14:5: error: HTTPRoute default/shop: spec.parentRefs[0]: Gateway default/web has no such listener; it has http",
    ),
    (
        "metadata: {name: web}",
        "metadata: {name: web, namespace: infra}",
        "14:5: error: HTTPRoute default/shop: spec.parentRefs[0]: there is no Gateway default/web; add it, or correct the name",
    ),
    (
        "  rules:\n",
        "  rules:\n  - filters: [{type: ExtensionRef}]\n",
        "16:22: error: HTTPRoute default/shop: spec.rules[0].filters[0].type: `ExtensionRef` is not supported yet; write RequestHeaderModifier or ResponseHeaderModifier or URLRewrite or RequestRedirect or RequestMirror",
    ),
    (
        "  - backendRefs:\n",
        "  - matches: [{path: {value: shop}}]\n    backendRefs:\n",
        "16:30: error: HTTPRoute default/shop: spec.rules[0].matches[0].path.value: `shop` is not a path; write it with a leading slash and without query, as in /shop",
    ),
    (
        "  - backendRefs:\n",
        "  - matches: [{method: get}]\n    backendRefs:\n",
        "16:24: error: HTTPRoute default/shop: spec.rules[0].matches[0].method: `get` is not one of GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH",
    ),
    (
        "{name: shop, port: 80}",
        "{name: shop, port: 81}",
        "17:7: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: Service default/shop has no port 81; it has 80",
    ),
    (
        "{name: shop, port: 80}",
        "{name: shop}",
        "17:7: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: has no `port`; add the port of the Service",
    ),
    (
        "{name: shop, port: 80}",
        "{name: shop, port: 80, weight: 1000001}",
        "17:38: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0].weight: 1000001 is out of range; write a whole number from 0 to 1000000",
    ),
    (
        "service-name: shop}",
        "service-name: store}",
        "26:1: error: EndpointSlice default/shop-1: there is no Service default/store; add it, or correct the name",
    ),
    (
        "  labels: {kubernetes.io/service-name: shop}\n",
        "",
        "26:1: error: EndpointSlice default/shop-1: has no label `kubernetes.io/service-name`; add it with the name of the Service",
    ),
    (
        "addressType: IPv4",
        "addressType: FQDN",
        "31:14: error: EndpointSlice default/shop-1: addressType: `FQDN` is not supported yet; write IPv4 or IPv6",
    ),
    (
        "10.0.0.2",
        "fd00::2",
        "37:15: error: EndpointSlice default/shop-1: endpoints[1].addresses[0]: `fd00::2` is not an IPv4 address, which `addressType` says it is",
    ),
    (
        "  name: shop-1\n",
        "  name: shop-1\n  annotations: {weir.dev/weight: \"x\"}\n",
        "30:34: error: EndpointSlice default/shop-1: metadata.annotations.weir.dev/weight: `x` is not a weight; write a whole number from 0 to 65535 in quotes",
    ),
    (
        "  name: shop-1\n",
        "  name: shop-1\n  annotations: {weir.dev/wieght: \"3\"}\n",
        "30:17: error: EndpointSlice default/shop-1: metadata.annotations.weir.dev/wieght: is no annotation that EndpointSlices have; did you mean `weir.dev/weight`?",
    ),
    (
        "  name: shop-1\n",
        "  name: shop-1\n  annotations: {wier.dev/weight: \"3\"}\n",
        "30:17: warning: EndpointSlice default/shop-1: metadata.annotations.wier.dev/weight: is not read; did you mean `weir.dev/weight`?",
    ),
    (
        "service-name: shop}",
        "service-name: shop, topology.kubernetes.io/regoin: r1}",
        "30:46: warning: EndpointSlice default/shop-1: metadata.labels.topology.kubernetes.io/regoin: is not read; did you mean `topology.kubernetes.io/region`?",
    ),
    (
        "metadata: {name: web}",
        "metadata: {name: web, annotations: {weir.dev/weight: \"3\"}}",
        "3:37: error: Gateway default/web: metadata.annotations.weir.dev/weight: is no annotation that Gateways have; leave it out",
    ),
    (
        "addresses: [10.0.0.2]",
        "addresses: []",
        "37:14: error: EndpointSlice default/shop-1: endpoints[1].addresses: is empty; add an address",
    ),
    (
        "protocol: HTTP}",
        "protocol: HTTP}\n  - {name: http, port: 8081, protocol: HTTP}",
        "8:5: error: Gateway default/web: spec.listeners[1]: the name `http` is that of an earlier listener; rename one",
    ),
    (
        "  ports:\n  - {name",
        "  ports: 80\n  other:\n  - {name",
        "23:10: error: Service default/shop: spec.ports: is the number 80; write a list",
    ),
    (
        "port: 8000}",
        "port: true}",
        "33:22: error: EndpointSlice default/shop-1: ports[0].port: is `true`; write a whole number from 1 to 65535",
    ),
    (
        "endpoints:\n",
        "endpoints:\n- {addresses: [10.0.0.3], conditions: {ready: \"no\"}}\n",
        "35:47: error: EndpointSlice default/shop-1: endpoints[0].conditions.ready: is the text `no`; write true or false",
    ),
    (
        "  gatewayClassName: weir",
        "  listeners: []\n  gatewayClassName: weir",
        "7:3: error: Gateway default/web: spec.listeners: stands here a second time; leave one out",
    ),
];

#[test]
fn every_mistake_is_told_with_place_key_and_remedy() {
    let mut wrong = String::new();
    for (from, to, expected) in MISTAKES {
        let problems = lines(&checked(&changed(SHOP, from, to)).problems);
        let expected = format!("a.yaml:{expected}");
        if !problems.lines().any(|line| line == expected) {
            wrong += &format!("{to}\nexpected {expected}\n{problems}\n\n");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn one_name_twice_is_an_error_also_over_files() {
    let source = |name: &str| Source {
        name: name.to_owned(),
        text: SHOP.to_owned(),
    };
    let problems = check(&[source("a.yaml"), source("b.yaml")], None).problems;
    let files: Vec<&str> = problems.iter().map(|one| one.file.as_str()).collect();
    assert_eq!(files, ["b.yaml"; 4], "{}", lines(&problems));
    let first = "b.yaml:1:1: error: Gateway default/web: has the name of the Gateway at a.yaml:1:1; rename or remove one";
    assert_eq!(problems[0].to_string(), first);
}

#[test]
fn a_listener_that_is_in_the_way_is_told_where_its_port_stands() {
    let source = Source {
        name: "a.yaml".to_owned(),
        text: SHOP.to_owned(),
    };
    let in_the_way = |plan: &Plan| {
        let address = plan.listeners[0].address;
        vec![Objection {
            listener: (Transport::Tcp, address),
            severity: Severity::Error,
            message: "is in the way".to_owned(),
        }]
    };
    let checked = check_with(&[source], None, in_the_way);
    let expected = "a.yaml:7:24: error: Gateway default/web: spec.listeners[0].port: is in the way";
    assert_eq!(lines(&checked.problems), expected);
    assert_eq!(checked.plan, None);
}

#[test]
fn thousands_of_names_that_name_nothing_are_not_all_taken_for_slips() {
    const COUNT: usize = 1_000;
    let mut text = SHOP.to_owned();
    for number in 0..COUNT {
        text += &format!(
            "---
apiVersion: v1
kind: Service
metadata: {{name: service-{number}}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: slice-{number}, labels: {{kubernetes.io/service-name: servise-{number}}}}}
addressType: IPv4
ports: [{{port: 80}}]
endpoints: [{{addresses: [10.0.0.1]}}]
"
        );
    }
    let problems = checked(&text).problems;
    let missing = problems
        .iter()
        .filter(|one| one.message.starts_with("there is no Service"));
    let (guessed, plain): (Vec<&Problem>, Vec<&Problem>) =
        missing.partition(|one| one.message.contains("did you mean default/service-"));
    assert_eq!(guessed.len() + plain.len(), COUNT);
    assert!((100..300).contains(&guessed.len()), "{}", guessed.len());
}

#[test]
fn what_serves_nothing_is_a_warning() {
    for (from, to, expected) in [
        (
            "endpoints:\n- addresses: [10.0.0.1]\n  targetRef: {kind: Pod, name: shop-a}\n- addresses: [10.0.0.2]\n",
            "endpoints: []\n",
            "a.yaml:19:1: warning: Service default/shop: has no ready endpoint for port 80: its requests are answered with 503
a.yaml:26:1: warning: EndpointSlice default/shop-1: has no endpoints",
        ),
        (
            "  name: shop-1\n",
            "  name: shop-1\n  annotations: {weir.dev/weight: '0'}\n",
            "a.yaml:19:1: warning: Service default/shop: has only endpoints of weight 0 for port 80: its requests are answered with 503",
        ),
        (
            "port: 80}\n---",
            "port: 80, weight: 0}\n---",
            "a.yaml:16:5: warning: HTTPRoute default/shop: spec.rules[0]: has only backendRefs of weight 0: its requests are answered with 500",
        ),
        (
            "backendRefs:\n    - {name: shop, port: 80}",
            "name: empty",
            "a.yaml:16:5: warning: HTTPRoute default/shop: spec.rules[0]: has no backendRefs: its requests are answered with 500",
        ),
        (
            "protocol: HTTP}",
            "protocol: HTTP}\n  - {name: more, port: 81, protocol: HTTP}",
            "",
        ),
        ("  - name: web", "  - {name: web, sectionName: http}", ""),
    ] {
        let text = match from {
            // The Service stands in the file too, with the same words.
            "port: 80}\n---" => SHOP.replacen(from, to, 1),
            _ => changed(SHOP, from, to),
        };
        let checked = checked(&text);
        assert_eq!(lines(&checked.problems), expected);
        assert!(checked.plan.is_some(), "{to}");
    }
}

#[test]
fn mistakes_hide_no_others_beside_them_or_in_other_documents() {
    let route = "  - backendRefs:
    - {name: shpo, port: 80, weight: many}
    timeouts: {request: \"10\"}
    retry: {attempts: 300, codes: [99], backoff: 1}
    name: Rule
  - name: second
    timeouts: {request: soon}
    backendRefs: [{name: shop, port: 80}]
";
    let policy = "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: careful}
spec:
  targetRefs:
  - {group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop, sectionName: third}
  traffic: {retry: {attempts: 1}}
";
    let from = "  - backendRefs:\n    - {name: shop, port: 80}\n";
    let text = changed(SHOP, from, route);
    let expected = "\
a.yaml:17:7: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: there is no Service default/shpo; did you mean default/shop?
a.yaml:17:38: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0].weight: is the text `many`; write a whole number from 0 to 1000000
a.yaml:18:25: error: HTTPRoute default/shop: spec.rules[0].timeouts.request: `10` is a duration without its unit; write one such as 10s
a.yaml:19:23: error: HTTPRoute default/shop: spec.rules[0].retry.attempts: 300 is out of range; write a whole number from 0 to 255
a.yaml:19:36: error: HTTPRoute default/shop: spec.rules[0].retry.codes[0]: 99 is out of range; write a whole number from 400 to 599
a.yaml:19:50: error: HTTPRoute default/shop: spec.rules[0].retry.backoff: is the number 1; write a duration such as 1s
a.yaml:20:11: error: HTTPRoute default/shop: spec.rules[0].name: `Rule` is not a name; write 1 to 253 lower-case letters, digits, hyphens and dots
a.yaml:22:25: error: HTTPRoute default/shop: spec.rules[1].timeouts.request: `soon` is not a duration; write one such as 500ms, 3s, 2m or 1h30m";
    assert_eq!(
        lines(&checked(&(text.clone() + policy)).problems),
        expected,
        "the rule `third` may be the one with a wrong name"
    );
    let text = changed(&text, "name: Rule", "name: first");
    let problems = lines(&checked(&(text + policy)).problems);
    assert!(problems.contains("has no rule third"), "{problems}");
}

#[test]
fn a_document_that_cannot_be_read_is_not_missing() {
    for (from, to, expected) in [
        (
            "kind: Service\nmetadata: {name: shop}\nspec:\n  ports:\n  - {name: http, port: 80}\n",
            "kind: Service\nmetadata: {name: shop}\n",
            "a.yaml:19:1: error: Service default/shop: has no `spec`; add it",
        ),
        (
            "apiVersion: v1\n",
            "apiVersion: v2\n",
            "a.yaml:19:13: error: Service default/shop: apiVersion: `v2` is not a version of Service that is read; write `v1`",
        ),
        (
            "- {name: http, port: 80}",
            "- {name: http, port: 80, protocol: SCTP}",
            "a.yaml:24:38: error: Service default/shop: spec.ports[0].protocol: `SCTP` is not supported yet; write TCP or UDP",
        ),
        (
            "    - {name: shop, port: 80}\n---\napiVersion: v1\nkind: Service",
            "    - {name: shop, port: 80}\n---\napiVersion: serving.knative.dev/v1\nkind: Service",
            "\
a.yaml:17:7: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: there is no Service default/shop; add it, or correct the name
a.yaml:26:1: error: EndpointSlice default/shop-1: there is no Service default/shop; add it, or correct the name",
        ),
    ] {
        let text = changed(SHOP, from, to);
        assert_eq!(lines(&checked(&text).problems), expected);
    }
}

//! What is wrong with policies, and with backends that carry them.

use super::*;

#[test]
fn mistakes_in_policies_and_backends_are_told() {
    let backend = "
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayBackend
metadata: {name: api}
spec:
  static: {host: 10.0.0.9, port: 80}
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: careful}
spec:
  targetRefs:
  - {group: agentgateway.dev, kind: AgentgatewayBackend, name: api}
  backend:
    health:
      eviction: {duration: 3s, consecutiveFailures: 3}
";
    let text = SHOP.to_owned() + backend;
    assert_eq!(lines(&checked(&text).problems), "");
    for (from, to, expected) in [
        (
            "static: {host: 10.0.0.9, port: 80}",
            "policies: {}",
            "spec: has no `static` part; add it with `host` and `port`",
        ),
        (
            "static: {host: 10.0.0.9, port: 80}",
            "ai: {provider: x}",
            "spec.ai: is not supported yet; leave it out",
        ),
        (
            "host: 10.0.0.9",
            "host: example.com",
            "spec.static.host: `example.com` is not an IP address, and host names are not supported yet; write the address",
        ),
        (
            "name: api}\n  backend",
            "name: app}\n  backend",
            "spec.targetRefs[0]: there is no AgentgatewayBackend default/app; did you mean default/api?",
        ),
        (
            "{group: agentgateway.dev, kind",
            "{kind",
            "spec.targetRefs[0]: an AgentgatewayBackend needs `group: agentgateway.dev`; add it",
        ),
        (
            "name: api}\n  backend",
            "name: api, sectionName: a}\n  backend",
            "spec.targetRefs[0].sectionName: an AgentgatewayBackend with a static target has no sections; leave it out",
        ),
        (
            "consecutiveFailures: 3",
            "consecutiveFailures: -1",
            "spec.backend.health.eviction.consecutiveFailures: -1 is out of range; write a whole number from 0 to 2147483647",
        ),
        (
            "consecutiveFailures: 3",
            "healthThreshold: 101",
            "spec.backend.health.eviction.healthThreshold: 101 is out of range; write a whole number from 0 to 100",
        ),
        (
            "duration: 3s",
            "duration: 3 s",
            "spec.backend.health.eviction.duration: `3 s` is not a duration; write one such as 500ms, 3s, 2m or 1h30m",
        ),
        (
            "    health:",
            "    sessionAffinity: {source: x}\n    health:",
            "spec.backend.sessionAffinity.source: line 1, column 1: `x` is not known here",
        ),
        (
            "name: api}\n  backend:",
            "name: api, sectionName: a}\n  backend:\n    sessionAffinity: {source: request.path}",
            "spec.targetRefs[0].sectionName: backend.sessionAffinity must target the whole AgentgatewayBackend, not an individual AI provider",
        ),
        (
            "    health:\n",
            "    health:\n      unhealthyCondition: response.status\n",
            "spec.backend.health.unhealthyCondition: line 1, column 9: `response.status` is not known here; response has code, headers",
        ),
        (
            "    health:\n",
            "    health:\n      unhealthyCondition: response.code\n",
            "spec.backend.health.unhealthyCondition: gives a number for whatever comes; write one that gives true or false",
        ),
        (
            "    health:\n",
            "    health:\n      unhealthyCondition: 1\n",
            "spec.backend.health.unhealthyCondition: is the number 1; write text",
        ),
        (
            "duration: 3s",
            "duration: 3s, preferRetryAfter: maybe",
            "spec.backend.health.eviction.preferRetryAfter: is the text `maybe`; write true or false",
        ),
        (
            "    health:",
            "    sessionAffinity: {source: size(request.path)}\n    health:",
            "warning: AgentgatewayPolicy default/careful: spec.backend.sessionAffinity.source: gives a number for every request, which binds none; write one that gives text",
        ),
        (
            "    health:",
            "    sessionAffinity: {}\n    health:",
            "spec.backend.sessionAffinity: has no `source`; add it",
        ),
        (
            "    health:",
            "    healthy:",
            "spec.backend.healthy: is not a known field; did you mean `health`?",
        ),
    ] {
        let problems = lines(&checked(&changed(&text, from, to)).problems);
        assert!(problems.contains(expected), "{to}\n{problems}");
    }
    let second = backend
        .split("---")
        .last()
        .expect("a policy")
        .replace("careful", "bold");
    let problems = lines(&checked(&format!("{text}---{second}")).problems);
    assert!(
        problems.contains("has its `health` from AgentgatewayPolicy default/careful (a.yaml:"),
        "{problems}"
    );
}

#[test]
fn mistakes_in_a_weir_policy_are_told() {
    let policy = |keys: &str| {
        format!(
            "{SHOP}---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {{name: spread}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
{keys}"
        )
    };
    for (keys, expected) in [
        (
            "  scoring: clever",
            "spec.scoring: `clever` is not one of seed, adaptive",
        ),
        (
            "  boundedLoad: 0.9",
            "spec.boundedLoad: 0.9 is out of range; write a number of at least 1",
        ),
        (
            "  boundedLoad: .nan",
            "spec.boundedLoad: NaN is out of range; write a number of at least 1",
        ),
        (
            "  boundedLoad: [2]",
            "spec.boundedLoad: is a list; write a number of at least 1",
        ),
        (
            "  maxEjectedPercent: 101",
            "spec.maxEjectedPercent: 101 is out of range; write a whole number from 0 to 100",
        ),
        (
            "  boundedload: 2",
            "spec.boundedload: is not a known field; did you mean `boundedLoad`?",
        ),
        (
            "  retryBudget: {percent: 101}",
            "spec.retryBudget.percent: 101 is out of range; write a whole number from 0 to 100",
        ),
        (
            "  retryBudget: {flor: 1}",
            "spec.retryBudget.flor: is not a known field; did you mean `floor`?",
        ),
        (
            "  latency: lastByte",
            "spec.latency: `lastByte` is not one of firstByte, full",
        ),
        (
            "  hedge: {after: p95}",
            "spec.hedge: is not supported yet; leave it out",
        ),
        (
            "  sessionAffinity: {source: source.address}",
            "spec.sessionAffinity: stands in the wrong place; put it under `backend`",
        ),
        (
            "  traffic: {retry: {}}",
            "spec.traffic: is not a known field; leave it out",
        ),
    ] {
        let problems = lines(&checked(&policy(keys)).problems);
        assert!(problems.contains(expected), "{keys}\n{problems}");
    }
}

#[test]
fn an_expression_that_cannot_be_used_is_told_with_the_place_in_it() {
    let with = |source: &str| {
        let source = serde_json::Value::from(source);
        let policy = format!(
            "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {{name: bound}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
  backend: {{sessionAffinity: {{source: {source}}}}}
"
        );
        lines(&checked(&(SHOP.to_owned() + &policy)).problems)
    };
    let looping = "request.headers.exists(a, ".repeat(4) + "true" + &")".repeat(4);
    for (source, expected) in [
        ("request.headers[", "line 1, column 17: "),
        (
            "request.\nbodi",
            "`request.bodi` is not known here; request has",
        ),
        (
            "request.body",
            "line 1, column 8: `request.body` is not supported yet: bodies are passed on unread",
        ),
        (&looping, "could cost too much on a large request"),
        (
            "request.path.replace('', request.path)",
            "could cost too much",
        ),
        (
            "",
            "an expression has 1 to 16384 characters, and this one has 0",
        ),
    ] {
        let problems = with(source);
        let start = "a.yaml:44:39: error: AgentgatewayPolicy default/bound: spec.backend.sessionAffinity.source: ";
        assert!(
            problems.starts_with(start) && problems.contains(expected),
            "{problems}"
        );
    }
}

//! `activeCheck` of a WeirPolicy.

use std::time::Duration;

use super::*;
use crate::check::{ActiveCheck, HttpQuestion, Question, StatusRange};

/// The shop under a policy with these keys.
fn shop_with(keys: &str) -> String {
    format!(
        "{SHOP}---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {{name: asked}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
{keys}"
    )
}

#[test]
fn an_active_check_is_read_with_its_defaults() {
    let read = |check: &str| {
        let text = shop_with(&format!("  activeCheck: {check}"));
        plan(&text).backends[0]
            .policy
            .check
            .clone()
            .expect("a check")
    };
    let tcp = ActiveCheck {
        question: Question::Tcp,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        healthy_threshold: 1,
        unhealthy_threshold: 3,
    };
    assert_eq!(read("{type: tcp}"), tcp);
    assert_eq!(
        read("{type: http}").to_string(),
        "GET / expecting 200-399 every 10s"
    );
    let all = read(
        "{type: http, path: /healthz, host: shop.example, interval: 2s, timeout: 500ms,
    healthyThreshold: 2, unhealthyThreshold: 4, expectedStatus: [200-204, 418]}",
    );
    let expected = [(200, 204), (418, 418)].map(|(first, last)| StatusRange { first, last });
    let http = HttpQuestion {
        path: "/healthz".into(),
        host: Some("shop.example".into()),
        expected: expected.into(),
    };
    let check = ActiveCheck {
        question: Question::Http(http),
        interval: Duration::from_secs(2),
        timeout: Duration::from_millis(500),
        healthy_threshold: 2,
        unhealthy_threshold: 4,
    };
    assert_eq!(all, check);
}

#[test]
fn mistakes_in_a_check_are_told() {
    for (keys, expected) in [
        (
            "  activeCheck: {path: /}",
            "spec.activeCheck: has no `type`; add it",
        ),
        (
            "  activeCheck: {type: grpc}",
            "spec.activeCheck.type: `grpc` is not supported yet; write http or tcp",
        ),
        (
            "  activeCheck: {type: tcp, path: /healthz}",
            "spec.activeCheck.path: means something only with `type: http`; leave it out",
        ),
        (
            "  activeCheck: {type: http, path: healthz}",
            "spec.activeCheck.path: `healthz` is no path of a request; write one like /healthz",
        ),
        (
            "  activeCheck: {type: http, path: \"/a\\r\\nX: y\"}",
            "is no path of a request; write one like /healthz",
        ),
        (
            "  activeCheck: {type: http, host: \"a b\"}",
            "spec.activeCheck.host: `a b` is no host; write one like shop.example or shop.example:8080",
        ),
        (
            "  activeCheck: {type: http, expectedStatus: 299-200}",
            "spec.activeCheck.expectedStatus: `299-200` is no range of statuses; write one like 200-299",
        ),
        (
            "  activeCheck: {type: http, expectedStatus: [200, 20]}",
            "spec.activeCheck.expectedStatus[1]: 20 is out of range; write a whole number from 100 to 599",
        ),
        (
            "  activeCheck: {type: http, expectedStatus: []}",
            "spec.activeCheck.expectedStatus: is empty, so that no check could pass",
        ),
        (
            "  activeCheck: {type: tcp, interval: 5}",
            "spec.activeCheck.interval: is the number 5; write a duration such as 5s",
        ),
        (
            "  activeCheck: {type: tcp, timeout: 0s}",
            "spec.activeCheck.timeout: is too short; write at least 10ms",
        ),
        (
            "  activeCheck: {type: tcp, unhealthyThreshold: 0}",
            "spec.activeCheck.unhealthyThreshold: 0 is out of range",
        ),
        (
            "  activeCheck: {type: tcp, intervall: 5s}",
            "spec.activeCheck.intervall: is not a known field; did you mean `interval`?",
        ),
    ] {
        let problems = lines(&checked(&shop_with(keys)).problems);
        assert!(problems.contains(expected), "{keys}\n{problems}");
    }
}

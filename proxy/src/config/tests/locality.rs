//! Services that prefer near endpoints, as a proxy somewhere sees them.

use super::*;

/// Endpoints on two nodes of one zone, in another zone, and of another region.
const SPREAD: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec: {listeners: [{name: http, port: 8080, protocol: HTTP}]}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: shop, port: 80}]}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec:
  ports: [{port: 80}]
  # here
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: shop-1, labels: {kubernetes.io/service-name: shop}}
addressType: IPv4
ports: [{port: 80}]
endpoints:
- {addresses: [10.0.0.1], zone: a, nodeName: a1}
- {addresses: [10.0.0.2], zone: a, nodeName: a2}
- {addresses: [10.0.0.3], zone: b, nodeName: b1, hints: {forZones: [{name: a}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: shop-2
  labels: {kubernetes.io/service-name: shop, topology.kubernetes.io/region: r2}
addressType: IPv4
ports: [{port: 80}]
endpoints:
- {addresses: [10.0.0.4], zone: a}
";

fn own() -> Locality {
    Locality {
        region: "r1".into(),
        zone: "a".into(),
        node: "a1".into(),
        ..Locality::default()
    }
}

/// The last number of each endpoint's address with its bucket, and what was said.
fn buckets(own: Option<&Locality>, text: &str) -> (Vec<(u8, u8)>, String) {
    let checked = checked_at(own, text);
    let said = lines(&checked.problems);
    let plan = checked.plan.unwrap_or_else(|| panic!("refused: {said}"));
    let bucket = |target: &crate::snapshot::Target| {
        let std::net::IpAddr::V4(ip) = target.address.ip() else {
            panic!("an IPv4 address");
        };
        (ip.octets()[3], target.bucket.0)
    };
    (plan.targets().map(bucket).collect(), said)
}

fn preferring(keys: &str) -> String {
    changed(SPREAD, "# here", keys)
}

#[test]
fn near_endpoints_come_first_and_far_ones_stand_in() {
    for word in ["PreferClose", "PreferSameZone"] {
        let (buckets, said) = buckets(
            Some(&own()),
            &preferring(&format!("trafficDistribution: {word}")),
        );
        assert_eq!(buckets, [(1, 0), (2, 0), (3, 1), (4, 2)], "{word}");
        assert_eq!(said, "");
    }
    let (buckets, _) = buckets(
        Some(&own()),
        &preferring("trafficDistribution: PreferSameNode"),
    );
    assert_eq!(buckets, [(1, 0), (2, 1), (3, 3), (4, 4)]);
}

#[test]
fn one_on_the_proxys_node_is_in_its_subzone_too() {
    let own = Locality {
        subzone: "rack-7".into(),
        ..own()
    };
    let text = preferring("trafficDistribution: PreferSameNode");
    assert_eq!(
        buckets(Some(&own), &text).0,
        [(1, 0), (2, 2), (3, 3), (4, 4)]
    );
}

#[test]
fn local_uses_the_endpoints_of_the_proxys_node_alone() {
    let text = preferring("internalTrafficPolicy: Local\n  trafficDistribution: PreferClose");
    assert_eq!(buckets(Some(&own()), &text), (vec![(1, 0)], String::new()));
    let elsewhere = Locality {
        node: "c1".into(),
        ..own()
    };
    assert_eq!(
        buckets(Some(&elsewhere), &text),
        (
            vec![],
            "a.yaml:18:26: warning: Service default/shop: spec.internalTrafficPolicy: no endpoint for port 80 is where the proxy is: its requests are answered with 503".to_owned()
        )
    );
}

#[test]
fn a_proxy_that_does_not_know_where_it_is_uses_all_and_says_so() {
    let all = vec![(1, 0), (2, 0), (3, 0), (4, 0)];
    for keys in [
        "trafficDistribution: PreferClose",
        "internalTrafficPolicy: Local",
    ] {
        let (buckets, said) = buckets(None, &preferring(keys));
        assert_eq!(buckets, all, "{keys}");
        assert!(said.contains("does not know where it is"), "{said}");
    }
    let (buckets, said) = buckets(Some(&own()), &preferring("internalTrafficPolicy: Cluster"));
    assert_eq!((buckets, &*said), (all, ""));
}

#[test]
fn endpoints_on_their_way_out_serve_when_there_is_no_other() {
    let leaving = "conditions: {ready: false, serving: true, terminating: true}";
    let gone = "conditions: {ready: false, serving: false, terminating: true}";
    let text = SPREAD
        .replace("nodeName: a1", leaving)
        .replace("nodeName: a2", gone);
    assert_eq!(buckets(None, &text).0, [(3, 0), (4, 0)]);
    let none_ready = text.replace("nodeName: b1", gone).replace(
        "{addresses: [10.0.0.4], zone: a}",
        &format!("{{addresses: [10.0.0.4], {gone}}}"),
    );
    assert_eq!(buckets(None, &none_ready), (vec![(1, 0)], String::new()));
}

#[test]
fn a_distribution_that_does_not_exist_is_told() {
    let problems = lines(&checked(&preferring("trafficDistribution: Near")).problems);
    let expected = "spec.trafficDistribution: `Near` is not one of PreferClose, PreferSameZone, PreferSameNode";
    assert!(problems.contains(expected), "{problems}");
}

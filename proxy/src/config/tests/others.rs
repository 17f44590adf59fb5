//! Documents of other people, among ours as a directory of real manifests has them.

use super::*;

/// The shop and this document, which begins in line 39.
fn shop_beside(document: &str) -> Checked {
    checked(&format!("{SHOP}---\n{document}\n"))
}

#[test]
fn documents_weir_does_not_read_are_passed_over_and_listed() {
    for (version, kind) in [
        ("v1", "ConfigMap"),
        ("v1", "Namespace"),
        ("v1", "Endpoints"),
        ("apps/v1", "Deployment"),
        ("batch/v1", "CronJob"),
        ("rbac.authorization.k8s.io/v1", "ClusterRole"),
        ("monitoring.coreos.com/v1", "ServiceMonitor"),
        // Others have kinds of the same names.
        ("serving.knative.dev/v1", "Service"),
        ("networking.istio.io/v1", "Gateway"),
        ("gateway.networking.k8s.io/v1", "GatewayClass"),
        ("gateway.networking.k8s.io/v1beta1", "ReferenceGrant"),
    ] {
        let checked = shop_beside(&format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: shop}}\nspec: {{replicas: [1]}}"
        ));
        assert_eq!(lines(&checked.problems), "", "{kind}");
        assert!(checked.plan.is_some() && checked.resources == 4);
        assert_eq!(
            checked.ignored,
            [format!("{kind} default/shop (a.yaml:39:1)")]
        );
    }
}

#[test]
fn an_ingress_is_passed_over_with_what_to_write_instead() {
    let checked = shop_beside(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {name: shop}\nspec: {}",
    );
    assert_eq!(lines(&checked.problems), "");
    assert_eq!(
        checked.ignored,
        ["Ingress default/shop (a.yaml:39:1); use HTTPRoute"]
    );
}

#[test]
fn secrets_of_other_types_are_passed_over() {
    for parts in [
        "type: Opaque\ndata: {password: aHVudGVyMg==}",
        "stringData: {password: hunter2}",
        "type: kubernetes.io/service-account-token",
    ] {
        let checked = shop_beside(&format!(
            "apiVersion: v1\nkind: Secret\nmetadata: {{name: shop}}\n{parts}"
        ));
        assert_eq!(lines(&checked.problems), "", "{parts}");
        assert_eq!(checked.ignored.len(), 1, "{parts}");
    }
}

#[test]
fn what_is_nearly_ours_is_a_mistake() {
    for (version, kind, expected) in [
        (
            "gateway.networking.k8s.io/v1",
            "HTTPRouts",
            "40:7: error: HTTPRouts default/x: kind: `HTTPRouts` is not a known kind; did you mean `HTTPRoute`?",
        ),
        (
            "gateway.networking.k8s.oi/v1",
            "HTTPRoute",
            "39:13: error: HTTPRoute default/x: apiVersion: `gateway.networking.k8s.oi/v1` is not a version of HTTPRoute that is read; write `gateway.networking.k8s.io/v1`",
        ),
        (
            "gatway.networking.k8s.io/v1",
            "HTTPRoute",
            "39:13: error: HTTPRoute default/x: apiVersion: `gatway.networking.k8s.io/v1` is not a version of HTTPRoute that is read; write `gateway.networking.k8s.io/v1`",
        ),
        (
            "gateway.networking.x-k8s.io/v1",
            "HTTPRoute",
            "39:13: error: HTTPRoute default/x: apiVersion: `gateway.networking.x-k8s.io/v1` is not a version of HTTPRoute that is read; write `gateway.networking.k8s.io/v1`",
        ),
        (
            "gteway.netwrking.k8s.o/v1",
            "HTTPRoute",
            "39:13: error: HTTPRoute default/x: apiVersion: `gteway.netwrking.k8s.o/v1` is not a version of HTTPRoute that is read; write `gateway.networking.k8s.io/v1`",
        ),
        (
            "v1",
            "Servise",
            "40:7: error: Servise default/x: kind: `Servise` is not a known kind; did you mean `Service`?",
        ),
        (
            "gateway.networking.k8s.io/v1",
            "BackendTLSPolicy",
            "40:7: error: BackendTLSPolicy default/x: kind: `BackendTLSPolicy` is not a known kind; there is Gateway, HTTPRoute, TCPRoute, UDPRoute, Service, EndpointSlice, Secret, AgentgatewayBackend, AgentgatewayPolicy, WeirPolicy",
        ),
        (
            "example.com/v1",
            "Thing",
            "39:13: error: Thing default/x: apiVersion: `example.com` is not a known group of kinds; correct it, or leave the document out",
        ),
        (
            "gateway.networking.k8s.io/v1",
            "GRPCRoute",
            "40:7: error: GRPCRoute default/x: kind: GRPCRoute is not supported yet; leave the document out",
        ),
    ] {
        let checked = shop_beside(&format!(
            "apiVersion: {version}\nkind: {kind}\nmetadata: {{name: x}}"
        ));
        assert_eq!(lines(&checked.problems), format!("a.yaml:{expected}"));
        assert_eq!(checked.ignored, [""; 0], "{kind}");
    }
}

#[test]
fn a_list_is_what_is_in_it() {
    let items: String = SHOP
        .split("---\n")
        .map(|document| {
            let lines: Vec<String> = document.lines().map(|line| format!("  {line}\n")).collect();
            let item = lines.concat();
            item.replacen("  ", "- ", 1)
        })
        .collect();
    let list =
        format!("apiVersion: v1\nkind: List\nmetadata: {{resourceVersion: ''}}\nitems:\n{items}");
    assert_eq!(plan(&list).backends, plan(SHOP).backends);
    let mistaken = changed(&list, "kind: HTTPRoute", "kind: HTTPRout");
    let problems = lines(&checked(&mistaken).problems);
    let expected = "a.yaml:13:9: error: HTTPRout default/shop: kind: `HTTPRout` is not a known kind; did you mean `HTTPRoute`?";
    assert!(problems.lines().any(|line| line == expected), "{problems}");
}

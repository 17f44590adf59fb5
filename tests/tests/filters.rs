//! What rules and their backendRefs do to what passes, as curl and an endpoint see it.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_tests::documents::{Documents, Said};
use weir_tests::endpoint::scripts::{never_answer, script};
use weir_tests::endpoint::{Next, Script};
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run, find};
use weir_tests::wait::becomes_true;
use weir_tests::weir::run_to_end;

const NEEDS: &[Need] = &[Need::Root, Need::Program("curl")];

/// Rules beside that of the shop.
fn route(rules: &str) -> String {
    format!(
        "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: filtered}}
spec:
  parentRefs: [{{name: web}}]
  rules:
{rules}"
    )
}

/// A Service of one endpoint.
fn service(name: &str, address: IpAddr) -> String {
    format!(
        "---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: {name}-1, labels: {{kubernetes.io/service-name: {name}}}}}
addressType: IPv4
ports: [{{port: {PORT}}}]
endpoints: [{{addresses: [{address}]}}]
"
    )
}

/// Answers with the head it got.
fn tells_its_head() -> Script {
    script(|exchange| {
        exchange.read_body(|_| {})?;
        let head = &exchange.head;
        let fields = head.fields.iter();
        let fields = fields.map(|(name, value)| format!("{name}: {value}\n"));
        let body = format!("{}\n{}", head.start, fields.collect::<String>());
        let length = body.len();
        exchange.send(
            format!("HTTP/1.1 200 OK\r\nserver: secret\r\nx-stage: endpoint\r\ncontent-length: {length}\r\n\r\n{body}")
                .as_bytes(),
        )?;
        Ok(Next::Keep)
    })
}

/// What curl on the client's host prints: the response's head and body.
fn curl(scenario: &Scenario, arguments: &[&str], path: &str) -> Result<String> {
    let url = format!("http://{}{path}", scenario.weir.listen);
    let mut command = Command::new(find("curl").context("was looked for")?);
    command.args(["--silent", "--show-error", "--include", "--max-time", "10"]);
    command.args(arguments).arg(url);
    let output = run_to_end(command, &scenario.star.client.namespace.place())?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "curl failed: {error}");
    Ok(String::from_utf8_lossy(&output.stdout).replace("\r\n", "\n"))
}

#[test]
fn clients_are_sent_to_another_host_port_and_path() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let rule = |path: &str, redirect: &str| {
        format!(
            "  - matches: [{{path: {{value: {path}}}}}]
    filters: [{{type: RequestRedirect, requestRedirect: {{{redirect}}}}}]\n"
        )
    };
    let replaced = |kind: &str, key: &str| format!("path: {{type: {kind}, {key}: /new}}");
    let rules = [
        rule("/host", "hostname: shop.example, statusCode: 301"),
        rule("/port", "port: 8443"),
        rule("/secure", "scheme: https, statusCode: 308"),
        rule("/full", &replaced("ReplaceFullPath", "replaceFullPath")),
        rule(
            "/old",
            &replaced("ReplacePrefixMatch", "replacePrefixMatch"),
        ),
    ];
    let documents = route(&rules.concat());
    let said = Said {
        documents: &documents,
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![tells_its_head()], said)?;
    let (host, port) = (scenario.weir.listen.ip(), scenario.weir.listen.port());
    for (path, status, location) in [
        (
            "/host/a?b=c",
            301,
            format!("http://shop.example:{port}/host/a?b=c"),
        ),
        ("/port", 302, format!("http://{host}:8443/port")),
        ("/secure/a", 308, format!("https://{host}/secure/a")),
        ("/full/a/b?c", 302, format!("http://{host}:{port}/new?c")),
        ("/old/a/b?c", 302, format!("http://{host}:{port}/new/a/b?c")),
    ] {
        let answer = curl(&scenario, &[], path)?.to_lowercase();
        let line = format!("http/1.1 {status} ");
        assert!(answer.starts_with(&line), "{path}: {answer}");
        let location = format!("\nlocation: {location}\n");
        assert!(answer.contains(&location), "{path}: {answer}");
    }
    assert_eq!(scenario.endpoints[0].seen().requests(), 0);
    // A client that follows arrives.
    let followed = curl(&scenario, &["--location"], "/old/a")?;
    assert!(followed.contains("\nGET /new/a HTTP/1.1\n"), "{followed}");
    Ok(())
}

#[test]
fn endpoints_and_clients_get_what_rules_and_backends_make_of_it() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let rules = "  - matches: [{path: {value: /v1}}]
    filters:
    - type: URLRewrite
      urlRewrite: {hostname: inner.example, path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2}}
    - type: RequestHeaderModifier
      requestHeaderModifier: {set: [{name: x-tier, value: rule}], add: [{name: x-list, value: b}], remove: [x-drop]}
    - type: ResponseHeaderModifier
      responseHeaderModifier: {set: [{name: x-stage, value: rule}], remove: [server]}
    backendRefs:
    - name: shop
      port: 80
      filters:
      - type: RequestHeaderModifier
        requestHeaderModifier: {set: [{name: x-tier, value: backend}]}
      - type: ResponseHeaderModifier
        responseHeaderModifier: {add: [{name: x-more, value: backend}]}
";
    let documents = route(rules);
    let said = Said {
        documents: &documents,
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![tells_its_head()], said)?;
    let fields = ["x-tier: client", "x-list: a", "x-drop: 1"];
    let fields: Vec<&str> = fields
        .iter()
        .flat_map(|field| ["--header", field])
        .collect();
    let answer = curl(&scenario, &fields, "/v1/cart?id=/v1")?.to_lowercase();
    let (head, arrived) = answer.split_once("\n\n").context("a head and a body")?;
    assert!(
        arrived.starts_with("get /v2/cart?id=/v1 http/1.1\n"),
        "{arrived}"
    );
    let given = |text: &str, name: &str| -> Vec<String> {
        let values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        values.map(str::to_owned).collect()
    };
    assert_eq!(given(arrived, "host"), ["inner.example"]);
    assert_eq!(given(arrived, "x-tier"), ["backend"]);
    assert_eq!(given(arrived, "x-list"), ["a", "b"]);
    assert_eq!(given(arrived, "x-drop"), Vec::<String>::new());
    assert_eq!(given(head, "server"), Vec::<String>::new());
    assert_eq!(given(head, "x-stage"), ["rule"]);
    assert_eq!(given(head, "x-more"), ["backend"]);
    Ok(())
}

#[test]
fn a_mirror_sees_every_request_and_is_never_waited_for() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut written = None;
    let scripts = vec![tells_its_head(), script(never_answer)];
    let scenario = Scenario::start(scripts, |star, mut options| {
        let address = |place: usize| star.endpoints[place].address();
        let said = Said {
            rule: "filters: [{type: RequestMirror, requestMirror: {backendRef: {name: copies, port: 80}}}]",
            documents: &service("copies", address(1)),
            ..Said::default()
        };
        let endpoints = [SocketAddr::new(address(0), PORT)].into_iter();
        let documents = Documents::write(options.listen[0], endpoints, said);
        let documents = written.insert(documents.expect("a writable folder"));
        options.config = Some(documents.path().to_owned());
        options
    })?;
    for number in 1..=20 {
        let path = format!("/{number}");
        let answer = curl(&scenario, &["--data", "a=1"], &path)?;
        let line = format!("\n\nPOST {path} HTTP/1.1\n");
        assert!(answer.contains(&line), "{answer}");
    }
    let has_all = || scenario.endpoints[1].seen().requests() == 20;
    assert!(becomes_true(Duration::from_secs(5), has_all));
    assert_eq!(scenario.endpoints[0].seen().requests(), 20);
    let metrics = scenario.weir.metrics()?;
    let sum = |name, labels: &[(&str, &str)]| metrics.sum(name, labels);
    assert_eq!(sum("weir_mirrored_requests_total", &[]), Some(20.0));
    assert_eq!(sum("weir_mirrored_requests_dropped_total", &[]), Some(0.0));
    assert_eq!(sum("weir_requests_total", &[]), Some(20.0));
    let dump = scenario.dump()?;
    assert_eq!(dump[0].attempts.succeeded, 20);
    assert_eq!(dump[1].pending, 20, "nobody has heard of them");
    Ok(())
}

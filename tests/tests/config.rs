//! Resources from files: what is checked is what is served.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::script;
use weir_tests::process::Place;
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::weir_command;

const NEEDS: &[Need] = &[Need::Root];

/// A directory that is gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Result<Self> {
        let path = std::env::temp_dir().join(format!("weir-config-{}-{name}", std::process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    fn write(&self, file: &str, text: &str) -> Result<PathBuf> {
        let path = self.0.join(file);
        fs::write(&path, text)?;
        Ok(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Answers with its own name.
fn named(name: &'static str) -> Script {
    script(move |exchange| exchange.respond(200, name.as_bytes()))
}

fn gateway(listen: SocketAddr) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  addresses: [{{value: \"{}\"}}]
  listeners: [{{name: http, port: {}, protocol: HTTP}}]
",
        listen.ip(),
        listen.port()
    )
}

fn service(name: &str, endpoint: &str) -> String {
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
endpoints: [{{addresses: [{endpoint}], targetRef: {{kind: Pod, name: {name}-pod}}}}]
"
    )
}

const ROUTES: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: any}
spec:
  parentRefs: [{name: web}]
  hostnames: [weir.test]
  rules:
  - matches: [{path: {value: /shop}}]
    backendRefs: [{name: one, port: 80}]
  - matches: [{path: {value: /shop}, headers: [{name: X-Canary, value: 'yes'}]}]
    backendRefs: [{name: two, port: 80}]
  - matches: [{path: {type: Exact, value: /half}}]
    backendRefs: [{name: one, port: 80, weight: 1}, {name: two, port: 80, weight: 1}]
  - matches: [{path: {type: Exact, value: /nowhere}}]
    backendRefs: [{name: one, port: 80, weight: 0}]
";

#[test]
fn requests_go_where_routes_from_a_directory_send_them() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new("routes")?;
    let scenario = Scenario::start(vec![named("one"), named("two")], |star, mut options| {
        let services = [("one", 0), ("two", 1)].map(|(name, place): (&str, usize)| {
            service(name, &star.endpoints[place].address().to_string())
        });
        let backends = gateway(options.listen[0]) + &services.concat();
        let written = folder.write("backends.yaml", &backends);
        written
            .and_then(|_| folder.write("routes.yaml", ROUTES))
            .expect("a writable folder");
        options.config = Some(folder.0.clone());
        options
    })?;
    let mut client = scenario.client()?;
    for (path, fields, expected) in [
        ("/shop", "", "one"),
        ("/shop/cart?x=1", "", "one"),
        ("/shop/", "x-canary: yes\r\n", "two"),
        ("/shop", "x-canary: no\r\n", "one"),
    ] {
        let response = client.request("GET", path, fields, b"")?;
        assert_eq!(
            (response.status(), &*response.text()),
            (200, expected),
            "{path} {fields}"
        );
    }
    for (path, status, cause) in [
        ("/shopping", 404, "no-route"),
        ("/", 404, "no-route"),
        ("/nowhere", 500, "no-backend"),
    ] {
        let response = client.get(path)?;
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(response.head.field("x-weir-error"), Some(cause), "{path}");
    }
    // A body of a request that goes nowhere does not disturb the next one.
    assert_eq!(
        client.request("POST", "/", "", b"left unread")?.status(),
        404
    );
    let mut client = scenario.client()?;
    let mut ones = 0;
    for _ in 0..200 {
        ones += usize::from(client.get("/half")?.text() == "one");
    }
    // Five sigma around 100.
    assert!((65..=135).contains(&ones), "{ones} of 200");

    let keys: Vec<String> = scenario
        .weir
        .dump()?
        .into_iter()
        .map(|one| one.endpoint)
        .collect();
    assert_eq!(keys, ["//Pod/default/one-pod", "//Pod/default/two-pod"]);
    Ok(())
}

#[test]
fn what_quick_mode_prints_serves_the_same() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new("quick")?;
    let scenario = Scenario::start(vec![named("one"), named("two")], |_, mut options| {
        let arguments = options.arguments();
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        arguments.push("--print-config");
        let printed = weir_command(&Place::default(), &arguments).expect("a binary");
        assert!(printed.status.success(), "{printed:?}");
        let text = String::from_utf8(printed.stdout).expect("text");
        options.config = Some(
            folder
                .write("quick.yaml", &text)
                .expect("a writable folder"),
        );
        options
    })?;
    scenario.load(
        4,
        weir_tests::load::Pace::PerSecond(200.0),
        Duration::from_secs(1),
    )?;
    let shares = scenario.shares();
    assert!(shares.iter().all(|share| *share > 0.2), "{shares:?}");
    assert_eq!(scenario.dump()?.len(), 2);
    Ok(())
}

#[test]
fn a_check_lists_all_mistakes_of_all_files_and_fails() -> Result<()> {
    let folder = Folder::new("mistakes")?;
    let listen = SocketAddr::from(([127, 0, 0, 1], PORT));
    let mistaken = gateway(listen).replace("protocol: HTTP", "protocol: TLS, colour: red");
    folder.write("a.yaml", &mistaken)?;
    folder.write(
        "b.yaml",
        &service("one", "10.0.0.1").replace("IPv4", "IPv5"),
    )?;
    folder.write("c.yml", &ROUTES.replace("{name: two", "{name: too"))?;
    folder.write("notes.txt", "not a resource")?;
    let output = check(&folder.0)?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).replace(&*folder.0.to_string_lossy(), "");
    for expected in [
        "/a.yaml:6:50: error: Gateway default/web: spec.listeners[0].protocol: `TLS` is not supported yet; write HTTP or TCP or UDP\n",
        "/a.yaml:6:55: error: Gateway default/web: spec.listeners[0].colour: is not a known field; leave it out\n",
        "/b.yaml:10:14: error: EndpointSlice default/one-1: addressType: `IPv5` is not one of IPv4, IPv6\n",
        "there is no Service default/too; add it, or correct the name\n",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }

    folder.write("a.yaml", &gateway(listen))?;
    folder.write(
        "b.yaml",
        &(service("one", "10.0.0.1") + &service("two", "10.0.0.2")),
    )?;
    folder.write("c.yml", ROUTES)?;
    let output = check(&folder.0)?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for expected in [
        "LISTENER 127.0.0.1:8080\n",
        "  weir.test  /half\n    to default/one (1), default/two (1); rules[2] of default/any\n",
        "  10.0.0.2:8080  1       0       //Pod/default/two-pod\n",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    assert!(said.contains("--first-byte-timeout"), "{said}");
    Ok(())
}

#[test]
fn a_response_a_policy_calls_unhealthy_ejects_its_endpoint() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new("condition")?;
    let gone = script(|exchange| exchange.respond(410, b"gone"));
    let scenario = Scenario::start(vec![gone, named("well")], |star, mut options| {
        let endpoints = star.endpoints.iter().map(|one| one.address().to_string());
        let endpoints = endpoints.collect::<Vec<_>>().join("]}, {addresses: [");
        let text = gateway(options.listen[0])
            + &service("one", &endpoints).replace(", targetRef: {kind: Pod, name: one-pod}", "")
            + "---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: any}
spec:
  parentRefs: [{name: web}]
  rules: [{backendRefs: [{name: one, port: 80}]}]
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: judged}
spec:
  targetRefs: [{group: gateway.networking.k8s.io, kind: HTTPRoute, name: any}]
  backend:
    health: {unhealthyCondition: response.code == 410, eviction: {consecutiveFailures: 2, duration: 60s}}
";
        let written = folder.write("all.yaml", &text);
        options.config = Some(written.expect("a writable folder"));
        options
    })?;
    let mut client = scenario.client()?;
    let mut gone = 0;
    for _ in 0..100 {
        gone += usize::from(client.get("/")?.status() == 410);
    }
    assert_eq!(gone, 2, "two in a row, and no more");
    let dump = scenario.dump()?;
    assert!(dump[0].ejected && !dump[1].ejected, "{dump:?}");
    Ok(())
}

const SEVEN_MISTAKES: &str = r#"apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  listeners:
  - {name: one, port: 8081, protocol: HTTP}
  - {name: two, port: 8081, protocol: HTTP}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: web}]
  hostname: [shop.example.com]
  rules:
  - matches: [{path: {type: RegularExpression, value: "/a(b"}}]
    backendRefs: [{name: shpo, port: 80}]
---
apiVersion: v1
kind: Servise
metadata: {name: other}
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: "80"}]}
---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: bound}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend: {sessionAffinity: {source: "request.headers["}}
"#;

#[test]
fn seven_different_mistakes_are_seven_lines_with_their_places() -> Result<()> {
    let folder = Folder::new("seven")?;
    let file = folder.write("shop.yaml", SEVEN_MISTAKES)?;
    let path = file.to_string_lossy();
    let output = weir_command(&Place::default(), &["check", &path])?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).replace(&*path, "shop.yaml");
    let starts = [
        "shop.yaml:7:23: error: Gateway default/web: spec.listeners[1].port: 0.0.0.0:8081 is listened on already at",
        "shop.yaml:14:3: error: HTTPRoute default/shop: spec.hostname: is not a known field; did you mean `hostnames`?",
        "shop.yaml:16:55: error: HTTPRoute default/shop: spec.rules[0].matches[0].path.value: `/a(b` is not a regular",
        "shop.yaml:17:19: error: HTTPRoute default/shop: spec.rules[0].backendRefs[0]: there is no Service default/shpo;",
        "shop.yaml:20:7: error: Servise default/other: kind: `Servise` is not a known kind; did you mean `Service`?",
        "shop.yaml:26:23: error: Service default/shop: spec.ports[0].port: is the text `80`; write a whole number",
        "shop.yaml:33:39: error: AgentgatewayPolicy default/bound: spec.backend.sessionAffinity.source: line 1, column 17:",
        "7 errors, 0 warnings",
    ];
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), starts.len(), "{said}");
    for (line, start) in lines.iter().zip(starts) {
        assert!(line.starts_with(start), "{start}\n{said}");
    }
    Ok(())
}

#[test]
fn a_broken_file_of_a_directory_refuses_the_whole_and_hides_nothing() -> Result<()> {
    let folder = Folder::new("broken")?;
    folder.write("a.json", "{\"kind\": \"Service\",, }")?;
    folder.write("b.yaml", SEVEN_MISTAKES)?;
    let output = check(&folder.0)?;
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.ends_with("/a.json:1:20: error: cannot be read as JSON: key must be a string"),
        "{said}"
    );
    assert!(said.ends_with("8 errors, 0 warnings\n"), "{said}");
    let config = folder.0.to_string_lossy();
    let run = weir_command(&Place::default(), &["run", "--config", &config])?;
    assert!(!run.status.success());
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(said.contains("the configuration is refused"), "{said}");
    assert!(said.contains("8 errors, 0 warnings"), "{said}");
    Ok(())
}

fn check(path: &Path) -> Result<std::process::Output> {
    let path = path.to_string_lossy();
    weir_command(&Place::default(), &["check", "--config", &path])
}

#[test]
fn filters_edit_what_passes_and_rewrite_what_endpoints_are_asked() -> Result<()> {
    use weir_tests::documents::{Documents, Said};
    if !can_run(NEEDS) {
        return Ok(());
    }
    let telling = script(|exchange| {
        let field = |name| exchange.head.field(name).unwrap_or("-").to_owned();
        let told = format!(
            "{} {} {} {}",
            exchange.head.target(),
            field("host"),
            field("x-tenant"),
            field("cookie")
        );
        exchange.respond(200, told.as_bytes())
    });
    let said = Said {
        rule: "matches: [{path: {value: /shop}}]
filters:
- type: RequestHeaderModifier
  requestHeaderModifier: {set: [{name: X-Tenant, value: weir}], remove: [Cookie]}
- type: ResponseHeaderModifier
  responseHeaderModifier: {add: [{name: X-Served-By, value: weir}]}
- type: URLRewrite
  urlRewrite: {hostname: inner, path: {type: ReplacePrefixMatch, replacePrefixMatch: /v2}}",
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![telling], said)?;
    let mut client = scenario.client()?;
    for _ in 0..2 {
        let fields = "cookie: a=b\r\nx-tenant: me\r\n";
        let answer = client.request("GET", "/shop/cart?id=1", fields, b"")?;
        assert_eq!(answer.text(), "/v2/cart?id=1 inner weir -");
        assert_eq!(answer.head.field("x-served-by"), Some("weir"));
    }
    Ok(())
}

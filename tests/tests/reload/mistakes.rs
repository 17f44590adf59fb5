//! Mistakes that a running proxy is told to load: each is said with its place and its remedy, and nothing else happens.

use anyhow::{Context, Result};
use weir_tests::skip::can_run;

use crate::NEEDS;
use crate::edited::{Edited, FILE, quick};

/// A document in YAML, and what is said of it: line in it, column, key path and remedy.
struct Mistake {
    document: String,
    said: Vec<String>,
}

fn mistake(document: &str, said: &[&str]) -> Mistake {
    Mistake {
        document: document.to_owned(),
        said: said.iter().map(|line| (*line).to_owned()).collect(),
    }
}

/// A policy with this `backend`, which stands in its sixth line from the 11th column on.
fn policy(backend: &str, said: &str) -> Mistake {
    let document = format!(
        "apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {{name: wrong}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
  backend: {backend}
"
    );
    mistake(&document, &[&format!("6:{said}")])
}

fn mistakes(port: u16) -> Vec<Mistake> {
    let affinity = "AgentgatewayPolicy default/wrong: spec.backend.sessionAffinity.source";
    let condition = "AgentgatewayPolicy default/wrong: spec.backend.health.unhealthyCondition";
    let gateway = |ip: &str, port: u16| {
        format!(
            "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: other}}
spec:
  addresses: [{{value: {ip}}}]
  listeners: [{{name: http, port: {port}, protocol: HTTP}}]
"
        )
    };
    let at_port = "6:34: error: Gateway default/other: spec.listeners[0].port: ";
    vec![
        mistake(
            "apiVersion: v1\nkind: Service\nmetadata: {name: two}\nspec: {ports: [{port: '80'}], portz: []}\n",
            &[
                "4:23: error: Service default/two: spec.ports[0].port: is the text `80`; write a whole number from 1 to 65535",
                "4:31: error: Service default/two: spec.portz: is not a known field; did you mean `ports`?",
            ],
        ),
        mistake(
            "apiVersion: v1\nkind: Service\nmetadata: {name: shop}\nspec: {ports: [{port: 80}]}\n",
            &["1:1: error: Service default/shop: has the name of the Service at "],
        ),
        mistake(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {name: lost}\nspec:\n  parentRefs: [{name: web-0}]\n  rules: [{backendRefs: [{name: shpo, port: 80}]}]\n",
            &[
                "6:26: error: HTTPRoute default/lost: spec.rules[0].backendRefs[0]: there is no Service default/shpo; did you mean default/shop?",
            ],
        ),
        mistake(
            &gateway("127.0.0.1", 15020),
            &[&format!(
                "{at_port}clients are to connect to 127.0.0.1:15020, which is the address of --metrics too; give --metrics another one, or `--metrics off`"
            )],
        ),
        mistake(
            &format!(
                "{}---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayBackend
metadata: {{name: ourselves}}
spec: {{static: {{host: 127.0.0.9, port: {port}}}}}
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: round}}
spec:
  parentRefs: [{{name: other}}]
  rules: [{{backendRefs: [{{group: agentgateway.dev, kind: AgentgatewayBackend, name: ourselves}}]}}]
",
                gateway("127.0.0.9", port)
            ),
            &[&format!(
                "{at_port}the endpoint 127.0.0.9:{port} is where Weir itself listens: requests would go round in circles; name the address of the service behind it"
            )],
        ),
        policy(
            "{sessionAffinity: {source: 'request.headers['}}",
            &format!("39: error: {affinity}: line 1, column 17: "),
        ),
        policy(
            "{sessionAffinity: {source: 'request.headers.exists(a, request.headers.exists(b, request.headers.exists(c, request.headers.exists(d, true))))'}}",
            &format!(
                "39: error: {affinity}: the expression could cost too much on a large request; make it simpler"
            ),
        ),
        policy(
            "{sessionAffinity: {source: 'request.path.replace(request.path, request.path)'}}",
            &format!("39: error: {affinity}: the expression could cost too much"),
        ),
        policy(
            "{health: {unhealthyCondition: response.code}}",
            &format!(
                "42: error: {condition}: gives a number for whatever comes; write one that gives true or false"
            ),
        ),
        policy(
            "{health: {unhealthyCondition: response.grpcStatus != 0}}",
            &format!(
                "42: error: {condition}: line 1, column 9: `response.grpcStatus` is not supported yet: gRPC is not served"
            ),
        ),
    ]
}

#[test]
fn every_mistake_is_told_where_it_stands_and_disturbs_nobody() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick()], &["--no-watch"])?;
    let weir = &edited.scenario.weir;
    let service = edited.service(&[0]);
    let good = service.to_yaml();
    let lines = good.lines().count();
    let mut client = edited.scenario.client()?;
    assert_eq!(client.get("/")?.status(), 200);
    for Mistake { document, said } in mistakes(weir.listen.port()) {
        let text = format!("{good}---\n{document}");
        edited.folder.write(FILE, &text)?;
        let answer = weir.reload("")?;
        let text = answer.text();
        assert_eq!(answer.status(), 422, "{document}\n{text}");
        for line in said {
            let (number, rest) = line.split_once(':').context("a line and a column")?;
            let number = lines + 1 + number.parse::<usize>()?;
            let expected = format!("{FILE}:{number}:{rest}");
            assert!(text.contains(&expected), "{expected}\n{text}");
        }
        assert_eq!(client.get("/")?.status(), 200, "on the same connection");
        assert_eq!(weir.revision()?, 1, "{document}");
    }

    // These are no mistakes, and yet hardly what was meant: served as they are, and warned of.
    let (head, _) = good.split_once("endpoints:").context("a slice")?;
    for (text, said) in [
        (
            format!("{head}endpoints: []\n"),
            "has no ready endpoint for port 80: its requests are answered with 503",
        ),
        (
            good.replace("weir.dev/weight: '1'", "weir.dev/weight: '0'"),
            "has only endpoints of weight 0 for port 80: its requests are answered with 503",
        ),
    ] {
        edited.folder.write(FILE, &text)?;
        let answer = weir.reload("")?;
        assert_eq!(answer.status(), 200, "{}", answer.text());
        assert!(weir.process.output().contains(said), "{said}");
        assert_eq!(client.get("/")?.status(), 503);
    }
    edited.write(&service)?;
    assert_eq!(weir.reload("")?.status(), 200);
    assert_eq!(client.get("/")?.status(), 200);
    Ok(())
}

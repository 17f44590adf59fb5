//! Who fails leaves the pool: for longer each time in a row, or for as long as it asks, and never so that nobody is left
//! to serve.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use weir_tests::documents::{Documents, Said};
use weir_tests::endpoint::scripts::{answers_after, script};
use weir_tests::endpoint::{Next, Script};
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_some;

const NEEDS: &[Need] = &[Need::Root];
/// Longer than the longest ejection that is waited for.
const PATIENCE: Duration = Duration::from_secs(12);

/// A scenario under this `health` of a policy.
fn under(health: &str, scripts: Vec<Script>) -> Result<Scenario> {
    let policy = format!(
        "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {{name: judged}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
  backend: {{health: {health}}}
"
    );
    let said = Said {
        documents: &policy,
        ..Said::default()
    };
    Documents::scenario(scripts, said)
}

/// What an endpoint answers, until it is told otherwise.
#[derive(Clone)]
struct Status(Arc<AtomicU16>);

impl Status {
    fn new(status: u16) -> Self {
        Self(Arc::new(AtomicU16::new(status)))
    }

    fn script(&self) -> Script {
        let status = self.0.clone();
        script(move |exchange| exchange.respond(status.load(Ordering::Relaxed), b"scripted\n"))
    }

    fn becomes(&self, status: u16) {
        self.0.store(status, Ordering::Relaxed);
    }
}

/// Answers 429 with this field.
fn limits(field: &'static str) -> Script {
    script(move |exchange| {
        exchange.read_body(|_| {})?;
        let head = format!("HTTP/1.1 429 Scripted\r\n{field}\r\ncontent-length: 0\r\n\r\n");
        exchange.send(head.as_bytes())?;
        Ok(Next::Keep)
    })
}

/// How long each ejection of an endpoint was to last, as the log says.
fn lengths(scenario: &Scenario, endpoint: usize) -> Vec<String> {
    let begin = format!("endpoint {} of ", scenario.endpoints[endpoint].address());
    let log = scenario.weir.process.output();
    let ejections = log.lines().filter(|line| line.contains(&begin));
    ejections
        .filter_map(|line| line.split_once(" is ejected for "))
        .filter_map(|(_, rest)| rest.split_whitespace().next())
        .map(str::to_owned)
        .collect()
}

/// How long its first ejection was to last; the log may come a little later than the response.
fn first_length(scenario: &Scenario, endpoint: usize) -> Option<String> {
    becomes_some(PATIENCE, || lengths(scenario, endpoint).into_iter().next())
}

/// Asks until the first endpoint has been ejected so often; says when that was.
fn ask_until_ejected(scenario: &Scenario, times: usize) -> Result<Instant> {
    let start = Instant::now();
    let mut client = scenario.client()?;
    while start.elapsed() < PATIENCE {
        client.get("/")?;
        if lengths(scenario, 0).len() == times {
            return Ok(Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    anyhow::bail!(
        "not ejected {times} times:\n{}",
        scenario.weir.process.output()
    )
}

/// How long it is ejected still, in seconds, as the dump says.
fn seconds_left(scenario: &Scenario) -> Result<f64> {
    let dump: serde_json::Value =
        serde_json::from_str(&scenario.weir.admin("/config_dump")?.text())?;
    let address = scenario.endpoints[0].address().to_string();
    let mut endpoints = dump["backends"][0]["endpoints"]
        .as_array()
        .into_iter()
        .flatten();
    let endpoint = endpoints.find(|one| one["endpoint"] == *address);
    let left = endpoint.and_then(|one| one["ejectedForMs"].as_f64());
    Ok(left.context("is not ejected")? / 1000.0)
}

#[test]
fn each_ejection_in_a_row_is_longer_by_the_length_of_the_first() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let failing = Status::new(500);
    let scripts = vec![failing.script(), answers_after(Duration::ZERO)];
    let health = "{eviction: {duration: 3s, consecutiveFailures: 3}}";
    let scenario = under(health, scripts)?;
    let mut last: Option<(Instant, f64)> = None;
    for (turn, length) in [3.0, 6.0, 9.0].into_iter().enumerate() {
        let now = ask_until_ejected(&scenario, turn + 1)?;
        let left = seconds_left(&scenario)?;
        assert!((length - 2.0..=length).contains(&left), "{left} s");
        // Three failures eject at first; a single one does when it is back, and nobody asked it meanwhile.
        let seen = scenario.endpoints[0].seen().requests();
        assert_eq!(seen, 3 + turn as u64);
        if let Some((before, lasted)) = last {
            let apart = (now - before).as_secs_f64();
            assert!(apart > lasted - 0.5, "back after {apart} s of {lasted} s");
        }
        last = Some((now, length));
    }
    assert_eq!(lengths(&scenario, 0), ["3s", "6s", "9s"]);
    Ok(())
}

#[test]
fn a_success_makes_the_next_ejection_a_first_one() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let status = Status::new(500);
    let scripts = vec![status.script(), answers_after(Duration::ZERO)];
    let health = "{eviction: {duration: 1s, consecutiveFailures: 3}}";
    let scenario = under(health, scripts)?;
    ask_until_ejected(&scenario, 2)?;
    status.becomes(200);
    let mut client = scenario.client()?;
    let start = Instant::now();
    while scenario.dump()?[0].attempts.succeeded == 0 {
        ensure!(start.elapsed() < PATIENCE, "does not return");
        client.get("/")?;
    }
    let before = scenario.endpoints[0].seen().requests();
    status.becomes(500);
    ask_until_ejected(&scenario, 3)?;
    assert_eq!(lengths(&scenario, 0), ["1s", "2s", "1s"]);
    let metrics = scenario.weir.metrics()?;
    let for_reason = |reason| metrics.sum("weir_endpoint_ejections_total", &[("reason", reason)]);
    assert_eq!(for_reason("consecutive_failures"), Some(3.0));
    assert_eq!(for_reason("failure"), Some(0.0));
    let failures = scenario.endpoints[0].seen().requests() - before;
    assert_eq!(failures, 3, "as many as for a first one");
    Ok(())
}

#[test]
fn an_endpoint_that_limits_its_rate_is_left_alone_for_as_long_as_it_asks() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let hints = [
        ("retry-after: 7", "7s"),
        ("retry-after-ms: 1500", "1.5s"),
        ("x-ratelimit-reset-requests: 1m30s", "90s"),
        ("x-nothing: to-say", "3s"),
    ];
    let scripts = hints.map(|(field, _)| limits(field)).into();
    let health = "{unhealthyCondition: response.code == 429, eviction: {}}";
    let scenario = under(health, scripts)?;
    let mut client = scenario.client()?;
    for _ in 0..hints.len() {
        assert_eq!(client.get("/")?.status(), 429);
    }
    for (number, (field, length)) in hints.into_iter().enumerate() {
        assert_eq!(
            first_length(&scenario, number).as_deref(),
            Some(length),
            "{field}"
        );
    }
    let metrics = scenario.weir.metrics()?;
    let for_reason = |reason| metrics.sum("weir_endpoint_ejections_total", &[("reason", reason)]);
    assert_eq!(for_reason("rate_limit"), Some(3.0));
    assert_eq!(
        for_reason("failure"),
        Some(1.0),
        "the one that said nothing"
    );
    let hint = |result| metrics.sum("weir_rate_limit_hints_total", &[("result", result)]);
    assert_eq!((hint("read"), hint("missing")), (Some(3.0), Some(1.0)));
    Ok(())
}

#[test]
fn a_length_the_policy_names_counts_more_than_the_hint_unless_it_says_otherwise() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    for (eviction, length) in [
        ("{duration: 5s}", "5s"),
        ("{duration: 5s, preferRetryAfter: true}", "7s"),
    ] {
        let health = format!("{{unhealthyCondition: response.code == 429, eviction: {eviction}}}");
        let scenario = under(&health, vec![limits("retry-after: 7")])?;
        assert_eq!(scenario.client()?.get("/")?.status(), 429);
        assert_eq!(
            first_length(&scenario, 0).as_deref(),
            Some(length),
            "{eviction}"
        );
    }
    Ok(())
}

#[test]
fn without_a_condition_a_rate_limit_is_a_success() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scripts = vec![limits("retry-after: 7"), limits("retry-after: 7")];
    let scenario = under("{eviction: {}}", scripts)?;
    let mut client = scenario.client()?;
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 429);
    }
    let dump = scenario.dump()?;
    for endpoint in &dump {
        assert_eq!((endpoint.ejected, endpoint.ejections), (false, 0));
        assert_eq!(endpoint.health_score, 1.0, "{endpoint:#?}");
    }
    let succeeded: u64 = dump.iter().map(|one| one.attempts.succeeded).sum();
    assert_eq!(succeeded, 50);
    Ok(())
}

#[test]
fn with_all_endpoints_ejected_they_serve_as_well_as_they_can() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let status = Status::new(500);
    let scripts = vec![status.script(), status.script(), status.script()];
    let scenario = under("{eviction: {duration: 60s}}", scripts)?;
    let mut client = scenario.client()?;
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 500, "the endpoint's own");
    }
    assert!(scenario.dump()?.iter().all(|endpoint| endpoint.ejected));
    status.becomes(200);
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    let dump = scenario.dump()?;
    assert!(dump.iter().all(|endpoint| endpoint.ejected), "until then");
    assert!(dump.iter().all(|endpoint| endpoint.ejections == 1));
    let metrics = scenario.weir.metrics()?;
    let rejected = metrics.sum("weir_selections_total", &[("method", "rejected")]);
    // The first three found somebody who was not ejected yet.
    assert_eq!(rejected, Some(97.0));
    assert_eq!(metrics.sum("weir_no_endpoint_total", &[]), Some(0.0));
    Ok(())
}

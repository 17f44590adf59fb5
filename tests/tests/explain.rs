//! `weir explain` beside traffic: it names who was drawn and what decided, for every way a request finds its endpoint.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use weir_tests::documents::{Documents, Said};
use weir_tests::endpoint::scripts::{answers_after, fails_of_ten};
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::weir_command;

const NEEDS: &[Need] = &[Need::Root];
const ADDRESSES: [&str; 2] = ["10.77.1.2:8080", "10.77.2.2:8080"];
const FIELD: &str = "x-session-id: a\r\n";

const EJECTED_FOR_LONG: &str = "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: judged}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend: {health: {eviction: {duration: 60s}}}
";

/// What it says of ten requests to the only backend, while a client sends many.
fn explain(scenario: &Scenario, backend: &str, more: &[&str]) -> Result<String> {
    let stop = AtomicBool::new(false);
    let (asked, output) = thread::scope(|scope| {
        let client = scope.spawn(|| -> Result<()> {
            let mut client = scenario.client()?;
            while !stop.load(Ordering::Relaxed) {
                client.request("GET", "/", FIELD, b"")?;
            }
            Ok(())
        });
        let command = [&["explain", backend, "--picks", "10"], more].concat();
        let output = weir_command(&scenario.star.proxy.place(), &command);
        stop.store(true, Ordering::Relaxed);
        (client.join().expect("no panic"), output)
    });
    asked?;
    let output = output?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "weir explain failed: {error}");
    Ok(String::from_utf8(output.stdout)?)
}

/// The ten picks.
fn picks(scenario: &Scenario, backend: &str) -> Result<Vec<Value>> {
    let text = explain(scenario, backend, &["-o", "json"])?;
    let explanation: Value = serde_json::from_str(&text)?;
    let picks = explanation["picks"].as_array().context("no picks")?;
    ensure!(picks.len() == 10, "{text}");
    Ok(picks.clone())
}

/// Two endpoints were drawn, and the better one won: the second of equals.
fn is_won_by_the_better(pick: &Value) -> bool {
    let Some([first, second]) = pick["draws"].as_array().map(Vec::as_slice) else {
        return false;
    };
    let score = |draw: &Value| draw["score"].as_f64();
    let better = match score(first) > score(second) {
        true => first,
        false => second,
    };
    score(better).is_some() && pick["winner"] == better["endpoint"]
}

#[test]
fn a_pick_by_score_names_both_candidates_and_the_better_one_won() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let [fast, slow] = [1, 20].map(|delay| answers_after(Duration::from_millis(delay)));
    let scenario = Scenario::plain(vec![fast, slow])?;
    let mut client = scenario.client()?;
    for _ in 0..20 {
        client.get("/")?;
    }
    for pick in picks(&scenario, "default")? {
        assert_eq!(pick["method"], "p2c", "{pick}");
        assert!(is_won_by_the_better(&pick), "{pick}");
    }
    let text = explain(&scenario, "default", &[])?;
    let head = "Service default/default: the better of two candidates\n";
    assert!(text.starts_with(head), "{text}");
    let (_, picked) = text.split_once("AFTER").context("no picks")?;
    for line in picked.lines().skip(1) {
        let names = |address: &&&str| line.contains(**address);
        let named = ADDRESSES.iter().filter(names).count();
        let is_pair = line.contains(" beats ") || line.contains(" drawn second, equals ");
        let is_one = line.contains("drawn twice: ");
        assert_eq!((is_pair, is_one), (named == 2, named == 1), "{line}");
    }
    assert_eq!(picked.lines().skip(1).count(), 10, "{text}");
    Ok(())
}

#[test]
fn a_pick_by_affinity_says_so_and_names_who_serves_the_value() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = || answers_after(Duration::from_millis(1));
    let scenario = Scenario::start(vec![answer(), answer()], |_, mut options| {
        let expression = r#"request.headers["x-session-id"]"#;
        options.more = vec!["--affinity".into(), expression.into()];
        options
    })?;
    let picks = picks(&scenario, "default")?;
    let home = scenario.endpoints.iter();
    let home = home.max_by_key(|one| one.seen().requests());
    let home = home.context("there are two")?.address().to_string();
    for pick in picks {
        assert_eq!(pick["method"], "affinity", "{pick}");
        assert_eq!(pick["winner"], *home, "{pick}");
        assert_eq!(pick["affinity"]["tried"], 0, "{pick}");
        assert_eq!(pick["draws"], Value::Array(Vec::new()), "{pick}");
    }
    let text = explain(&scenario, "default", &[])?;
    let head = "Service default/default: by request.headers[\"x-session-id\"]; ";
    assert!(text.starts_with(head), "{text}");
    let decisions = text.matches("affinity: the highest value\n").count();
    assert_eq!(decisions, 10, "{text}");
    Ok(())
}

#[test]
fn picks_among_the_ejected_say_that_nobody_is_active() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let fail = || fails_of_ten(10, Duration::ZERO);
    let said = Said {
        documents: EJECTED_FOR_LONG,
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![fail(), fail()], said)?;
    let mut client = scenario.client()?;
    // The first failure ejects one, the second the other.
    for _ in 0..2 {
        client.get("/")?;
    }
    for pick in picks(&scenario, "default/shop")? {
        assert_eq!(pick["method"], "rejected", "{pick}");
        assert!(is_won_by_the_better(&pick), "{pick}");
    }
    let text = explain(&scenario, "default/shop", &[])?;
    let head = "Service default/shop: nobody is active: the better of two ejected endpoints\n";
    assert!(text.starts_with(head), "{text}");
    let states = text
        .lines()
        .skip(1)
        .filter(|line| line.contains(" ejected "));
    assert_eq!(states.count(), ADDRESSES.len(), "{text}");
    assert!(text.contains("nobody active, "), "{text}");
    Ok(())
}

#[test]
fn a_backend_that_is_not_there_is_answered_by_those_that_are() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let output = weir_command(&scenario.star.proxy.place(), &["explain", "shop"])?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success());
    let there = "no backend `shop`; there is: default/default";
    assert!(said.contains(there), "{said}");
    Ok(())
}

//! What an operator asks a running Weir, and what stays true of the answers: the table, the dump it comes from, health,
//! readiness, metrics.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::{binary, weir_command};

const NEEDS: &[Need] = &[Need::Root];
const BACKENDS: [&str; 3] = ["proxy", "config", "backends"];

/// Two endpoints of which the second is drained, after ten requests.
fn asked_ten_times() -> Result<Scenario> {
    let answer = || answers_after(Duration::from_millis(3));
    let scenario = Scenario::start(vec![answer(), answer()], |_, mut options| {
        options.to[1].push_str("@0");
        options
    })?;
    let mut client = scenario.client()?;
    for _ in 0..10 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    Ok(scenario)
}

#[test]
fn the_table_shows_what_was_used_and_with_all_the_rest_too() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = asked_ten_times()?;
    let place = scenario.star.proxy.place();
    let table = |more: &[&str]| -> Result<Vec<Vec<String>>> {
        let output = weir_command(&place, &[&BACKENDS[..], more].concat())?;
        assert!(output.status.success());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let lines = text.lines();
        Ok(lines
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect())
    };
    let heads = [
        "TYPE",
        "NAME",
        "NAMESPACE",
        "ENDPOINT",
        "HEALTH",
        "REQUESTS",
        "LATENCY",
    ];
    let used = table(&[])?;
    assert_eq!(used.len(), 2, "{used:?}");
    assert_eq!(used[0], heads);
    let row = &used[1];
    assert_eq!(row[0], "Service");
    assert_eq!(row[3..6], ["10.77.1.2:8080", "1.00", "10"]);
    let latency: f64 = row[6].trim_end_matches("ms").parse()?;
    assert!((3.0..20.0).contains(&latency), "{row:?}");

    let all = table(&["--all"])?;
    assert_eq!(all.len(), 3, "{all:?}");
    assert_eq!(
        all[2][3..],
        ["10.77.2.2:8080", "1.00", "0"],
        "no latency without requests"
    );
    Ok(())
}

#[test]
fn a_saved_dump_shows_the_same_as_the_running_proxy() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = asked_ten_times()?;
    let dump = scenario.weir.admin("/config_dump")?;
    assert_eq!(dump.status(), 200);
    for format in ["short", "json", "yaml"] {
        let shown = [&BACKENDS[..], &["--all", "-o", format]].concat();
        let live = weir_command(&scenario.star.proxy.place(), &shown)?.stdout;
        let mut saved = Command::new(binary()?)
            .args(&shown)
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut stdin = saved.stdin.take().expect("piped just above");
        stdin.write_all(&dump.body)?;
        drop(stdin);
        let saved = saved.wait_with_output()?.stdout;
        assert_eq!(
            String::from_utf8_lossy(&saved),
            String::from_utf8_lossy(&live),
            "-o {format}"
        );
    }
    let rows = scenario.weir.rows()?;
    assert_eq!((rows[0].weight, rows[1].weight), (1, 0));
    assert_eq!(rows[0].pending, 0);
    assert!(!rows[0].ejected);
    assert_eq!(rows[0].health_score, 1.0);
    Ok(())
}

#[test]
fn health_metrics_and_unknown_paths_are_answered() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = asked_ten_times()?;
    assert_eq!(scenario.weir.admin("/healthz")?.status(), 200);
    assert_eq!(scenario.weir.admin("/nothing")?.status(), 404);

    let metrics = scenario.weir.metrics()?;
    let of = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    let endpoint = ("endpoint", "10.77.1.2:8080");
    assert_eq!(of("weir_endpoint_health", &[endpoint]), Some(1.0));
    assert_eq!(of("weir_endpoint_pending", &[endpoint]), Some(0.0));
    let successes = [endpoint, ("outcome", "success")];
    assert_eq!(of("weir_endpoint_requests_total", &successes), Some(10.0));
    let by_worker = [endpoint, ("source", "worker")];
    let latency = of("weir_endpoint_latency_seconds", &by_worker);
    assert!(
        latency.is_some_and(|seconds| seconds > 0.003),
        "{latency:?}"
    );
    assert_eq!(of("weir_requests_total", &[]), Some(10.0));
    Ok(())
}

#[test]
fn an_answer_made_by_weir_names_its_cause() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let mut client = scenario.client()?;
    client
        .wire
        .send(b"GET / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n")?;
    let answer = client.response("GET")?;
    assert_eq!(answer.status(), 400);
    let cause = answer.head.field("x-weir-error");
    assert!(cause.is_some_and(|cause| !cause.is_empty()), "{answer:?}");
    assert!(client.is_closed(), "what follows cannot be told apart");
    assert_eq!(scenario.endpoints[0].seen().requests(), 0);
    Ok(())
}

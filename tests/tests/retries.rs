//! Requests whose first endpoint is no good: another one serves them, and none is served twice that must not be.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_tests::documents::{Documents, Said};
use weir_tests::endpoint::scripts::{answers_after, never_answer, script};
use weir_tests::endpoint::{Next, Script};
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};

const NEEDS: &[Need] = &[Need::Root];

#[test]
fn with_one_of_two_endpoints_dead_every_request_is_served() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = || answers_after(Duration::ZERO);
    let mut scenario = Scenario::plain(vec![answer(), answer()])?;
    // Nobody listens on its port any more.
    drop(scenario.endpoints.remove(0));
    for method in ["GET", "POST"] {
        let mut client = scenario.client()?;
        for number in 0..100 {
            let answer = client.request(method, "/", "", b"order")?;
            assert_eq!(answer.status(), 200, "{method} {number}");
        }
    }
    let dump = scenario.weir.dump()?;
    let dead = dump
        .iter()
        .find(|one| one.endpoint.starts_with("10.77.1."))
        .expect("is known");
    assert!(dead.attempts.failed >= 5, "it was tried: {dead:#?}");
    let metrics = scenario.weir.metrics()?;
    let retries = metrics.sum("weir_retries_total", &[("reason", "no-connection")]);
    assert_eq!(retries, Some(dead.attempts.failed as f64));
    Ok(())
}

/// Answers this status, and counts.
fn answers(status: u16) -> Script {
    script(move |exchange| exchange.respond(status, b"scripted\n"))
}

fn seen(scenario: &Scenario) -> Vec<u64> {
    let endpoints = scenario.endpoints.iter();
    endpoints
        .map(|endpoint| endpoint.seen().requests.load(Ordering::Relaxed))
        .collect()
}

#[test]
fn a_retry_lands_on_another_endpoint_and_says_that_it_is_one() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let telling = script(|exchange| {
        let attempt = exchange
            .head
            .field("x-retry-attempt")
            .unwrap_or("0")
            .to_owned();
        exchange.respond(200, attempt.as_bytes())
    });
    let said = Said {
        rule: "retry: {attempts: 1, codes: [503], backoff: 1ms}",
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![answers(503), telling], said)?;
    let mut client = scenario.client()?;
    for _ in 0..50 {
        let answer = client.request("POST", "/", "", b"order")?;
        assert_eq!(answer.status(), 200);
        assert!(["0", "1"].contains(&&*answer.text()), "{}", answer.text());
    }
    let [broken, right] = seen(&scenario)[..] else {
        panic!("two endpoints");
    };
    assert!(broken >= 1, "it was tried");
    assert_eq!(right, 50);
    let metrics = scenario.weir.metrics()?;
    let retries = metrics.sum("weir_retries_total", &[("reason", "status")]);
    assert_eq!(retries, Some(broken as f64));
    Ok(())
}

#[test]
fn an_endpoint_that_breaks_off_is_made_good_for_a_get_and_never_for_a_post() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let breaking = || {
        script(|exchange| {
            exchange.read_body(|_| {})?;
            Ok(Next::Reset)
        })
    };
    let said = Said {
        rule: "retry: {attempts: 2, codes: [503], backoff: 1ms}",
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![breaking(), breaking(), breaking()], said)?;
    let mut client = scenario.client()?;
    let answer = client.request("POST", "/", "", b"order")?;
    assert_eq!(answer.status(), 502);
    assert_eq!(seen(&scenario).iter().sum::<u64>(), 1, "delivered once");
    let answer = client.get("/")?;
    assert_eq!(answer.status(), 502);
    let each = seen(&scenario);
    assert!(each.iter().all(|seen| (1..=2).contains(seen)), "{each:?}");
    assert_eq!(each.iter().sum::<u64>(), 4, "a get is tried everywhere");
    Ok(())
}

#[test]
fn a_budget_stops_a_storm_of_retries() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    const REQUESTS: u64 = 1000;
    let said = Said {
        rule: "retry: {attempts: 5, codes: [503], backoff: 1ms}",
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![answers(503), answers(503)], said)?;
    let mut client = scenario.client()?;
    let start = Instant::now();
    for _ in 0..REQUESTS {
        let answer = client.get("/")?;
        assert_eq!(answer.status(), 503, "{}", answer.text());
    }
    // A fifth of the requests, 50 saved up, 5 a second.
    let most = REQUESTS / 5 + 50 + 5 * (start.elapsed().as_secs() + 1);
    let extra = seen(&scenario).iter().sum::<u64>() - REQUESTS;
    assert!((200..=most).contains(&extra), "{extra} of at most {most}");
    let metrics = scenario.weir.metrics()?;
    let spent = metrics.sum("weir_retry_budget_exhausted_total", &[]);
    assert!(spent.is_some_and(|spent| spent > 500.0), "{spent:?}");
    Ok(())
}

#[test]
fn a_request_whose_time_is_over_gives_504_and_a_slow_try_is_made_good() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let said = Said {
        rule: "timeouts: {request: 500ms}",
        ..Said::default()
    };
    let scenario = Documents::scenario(vec![script(never_answer)], said)?;
    let answer = scenario.client()?.get("/")?;
    assert_eq!(answer.status(), 504);
    assert_eq!(answer.head.field("x-weir-error"), Some("request-deadline"));

    let said = Said {
        rule: "timeouts: {request: 20s, backendRequest: 200ms}\nretry: {attempts: 1, backoff: 1ms}",
        ..Said::default()
    };
    let scripts = vec![script(never_answer), answers_after(Duration::ZERO)];
    let scenario = Documents::scenario(scripts, said)?;
    let mut client = scenario.client()?;
    for _ in 0..10 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    let metrics = scenario.weir.metrics()?;
    let retries = metrics.sum("weir_retries_total", &[("reason", "timeout")]);
    assert_eq!(retries, Some(seen(&scenario)[0] as f64));
    Ok(())
}

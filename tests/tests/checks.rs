//! Active checks: endpoints leave the pool on what they say when asked, whatever their traffic says, and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result};
use weir_tests::documents::{Documents, Said};
use weir_tests::endpoint::scripts::{answers_after, script};
use weir_tests::endpoint::{Endpoint, Script};
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_some;

const NEEDS: &[Need] = &[Need::Root];
/// Of the checks in these tests.
const INTERVAL: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(5);

/// Endpoints of one Service that are checked like this.
fn start(scripts: Vec<Script>, check: &str) -> Result<Scenario> {
    let documents = format!(
        "---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {{name: checks}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
  activeCheck: {check}
"
    );
    let said = Said {
        documents: &documents,
        ..Said::default()
    };
    Documents::scenario(scripts, said)
}

/// Waits until the endpoint at this place is in the pool, or out of it.
fn wait_until_ejected(scenario: &Scenario, place: usize, is_ejected: bool) -> Result<()> {
    let changed = becomes_some(PATIENCE, || {
        let dump = scenario.dump().ok()?;
        (dump[place].ejected == is_ejected).then_some(())
    });
    changed.with_context(|| format!("endpoint {place} ejected: not {is_ejected} in {PATIENCE:?}"))
}

fn health_of(scenario: &Scenario, place: usize) -> Result<String> {
    let key = scenario.endpoints[place].address().to_string();
    let rows = scenario.weir.rows()?;
    let row = rows.into_iter().find(|row| row.endpoint == key);
    Ok(row.context("a row for each endpoint")?.health)
}

#[test]
fn an_endpoint_that_answers_its_checks_badly_leaves_and_returns() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let is_well = Arc::new(AtomicBool::new(true));
    let asked = is_well.clone();
    // To everything else it answers well: its traffic would not eject it.
    let two_faced = script(move |exchange| {
        let is_check = exchange.head.target() == "/healthz";
        let status = if is_check && !asked.load(Ordering::Relaxed) {
            500
        } else {
            200
        };
        exchange.respond(status, b"an answer\n")
    });
    let check = "{type: http, path: /healthz, interval: 200ms, unhealthyThreshold: 2}";
    let scenario = start(vec![answers_after(Duration::ZERO), two_faced], check)?;
    let mut client = scenario.client()?;
    let both = || scenario.shares().iter().all(|share| *share > 0.0);
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    assert!(both());

    is_well.store(false, Ordering::Relaxed);
    let start = std::time::Instant::now();
    wait_until_ejected(&scenario, 1, true)?;
    let took = start.elapsed();
    assert!(took < 3 * INTERVAL + Duration::from_millis(500), "{took:?}");
    assert_eq!(health_of(&scenario, 1)?, "Evict (check)");
    let attempts =
        |scenario: &Scenario| Ok::<_, anyhow::Error>(scenario.dump()?[1].attempts.started);
    let before = attempts(&scenario)?;
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    assert_eq!(
        attempts(&scenario)?,
        before,
        "no traffic for who is ejected"
    );
    let said = scenario.weir.process.output();
    let cause = "fails its checks: GET /healthz expecting 200-399, but the status is 500";
    assert!(said.contains(cause), "{said}");

    is_well.store(true, Ordering::Relaxed);
    wait_until_ejected(&scenario, 1, false)?;
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    assert!(attempts(&scenario)? > before);
    let metrics = scenario.weir.metrics()?;
    let by_check = metrics.sum("weir_endpoint_ejections_total", &[("reason", "check")]);
    assert_eq!(by_check, Some(1.0));
    for result in ["passed", "failed"] {
        let checks = metrics.sum("weir_endpoint_checks_total", &[("result", result)]);
        assert!(checks >= Some(2.0), "{result}: {checks:?}");
    }
    Ok(())
}

#[test]
fn an_endpoint_that_accepts_no_connection_leaves_and_returns() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let well = || answers_after(Duration::ZERO);
    let check = "{type: tcp, interval: 200ms, timeout: 100ms, unhealthyThreshold: 2}";
    let mut scenario = start(vec![well(), well()], check)?;
    let killed = scenario.endpoints.remove(1);
    let address = killed.address();
    drop(killed);
    let ejected = becomes_some(PATIENCE, || {
        let rows = scenario.weir.rows().ok()?;
        let row = rows
            .into_iter()
            .find(|row| row.endpoint == address.to_string());
        row?.ejected.then_some(())
    });
    assert!(ejected.is_some(), "without any traffic");
    let mut client = scenario.client()?;
    for _ in 0..50 {
        assert_eq!(
            client.get("/")?.status(),
            200,
            "nobody is sent to who is gone"
        );
    }

    let place = scenario.star.endpoints[1].namespace.place();
    let again = Endpoint::start(&place, (address.ip(), address.port()), well())?;
    scenario.endpoints.push(again);
    wait_until_ejected(&scenario, 1, false)?;
    Ok(())
}

#[test]
fn traffic_flows_although_all_endpoints_fail_their_checks() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let well = || answers_after(Duration::ZERO);
    let check = "{type: http, expectedStatus: 204, interval: 200ms, unhealthyThreshold: 1}";
    let scenario = start(vec![well(), well()], check)?;
    for place in 0..2 {
        wait_until_ejected(&scenario, place, true)?;
    }
    let mut client = scenario.client()?;
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    let metrics = scenario.weir.metrics()?;
    let rejected = metrics.sum("weir_selections_total", &[("method", "rejected")]);
    assert_eq!(rejected, Some(50.0));
    Ok(())
}

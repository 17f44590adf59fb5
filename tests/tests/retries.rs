//! Requests whose first endpoint is no good: another one serves them, and none is served twice that must not be.

use anyhow::Result;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};

use std::time::Duration;

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

//! Services that prefer near endpoints: the far ones stand in while the near ones are out, or are never used.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use weir_tests::client::Client;
use weir_tests::documents::{Documents, Said};
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::script;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;

const NEEDS: &[Need] = &[Need::Root];
/// Two endpoints in the proxy's zone, one in another.
const PLACES: [&str; 3] = [
    "zone: a, nodeName: a1",
    "zone: a, nodeName: a2",
    "zone: b, nodeName: b1",
];

/// Answers with its name, or with 500 while it fails.
fn named(name: &'static str, fails: &Arc<AtomicBool>) -> Script {
    let fails = Arc::clone(fails);
    script(move |exchange| match fails.load(Ordering::Relaxed) {
        true => exchange.respond(500, name.as_bytes()),
        false => exchange.respond(200, name.as_bytes()),
    })
}

const QUICK_TO_EJECT: &str = "---
apiVersion: agentgateway.dev/v1alpha1
kind: AgentgatewayPolicy
metadata: {name: quick-to-eject}
spec:
  targetRefs: [{kind: Service, name: shop}]
  backend: {health: {eviction: {duration: 1s, consecutiveFailures: 2}}}
";

/// A Service that prefers, over endpoints at [`PLACES`], and a proxy whose flags say where it is.
fn start(preference: &str, own: &[&str], near_fails: &Arc<AtomicBool>) -> Result<Scenario> {
    let never = Arc::new(AtomicBool::new(false));
    let scripts = vec![
        named("near", near_fails),
        named("near", near_fails),
        named("far", &never),
    ];
    let said = Said {
        service: preference,
        endpoints: &PLACES,
        documents: QUICK_TO_EJECT,
        ..Said::default()
    };
    Documents::scenario_with(scripts, said, own)
}

/// Statuses with who answered.
fn answers(client: &mut Client, count: usize) -> Result<Vec<(u16, String)>> {
    let answer = |_| {
        let answer = client.get("/")?;
        Ok((answer.status(), answer.text().to_string()))
    };
    (0..count).map(answer).collect()
}

#[test]
fn far_endpoints_stand_in_while_all_near_ones_are_ejected() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let fails = Arc::new(AtomicBool::new(false));
    let own = ["--locality", "r1/a", "--node-name", "a9"];
    let preference = "trafficDistribution: PreferClose";
    let scenario = start(preference, &own, &fails)?;
    let mut client = scenario.client()?;
    let all_near = vec![(200, "near".to_owned()); 20];
    assert_eq!(answers(&mut client, 20)?, all_near);

    fails.store(true, Ordering::Relaxed);
    let failing = answers(&mut client, 20)?;
    let failed = failing.iter().filter(|(status, _)| *status == 500).count();
    assert!(
        (3..=6).contains(&failed),
        "two of each near one: {failing:?}"
    );
    assert_eq!(failing.last(), Some(&(200, "far".to_owned())));

    fails.store(false, Ordering::Relaxed);
    let returned = becomes_true(Duration::from_secs(10), || {
        answers(&mut client, 1).is_ok_and(|answers| answers[0].1 == "near")
    });
    assert!(returned, "the near ones are back after their second");
    let far = scenario.endpoints[2].seen().requests();
    assert!(
        becomes_true(Duration::from_secs(10), || {
            scenario
                .dump()
                .is_ok_and(|dump| dump.iter().all(|one| !one.ejected))
        }),
        "nobody stays ejected"
    );
    assert_eq!(answers(&mut client, 20)?, all_near);
    assert_eq!(scenario.endpoints[2].seen().requests(), far);
    Ok(())
}

#[test]
fn a_service_that_is_local_uses_the_proxys_node_or_answers_503() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let fails = Arc::new(AtomicBool::new(false));
    let preference = "internalTrafficPolicy: Local";
    let scenario = start(preference, &["--node-name", "a1"], &fails)?;
    assert_eq!(
        answers(&mut scenario.client()?, 20)?,
        vec![(200, "near".to_owned()); 20]
    );
    let seen: Vec<u64> = scenario
        .endpoints
        .iter()
        .map(|one| one.seen().requests())
        .collect();
    assert_eq!(seen, [20, 0, 0]);
    drop(scenario);

    let scenario = start(preference, &["--node-name", "c1"], &fails)?;
    let mut client = scenario.client()?;
    let answer = client.get("/")?;
    assert_eq!(answer.status(), 503);
    assert_eq!(answer.head.field("x-weir-error"), Some("no-endpoint"));
    Ok(())
}

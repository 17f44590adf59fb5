//! After load has stopped nothing is left over: every pick was finished, every exchange the kernel saw begin it saw
//! answered, nothing is pending, and what was held is given back.

use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::scripts::{answers_after, fails_of_ten};
use weir_tests::load::Pace;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);

#[test]
fn nothing_is_left_over_with_one_worker() -> Result<()> {
    nothing_is_left_over(1)
}

#[test]
fn nothing_is_left_over_with_two_workers() -> Result<()> {
    nothing_is_left_over(2)
}

fn nothing_is_left_over(workers: usize) -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scripts = vec![
        answers_after(Duration::ZERO),
        answers_after(Duration::from_millis(2)),
        fails_of_ten(3, Duration::ZERO),
    ];
    let mut scenario = Scenario::start(scripts, |star, mut options| {
        options.workers = workers;
        options.measured_on(star.interfaces())
    })?;
    let held = |scenario: &Scenario, name: &str| {
        let metrics = scenario.weir.metrics().ok()?;
        metrics.sum(name, &[])
    };
    let start = held(&scenario, "weir_ring_connections");

    let report = scenario.load(32, Pace::AsAnswered, Duration::from_secs(2))?;
    assert_eq!(report.broken, 0);
    let helpers = scenario.weir.process.threads_named("iou-wrk")?;
    assert_eq!(helpers, 0, "every operation ran on the ring itself");

    // The load leaves at most one request a connection behind; the last of them end within moments.
    let quiet = becomes_true(PATIENCE, || {
        scenario
            .dump()
            .is_ok_and(|dump| dump.iter().all(|endpoint| endpoint.pending == 0))
            && held(&scenario, "weir_downstream_connections") == Some(0.0)
            && held(&scenario, "weir_ring_buffers") == Some(0.0)
    });
    assert!(quiet, "{:#?}", scenario.dump()?);

    let mut finished = 0;
    for (known, endpoint) in scenario.dump()?.iter().zip(&scenario.endpoints) {
        let attempts = &known.attempts;
        let ended = attempts.succeeded + attempts.failed + attempts.neutral;
        assert_eq!(attempts.started, ended, "{known:#?}");
        assert_eq!(endpoint.seen().requests(), known.wire.started, "{known:#?}");
        // An attempt whose client left before the answer has no first byte.
        let answered = attempts.succeeded + attempts.failed;
        assert!(known.wire.finished >= answered, "{known:#?}");
        assert!(
            known.wire.started - known.wire.finished <= attempts.neutral,
            "{known:#?}"
        );
        finished += answered;
    }
    assert!(
        finished >= report.responses,
        "{finished} finished for {} responses",
        report.responses
    );

    // Idle connections go with their endpoints; then the rings hold what they held at the start.
    scenario.endpoints.clear();
    let given_back = becomes_true(PATIENCE, || {
        held(&scenario, "weir_upstream_connections") == Some(0.0)
            && held(&scenario, "weir_ring_connections") == start
    });
    assert!(
        given_back,
        "{start:?} connections at the start, now {:?}, of which upstream {:?}",
        held(&scenario, "weir_ring_connections"),
        held(&scenario, "weir_upstream_connections"),
    );
    Ok(())
}

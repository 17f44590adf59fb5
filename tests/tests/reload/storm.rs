//! Reloads one upon the other, under load.

use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use weir_tests::editing::Service;
use weir_tests::endpoint::Script;
use weir_tests::kernel_tables::Keys;
use weir_tests::scenario::PORT;
use weir_tests::skip::can_run;
use weir_tests::wait::becomes_true;

use crate::edited::{Edited, quick};
use crate::{NEEDS, PATIENCE};

/// How long the storm lasts, in seconds.
const STORM_SECONDS: &str = "WEIR_STORM_SECONDS";

#[test]
fn a_storm_of_reloads_loses_no_request_and_forgets_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(endpoints(), &[])?;
    survive(&edited)
}

#[test]
fn a_storm_of_reloads_leaves_nothing_in_the_kernels_tables() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start_measured(endpoints())?;
    survive(&edited)?;
    let kept = edited.dump_of(0)?;
    assert_eq!(kept.latency_source.as_deref(), Some("kernel"));
    assert!(kept.wire.finished >= kept.attempts.succeeded / 2);
    // All of the storm leave at once.
    edited.write(&edited.service(&[0]))?;
    let weir = &edited.scenario.weir;
    assert_eq!(weir.reload("")?.status(), 200);
    let known = || Keys::of(&weir.process, "ENDPOINT_ID").map_or(0, |keys| keys.count());
    assert!(becomes_true(PATIENCE, || known() == 1), "{} known", known());
    let metrics = weir.metrics()?;
    let unidentified = metrics.sum("weir_ebpf_unidentified_endpoints_total", &[]);
    assert_eq!(unidentified, Some(0.0));
    Ok(())
}

fn endpoints() -> Vec<Script> {
    vec![quick(), quick(), quick()]
}

fn survive(edited: &Edited) -> Result<()> {
    const PER_RELOAD: usize = 300;
    const RELOADS_PER_SECOND: f64 = 200.0 / 60.0;
    let length = std::env::var(STORM_SECONDS).ok();
    let seconds: f64 = length.and_then(|text| text.parse().ok()).unwrap_or(8.0);
    let weir = &edited.scenario.weir;
    let mut reloads = 0;
    let start = Instant::now();
    let report = edited.under_load(|| {
        while start.elapsed().as_secs_f64() < seconds {
            reloads += 1;
            edited.write(&storm(edited, reloads, PER_RELOAD))?;
            let answer = weir.reload("")?;
            ensure!(answer.status() == 200, "{}", answer.text());
            let due = Duration::from_secs_f64(reloads as f64 / RELOADS_PER_SECOND);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
        Ok(())
    })?;
    let changes = reloads * PER_RELOAD;
    println!(
        "{reloads} reloads and {changes} endpoint changes in {:.1?}: {} requests, p50 {:.1?}, p99 {:.1?}, most {:.1?}; memory {} KiB",
        start.elapsed(),
        report.responses,
        report.quantile(0.5),
        report.quantile(0.99),
        report.quantile(1.0),
        weir.process.memory()? / 1024,
    );
    assert!(
        reloads as f64 > 0.5 * seconds * RELOADS_PER_SECOND,
        "{reloads} reloads"
    );
    let metrics = weir.metrics()?;
    let refused = metrics.sum("weir_reloads_total", &[("result", "refused")]);
    assert_eq!(refused, Some(0.0));
    let kept = edited.dump_of(0)?;
    assert_eq!(kept.attempts.started, edited.seen(0), "through all reloads");
    assert_eq!(kept.pending, 0);
    Ok(())
}

/// The first endpoint always, one of two others in turn, and many that get no request and change every time.
fn storm(edited: &Edited, number: usize, changing: usize) -> Service {
    let mut service = edited.service(&[0, 1 + number % 2]);
    // Half of them come, and half of those before go.
    let first = number * changing / 2;
    let idle = (first..first + 2 * changing).map(|one| {
        let [.., high, low] = u32::try_from(one % 65_000).unwrap_or(0).to_be_bytes();
        (SocketAddr::from(([10, 200, high, low], PORT)), 0)
    });
    service.endpoints.extend(idle);
    service
}

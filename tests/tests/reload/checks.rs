//! Active checks that a reload begins, changes and ends.

use anyhow::{Result, ensure};
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::script;
use weir_tests::skip::can_run;
use weir_tests::wait::becomes_true;

use crate::edited::{Edited, FILE, quick};
use crate::{NEEDS, PATIENCE};

/// Answers everything well but its check.
fn two_faced() -> Script {
    script(|exchange| {
        let status = if exchange.head.target() == "/ill" {
            500
        } else {
            200
        };
        exchange.respond(status, b"an answer\n")
    })
}

/// A policy that has endpoints asked for this path.
fn checking(path: &str) -> String {
    format!(
        "---
apiVersion: weir.dev/v1alpha1
kind: WeirPolicy
metadata: {{name: checks}}
spec:
  targetRefs: [{{kind: Service, name: shop}}]
  activeCheck: {{type: http, path: {path}, interval: 100ms, unhealthyThreshold: 2}}
"
    )
}

#[test]
fn a_check_that_changes_decides_at_once_and_one_that_ends_lets_its_endpoint_return() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), two_faced()], &[])?;
    let serve = |policy: &str| -> Result<()> {
        let text = edited.service(&[0, 1]).to_yaml() + policy;
        edited.folder.write(FILE, &text)?;
        ensure!(edited.scenario.weir.reload("")?.status() == 200);
        Ok(())
    };
    let is_ejected = || edited.dump_of(1).is_ok_and(|known| known.ejected);
    let asked = |more: u64| {
        let before = edited.seen(1);
        becomes_true(PATIENCE, || edited.seen(1) > before + more)
    };
    edited.under_load(|| {
        serve("")?;
        ensure!(asked(50), "it serves");
        serve(&checking("/ill"))?;
        ensure!(becomes_true(PATIENCE, is_ejected), "by its check");
        serve(&checking("/well"))?;
        ensure!(becomes_true(PATIENCE, || !is_ejected()), "by another check");
        ensure!(asked(50), "it serves again");
        serve(&checking("/ill"))?;
        ensure!(becomes_true(PATIENCE, is_ejected), "by the first check");
        serve("")?;
        ensure!(becomes_true(PATIENCE, || !is_ejected()), "without a check");
        ensure!(asked(50), "and serves");
        Ok(())
    })?;
    let metrics = edited.scenario.weir.metrics()?;
    let by_check = metrics.sum("weir_endpoint_ejections_total", &[("reason", "check")]);
    assert_eq!(by_check, Some(2.0), "statistics are kept");
    Ok(())
}

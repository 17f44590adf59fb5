//! Reloads while kernel programs measure: whoever comes is measured, whoever stays keeps what was counted, and of whoever
//! leaves nothing stays in the kernel's tables.

use anyhow::{Result, ensure};
use weir_tests::kernel_tables::Keys;
use weir_tests::skip::can_run;
use weir_tests::wait::becomes_true;

use crate::edited::{Edited, FILE, quick};
use crate::{NEEDS, PATIENCE};

impl Edited {
    fn becomes_measured(&self, endpoint: usize) -> bool {
        becomes_true(PATIENCE, || {
            self.dump_of(endpoint).is_ok_and(|known| {
                known.latency_source.as_deref() == Some("kernel") && known.wire.finished > 100
            })
        })
    }

    /// Whether the kernel forgets this endpoint, as one to recognise and in connections.
    fn becomes_forgotten(&self, endpoint: usize) -> bool {
        let address = self.scenario.endpoints[endpoint].address().ip();
        let process = &self.scenario.weir.process;
        let is_in = |table| Keys::of(process, table).is_ok_and(|keys| keys.about(address) > 0);
        becomes_true(PATIENCE, || !is_in("ENDPOINT_ID") && !is_in("FLOW"))
    }

    fn known_to_the_kernel(&self) -> Result<usize> {
        Ok(Keys::of(&self.scenario.weir.process, "ENDPOINT_ID")?.count())
    }
}

#[test]
fn endpoints_that_come_are_measured_and_of_those_that_go_nothing_is_left() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start_measured(vec![quick(), quick(), quick()])?;
    // Until the programs are on its interface, the worker's clock measures.
    let unmeasured = || -> Result<u64> {
        let known = edited.dump_of(1)?;
        Ok(known.attempts.started.saturating_sub(known.wire.finished))
    };
    let mut at_first = 0;
    edited.under_load(|| {
        ensure!(edited.becomes_measured(0), "the first one");
        edited.write(&edited.service(&[0, 1]))?;
        ensure!(edited.becomes_measured(1), "one that was added");
        at_first = unmeasured()?;
        let before = edited.dump_of(0)?;
        ensure!(before.attempts.started > 100, "still the same row");

        edited.write(&edited.service(&[1, 2]))?;
        ensure!(edited.becomes_measured(2), "another one that was added");
        ensure!(edited.becomes_forgotten(0), "one that was removed");
        ensure!(edited.known_to_the_kernel()? == 2);
        let kept = edited.dump_of(1)?;
        ensure!(kept.wire.finished <= kept.attempts.started, "of one alone");

        // Back again: another row, and measured from its first exchange on.
        edited.write(&edited.service(&[0, 1, 2]))?;
        ensure!(edited.becomes_measured(0), "one that returned");
        ensure!(edited.known_to_the_kernel()? == 3);
        Ok(())
    })?;
    let kept = edited.dump_of(1)?;
    assert_eq!(kept.attempts.started, edited.seen(1), "since it came");
    let unmeasured = unmeasured()?;
    assert!(unmeasured <= at_first, "{unmeasured}, at first {at_first}");
    assert!(edited.dump_of(0)?.attempts.started < edited.seen(0));
    Ok(())
}

#[test]
fn a_pod_that_moves_to_another_address_is_measured_there() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start_measured(vec![quick(), quick(), quick()])?;
    let weir = &edited.scenario.weir;
    // The second endpoint is a pod, at the address of this endpoint.
    let with_pod_at = |endpoint: usize| -> Result<()> {
        let address = edited.scenario.endpoints[endpoint].address().ip();
        let plain = format!("{{addresses: [{address}]}}");
        let pod = format!("{{addresses: [{address}], targetRef: {{kind: Pod, name: mover}}}}");
        let text = edited.service(&[0, endpoint]).to_yaml();
        edited.folder.write(FILE, &text.replace(&plain, &pod))?;
        Ok(())
    };
    let pod = || {
        let mut dump = weir.dump().ok()?.into_iter();
        dump.find(|known| known.endpoint == "//Pod/default/mover")
    };
    let is_measured = || {
        pod().is_some_and(|pod| {
            pod.latency_source.as_deref() == Some("kernel") && pod.wire.finished > 100
        })
    };
    edited.under_load(|| {
        with_pod_at(1)?;
        ensure!(becomes_true(PATIENCE, is_measured), "at its first address");
        let first = edited.dump_of(0)?.attempts.started;
        with_pod_at(2)?;
        ensure!(
            becomes_true(PATIENCE, || edited.seen(2) > 200),
            "not asked where it is"
        );
        ensure!(becomes_true(PATIENCE, is_measured), "at its new address");
        ensure!(edited.becomes_forgotten(1), "its old address");
        ensure!(edited.known_to_the_kernel()? == 2);
        ensure!(edited.dump_of(0)?.attempts.started > first, "as before");
        Ok(())
    })?;
    let pod = pod().expect("it is served");
    assert_eq!(
        pod.attempts.started,
        edited.seen(2),
        "afresh since it moved"
    );
    assert_eq!(edited.dump_of(0)?.attempts.started, edited.seen(0));
    Ok(())
}

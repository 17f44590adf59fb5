//! Which tables of an earlier process are of use.

use std::fs;

use anyhow::Result;
use weir_tests::scenario::Scenario;
use weir_tests::skip::can_run;

use crate::{NEEDS, PATIENCE, kill, links, warm};

#[test]
fn what_another_version_left_is_removed_and_said() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    let pins = scenario.options.instance.pins();
    let layout = fs::read_dir(&pins)?.next().expect("one layout")?.path();
    fs::rename(&layout, pins.join("v1"))?;
    scenario.start_again()?;
    let output = scenario.weir.process.output();
    assert!(output.contains("another version of Weir"), "{output}");
    assert!(!pins.join("v1").exists());
    assert_eq!(links(&scenario), 4);
    assert_eq!(scenario.dump()?[0].latency_ms, None);
    Ok(())
}

#[test]
fn tables_that_are_not_whole_are_replaced_and_said() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    let layout = |scenario: &Scenario| -> Result<_> {
        let pins = scenario.options.instance.pins();
        Ok(fs::read_dir(&pins)?.next().expect("one layout")?.path())
    };
    kill(&mut scenario)?;
    let folder = layout(&scenario)?;
    fs::remove_file(folder.join("ENDPOINT_LOAD"))?;
    scenario.start_again()?;
    let output = scenario.weir.process.output();
    assert!(output.contains("ENDPOINT_LOAD is missing"), "{output}");
    assert_eq!(scenario.dump()?[0].latency_ms, None);

    kill(&mut scenario)?;
    fs::remove_file(folder.join("ENDPOINT_LOAD"))?;
    fs::hard_link(folder.join("META"), folder.join("ENDPOINT_LOAD"))
        .or_else(|_| fs::rename(folder.join("REASON"), folder.join("ENDPOINT_LOAD")))?;
    scenario.start_again()?;
    let output = scenario.weir.process.output();
    assert!(output.contains("starting afresh"), "{output}");
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    Ok(())
}

#[test]
fn tables_are_kept_for_fewer_workers_and_replaced_for_more() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    scenario.options.workers = 3;
    scenario.start_again()?;
    let output = scenario.weir.process.output();
    assert!(output.contains("1 workers"), "{output}");
    assert_eq!(scenario.dump()?[0].latency_ms, None);

    let mut client = scenario.client()?;
    for _ in 0..40 {
        client.get("/")?;
    }
    let before = scenario.dump()?;
    assert!(scenario.weir.process.stop(PATIENCE)?.success());
    scenario.options.workers = 2;
    scenario.start_again()?;
    let after = scenario.dump()?;
    assert_eq!(after[0].latency_ms, before[0].latency_ms);
    assert_eq!(after[0].attempts, before[0].attempts);
    Ok(())
}

//! The demo shows what it promises and leaves nothing behind, even what a killed one left.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;
use weir_tests::weir::binary;

const NEEDS: &[Need] = &[Need::Root];

#[test]
fn the_demo_is_good_and_cleans_up_after_itself_and_after_a_killed_one() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    // Killed in the middle: it has no chance to remove anything.
    let mut killed = demo("60s")?
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let marks = format!("weir-{}-", killed.id());
    let made = becomes_true(Duration::from_secs(20), || namespaces(&marks) == 6);
    assert!(made, "client, proxy and four endpoints");
    killed.kill()?;
    killed.wait()?;
    assert_eq!(namespaces(&marks), 6, "this is what a crash leaves");

    let next = demo("5s")?.output()?;
    let said = String::from_utf8_lossy(&next.stdout);
    let errors = String::from_utf8_lossy(&next.stderr);
    assert!(next.status.success(), "{said}{errors}");
    for word in ["slow: 60 ms", "flaky", "BY KERNEL", "What to see"] {
        assert!(said.contains(word), "{word} is missing in {said}");
    }
    assert!(!said.contains('\x1b'), "plain means plain");
    assert_eq!(namespaces(&marks), 0, "leftovers are removed: {errors}");
    Ok(())
}

#[test]
fn ctrl_c_ends_the_demo_in_order() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let child = demo("60s")?.stdout(Stdio::piped()).spawn()?;
    let marks = format!("weir-{}-", child.id());
    assert!(becomes_true(Duration::from_secs(20), || namespaces(&marks) == 6));
    std::thread::sleep(Duration::from_secs(2));
    let pid = Pid::from_raw(child.id().cast_signed()).context("a child has a pid")?;
    kill_process(pid, Signal::INT)?;
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("BY KERNEL"),
        "the last table is shown: {said}"
    );
    assert_eq!(namespaces(&marks), 0);
    Ok(())
}

fn demo(length: &str) -> Result<Command> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    command.arg("--weir").arg(binary()?);
    command.args(["--plain", "--for", length]);
    Ok(command)
}

fn namespaces(prefix: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/run/netns") else {
        return 0;
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .count()
}

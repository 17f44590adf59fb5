//! An instance belongs to one process, and is removed when it is told to go.

use anyhow::Result;
use weir_tests::client::Client;
use weir_tests::instance::Instance;
use weir_tests::process::Process;
use weir_tests::skip::can_run;
use weir_tests::wait::becomes_true;
use weir_tests::weir::weir_command;

use crate::{NEEDS, PATIENCE, TABLES, detach, kill, links, said, warm};

#[test]
fn detaching_removes_everything_and_can_be_done_twice() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    let first = detach(&scenario, &[])?;
    assert!(first.status.success(), "{}", said(&first));
    let expected = format!(
        "instance {}: took programs off endpoint1, endpoint2, and removed {} tables\n",
        scenario.options.instance.name(),
        TABLES.len()
    );
    assert_eq!(said(&first), expected);
    assert!(!scenario.options.instance.pins().exists());
    let second = detach(&scenario, &[])?;
    assert!(second.status.success());
    assert!(said(&second).contains("nothing was left"));

    scenario.start_again()?;
    assert_eq!(scenario.dump()?[0].latency_ms, None, "nothing is known");
    Ok(())
}

#[test]
fn a_running_instance_is_neither_started_twice_nor_detached_by_mistake() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    let process = format!("process {}", scenario.weir.process.id());
    let name = scenario.options.instance.name();
    let place = scenario.star.proxy.place();
    let away = ["--admin", "off", "--metrics", "off", "--readiness", "off"];
    let run = [
        "run",
        "--to",
        "10.77.1.2:8080",
        "--listen",
        "127.0.0.1:9",
        "--instance",
        name,
    ];
    let second = weir_command(&place, &[&run[..], &away].concat())?;
    assert!(!second.status.success());
    assert!(said(&second).contains(name), "{}", said(&second));
    assert!(said(&second).contains(&process), "{}", said(&second));

    let refused = detach(&scenario, &[])?;
    assert!(!refused.status.success());
    assert!(said(&refused).contains(&process), "{}", said(&refused));
    assert!(said(&refused).contains("--force"), "{}", said(&refused));
    assert_eq!(links(&scenario), 4);

    let forced = detach(&scenario, &["--force"])?;
    assert!(forced.status.success(), "{}", said(&forced));
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(0.0));
    assert_eq!(
        scenario.client()?.get("/")?.status(),
        200,
        "it still serves"
    );
    // What else happens to interfaces is no reason to attach again.
    scenario
        .star
        .proxy
        .ip("link add news type bridge\nlink set news up")?;
    let has_said = || {
        let said = scenario.weir.process.output();
        said.contains("somebody else has taken the programs off")
    };
    assert!(becomes_true(PATIENCE, has_said));
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(0.0));
    assert_eq!(links(&scenario), 0);
    assert!(scenario.weir.process.stop(PATIENCE)?.success());
    Ok(())
}

#[test]
fn two_instances_measure_side_by_side_and_end_one_by_one() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut first = warm()?;
    let before = first.dump()?;
    let mut options = first.options.clone();
    options.instance = Instance::new();
    options.listen = vec!["10.77.0.1:8081".parse()?];
    options.more = ["--admin", "off", "--metrics", "off", "--readiness", "off"]
        .map(str::to_owned)
        .into();
    let mut command = std::process::Command::new(weir_tests::weir::binary()?);
    command.args(options.arguments());
    let mut second = Process::start(command, &first.star.proxy.place())?;
    let attached = || options.instance.pinned().len() == TABLES.len() + 4;
    assert!(becomes_true(PATIENCE, attached), "{}", second.output());

    let place = first.star.client.namespace.place();
    let listens = || Client::connect(&place, options.listen[0]).is_ok();
    assert!(becomes_true(PATIENCE, listens), "{}", second.output());
    let mut client = Client::connect(&place, options.listen[0])?;
    for _ in 0..10 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    let after = first.dump()?;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.wire.finished, before.wire.finished, "each its own");
    }
    assert!(second.stop(PATIENCE)?.success());
    assert_eq!(options.instance.pinned(), TABLES);
    assert_eq!(links(&first), 4);
    let metrics = first.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    assert!(first.weir.process.stop(PATIENCE)?.success());
    Ok(())
}

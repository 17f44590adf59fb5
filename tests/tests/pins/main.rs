//! What outlives a Weir, and what the next one makes of it: scores stay warm, programs of a killed one go on measuring,
//! and nothing is in the way of a start or stays behind when it is told to go.

use std::fs;
use std::net::TcpStream;
use std::process::Output;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::client::Client;
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::{answers_after, script};
use weir_tests::instance::Instance;
use weir_tests::process::Process;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;
use weir_tests::weir::weir_command;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(10);
const TABLES: [&str; 9] = [
    "ENDPOINT_ATTEMPTS",
    "ENDPOINT_IDENTITY",
    "ENDPOINT_LOAD",
    "ENDPOINT_OUTLOOK",
    "ENDPOINT_READING",
    "ENDPOINT_STATE",
    "ENDPOINT_WIRE",
    "META",
    "REASON",
];

/// Two endpoints of different speed; `/long` takes a minute.
fn scripts() -> Vec<Script> {
    [2, 20]
        .map(|millis| {
            script(move |exchange| {
                let length = match exchange.head.target() {
                    "/long" => Duration::from_secs(60),
                    _ => Duration::from_millis(millis),
                };
                exchange.wait(length)?;
                exchange.respond(200, b"whole")
            })
        })
        .into()
}

/// Measured towards the endpoints, after some requests.
fn warm() -> Result<Scenario> {
    let scenario = Scenario::start(scripts(), |star, options| {
        options.measured_on(star.endpoints.iter().map(|peer| peer.interface.as_str()))
    })?;
    let mut client = scenario.client()?;
    for _ in 0..40 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    Ok(scenario)
}

fn kill(scenario: &mut Scenario) -> Result<()> {
    scenario.weir.process.signal(Signal::KILL)?;
    scenario.weir.process.wait(PATIENCE)?;
    Ok(())
}

fn links(scenario: &Scenario) -> usize {
    let pinned = scenario.options.instance.pinned();
    let is_link = |name: &&String| name.starts_with("egress_") || name.starts_with("ingress_");
    pinned.iter().filter(is_link).count()
}

fn detach(scenario: &Scenario, more: &[&str]) -> Result<Output> {
    let name = scenario.options.instance.name();
    let arguments = [&["detach", "--instance", name], more].concat();
    weir_command(&scenario.star.proxy.place(), &arguments)
}

fn said(output: &Output) -> String {
    let mut text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.push_str(&String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn after_a_kill_measuring_goes_on_and_the_next_start_knows_what_was_learnt() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    let place = scenario.star.client.namespace.place();
    let target = scenario.weir.listen;
    let hanging = place.spawn(move || {
        let mut client = Client::connect(&Default::default(), target)?;
        client.get("/long").map(|_| ())
    });
    let is_pending = |scenario: &Scenario| {
        let dump = scenario.dump();
        dump.is_ok_and(|dump| dump.iter().any(|endpoint| endpoint.pending > 0))
    };
    assert!(becomes_true(PATIENCE, || is_pending(&scenario)));
    let before = scenario.dump()?;
    let packets = |scenario: &Scenario| -> Result<f64> {
        let metrics = scenario.weir.metrics()?;
        let measured = metrics.sum("weir_ebpf_packets_total", &[("reason", "measured")]);
        Ok(measured.unwrap_or_default())
    };
    let packets_before = packets(&scenario)?;
    kill(&mut scenario)?;
    assert!(hanging.join().expect("no panic").is_err());
    assert_eq!(links(&scenario), 4, "egress and ingress of two interfaces");

    // Nobody runs, and the kernel still times handshakes with endpoints it knows.
    let endpoint = scenario.endpoints[0].address();
    let proxy = scenario.star.proxy.place();
    proxy.run(|| TcpStream::connect(endpoint))?;

    scenario.start_again()?;
    let after = scenario.dump()?;
    for (before, after) in before.iter().zip(&after) {
        assert_eq!(after.latency_ms, before.latency_ms);
        assert_eq!(after.latency_source.as_deref(), Some("kernel"));
        assert_eq!(after.attempts.started, before.attempts.started);
        assert_eq!(after.pending, 0, "leases end with their process");
        assert!(after.wire.finished >= before.wire.finished);
    }
    assert_eq!(after[0].wire.opened, before[0].wire.opened + 1);
    assert!(packets(&scenario)? >= packets_before, "counters only rise");
    let output = scenario.weir.process.output();
    assert!(output.contains("going on with the tables"), "{output}");

    // The programs are the new ones: they know the new connections.
    let mut client = scenario.client()?;
    for _ in 0..10 {
        client.get("/")?;
    }
    let later = scenario.dump()?;
    let finished = |dump: &[weir_tests::weir::EndpointDump]| -> u64 {
        dump.iter().map(|endpoint| endpoint.wire.finished).sum()
    };
    assert_eq!(finished(&later), finished(&after) + 10);
    Ok(())
}

#[test]
fn an_orderly_end_takes_the_programs_along_and_leaves_what_was_learnt() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    let before = scenario.dump()?;
    assert!(scenario.weir.process.stop(PATIENCE)?.success());
    assert_eq!(scenario.options.instance.pinned(), TABLES);
    scenario.start_again()?;
    let after = scenario.dump()?;
    assert_eq!(after[0].latency_ms, before[0].latency_ms);
    assert_eq!(after[1].health_score, before[1].health_score);
    assert_eq!(links(&scenario), 4);
    Ok(())
}

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
    assert!(scenario.weir.process.stop(PATIENCE)?.success());
    Ok(())
}

#[test]
fn a_kill_at_any_moment_is_in_the_way_of_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    let before = scenario.options.instance.pinned();
    for moment in 0..16 {
        let binary = weir_tests::weir::binary()?;
        let mut command = std::process::Command::new(binary);
        command.args(scenario.options.arguments());
        let mut process = Process::start(command, &scenario.star.proxy.place())?;
        std::thread::sleep(Duration::from_millis(moment * 25));
        process.signal(Signal::KILL)?;
        process.wait(PATIENCE)?;
    }
    scenario.start_again()?;
    assert_eq!(scenario.options.instance.pinned(), before);
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    assert!(scenario.dump()?[0].latency_ms.is_some(), "still warm");
    kill(&mut scenario)?;
    assert!(detach(&scenario, &[])?.status.success());
    assert!(!scenario.options.instance.pins().exists());
    Ok(())
}

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

#[test]
fn links_on_interfaces_that_are_not_asked_for_any_more_are_removed() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    scenario.options.interfaces.truncate(1);
    scenario.start_again()?;
    assert_eq!(links(&scenario), 2);
    Ok(())
}

#[test]
fn an_interface_swapped_while_nobody_ran_is_attached_to_afresh() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = warm()?;
    kill(&mut scenario)?;
    scenario.star.proxy.ip("link delete endpoint1")?;
    scenario.star.endpoints[0].link(&scenario.star.proxy, "endpoint1")?;
    scenario.start_again()?;
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    assert_eq!(links(&scenario), 4, "those of the old one are gone");
    Ok(())
}

#[test]
fn an_instance_started_in_another_namespace_does_not_take_its_interfaces_for_its_own() -> Result<()>
{
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = || vec![answers_after(Duration::from_millis(2))];
    let mut first = warm()?;
    kill(&mut first)?;
    let instance = first.options.instance.clone();
    // The same names and numbers of interfaces, and other devices.
    let second = Scenario::start(answer(), |star, mut options| {
        options.instance = instance;
        options.measured_on(star.endpoints.iter().map(|peer| peer.interface.as_str()))
    })?;
    let before = second.dump()?[0].wire.finished;
    let mut client = second.client()?;
    for _ in 0..10 {
        client.get("/")?;
    }
    assert_eq!(second.dump()?[0].wire.finished, before + 10);
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

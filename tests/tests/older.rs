//! Kernels that are older than ours, or that say no: what they do not have is taken away from Weir by a filter, and Weir
//! makes do with what is left.

use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::instance::Instance;
use weir_tests::process::Place;
use weir_tests::scenario::Scenario;
use weir_tests::seccomp::{refuse, refuse_command};
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::{Ebpf, binary, run_to_end, weir_command};

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(10);
// Of the kernel's `enum bpf_cmd`.
const BPF_MAP_CREATE: u32 = 0;
const BPF_LINK_CREATE: u32 = 28;

/// Before Linux 6.6 there was no tcx, before 5.9 no link of `sk_lookup`: creating one was an invalid argument.
fn without_links(command: &mut Command) {
    refuse_command(command, libc::SYS_bpf, BPF_LINK_CREATE, libc::EINVAL);
}

fn start(without: fn(&mut Command)) -> Result<Scenario> {
    let answer = vec![answers_after(Duration::from_millis(1))];
    Scenario::start(answer, |star, mut options| {
        options.interfaces = vec![star.endpoints[0].interface.clone()];
        options.ebpf = Ebpf::Auto;
        options.without = Some(without);
        options
    })
}

fn ask(scenario: &Scenario, times: usize) -> Result<()> {
    for _ in 0..times {
        assert_eq!(scenario.client()?.get("/")?.status(), 200);
    }
    Ok(())
}

/// Filters of ours on the interface towards the endpoint.
fn filters(scenario: &Scenario) -> usize {
    let sides = ["egress", "ingress"].map(|side| {
        let mut tc = Command::new("tc");
        tc.args(["filter", "show", "dev", "endpoint1", side]);
        let shown = run_to_end(tc, &scenario.star.proxy.place()).expect("iproute2 brings tc");
        let text = String::from_utf8_lossy(&shown.stdout).into_owned();
        text.lines().filter(|line| line.contains("wire_")).count()
    });
    sides.iter().sum()
}

#[test]
fn without_tcx_filters_measure_and_outlive_a_kill() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = start(without_links)?;
    ask(&scenario, 10)?;
    let said = scenario.weir.process.output();
    assert!(said.contains("by filters, because of tcx"), "{said}");
    assert_eq!(said.matches("WARN").count(), 1, "{said}");
    let hook = [("interface", "endpoint1"), ("hook", "clsact")];
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_hook", &hook), Some(1.0));
    let by_load = metrics.sum("weir_steering_by_load", &[]);
    assert_eq!(by_load, Some(1.0), "which takes no link");
    let dump = &scenario.dump()?[0];
    assert_eq!(dump.wire.finished, 10);
    assert_eq!(dump.latency_source.as_deref(), Some("kernel"));

    scenario.weir.process.signal(Signal::KILL)?;
    scenario.weir.process.wait(PATIENCE)?;
    assert_eq!(filters(&scenario), 2, "nobody was there to remove them");
    scenario.start_again()?;
    ask(&scenario, 5)?;
    assert_eq!(scenario.dump()?[0].wire.finished, 15);
    assert_eq!(filters(&scenario), 2, "in place of those before");
    scenario.weir.process.signal(Signal::KILL)?;
    scenario.weir.process.wait(PATIENCE)?;
    let name = scenario.options.instance.name();
    let detach = ["detach", "--instance", name];
    let detached = weir_command(&scenario.star.proxy.place(), &detach)?;
    assert!(detached.status.success(), "{detached:?}");
    assert_eq!(filters(&scenario), 0);
    Ok(())
}

#[test]
fn without_tables_that_can_be_mapped_there_is_no_bpf_and_the_reason_is_said_once() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    // Before Linux 5.5 such a table was an invalid argument.
    let scenario = start(|command| {
        refuse_command(command, libc::SYS_bpf, BPF_MAP_CREATE, libc::EINVAL);
    })?;
    ask(&scenario, 3)?;
    let said = scenario.weir.process.output();
    assert_eq!(said.matches("WARN").count(), 1, "{said}");
    assert!(said.contains("Linux 5.5"), "{said}");
    assert!(said.contains("measured by the workers' clocks"), "{said}");
    let dump = &scenario.dump()?[0];
    assert_eq!(dump.latency_source.as_deref(), Some("worker"));
    Ok(())
}

#[test]
fn where_a_filter_forbids_bpf_traffic_is_served_unless_bpf_is_required() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    for error in [libc::EPERM, libc::ENOSYS] {
        let without: fn(&mut Command) = match error {
            libc::EPERM => |command| refuse(command, libc::SYS_bpf, libc::EPERM),
            _ => |command| refuse(command, libc::SYS_bpf, libc::ENOSYS),
        };
        let scenario = start(without)?;
        ask(&scenario, 3)?;
        let said = scenario.weir.process.output();
        assert_eq!(said.matches("WARN").count(), 1, "{said}");
        let reason = "a seccomp filter forbids the bpf system call";
        assert!(said.contains(reason), "{said}");

        let mut command = Command::new(binary()?);
        let mut options = scenario.options.clone();
        options.ebpf = Ebpf::Required;
        options.instance = Instance::new();
        command.args(options.arguments());
        command.args(["--admin", "off", "--metrics", "off", "--readiness", "off"]);
        without(&mut command);
        let ended = run_to_end(command, &scenario.star.proxy.place())?;
        assert!(!ended.status.success());
        let said = String::from_utf8_lossy(&ended.stderr);
        let required = format!("BPF is required, but {reason}");
        assert!(said.contains(&required), "{said}");
    }
    Ok(())
}

#[test]
fn tables_beyond_the_hosts_memory_are_named_and_never_asked_for() -> Result<()> {
    let mut command = Command::new(binary()?);
    command.args(["run", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"]);
    command.args(["--max-endpoints", "1048576", "--workers", "1024"]);
    command.args(["--ebpf", "required"]);
    command.args(["--instance", Instance::new().name()]);
    command.args(["--admin", "off", "--metrics", "off", "--readiness", "off"]);
    if !can_run(NEEDS) {
        return Ok(());
    }
    let ended = run_to_end(command, &Place::default())?;
    assert!(!ended.status.success());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("ENDPOINT_ATTEMPTS alone 32768 MiB"), "{said}");
    assert!(said.contains("lower --max-endpoints"), "{said}");
    Ok(())
}

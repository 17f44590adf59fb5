//! A kernel whose verifier refuses a program: it is said with the end of its log, and everything else goes on.

use std::net::TcpStream;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::refused::Refused;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::Ebpf;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(10);
/// What the kernel's verifier has against a register nobody has written.
const WHY: &str = "R9 !read_ok";

fn start(refused: &Refused) -> Result<Scenario> {
    let answer = vec![answers_after(Duration::from_millis(1))];
    Scenario::start(answer, |star, options| {
        let mut options = options.measured_on([star.endpoints[0].interface.as_str()]);
        options.workers = 2;
        options.ebpf = Ebpf::Auto;
        options.binary = Some(refused.path().to_owned());
        options
    })
}

#[test]
fn without_the_steering_program_the_kernel_hashes_and_measuring_goes_on() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = start(&Refused::new("sk_reuseport/migrate")?)?;
    for _ in 0..10 {
        assert_eq!(scenario.client()?.get("/")?.status(), 200);
    }
    let said = scenario.weir.process.output();
    assert!(said.contains("by the kernel's hash"), "{said}");
    assert!(said.contains("refuses the program pick_worker"), "{said}");
    assert!(said.contains(WHY), "{said}");
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_steering_by_load", &[]), Some(0.0));
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(1.0));
    assert_eq!(
        scenario.dump()?[0].latency_source.as_deref(),
        Some("kernel")
    );
    Ok(())
}

#[test]
fn without_the_lookup_program_everything_else_goes_on() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = start(&Refused::new("sk_lookup")?)?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    let said = scenario.weir.process.output();
    assert!(said.contains("refuses the program vip_lookup"), "{said}");
    assert!(said.contains(WHY), "{said}");
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_steering_by_load", &[]), Some(1.0));
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(1.0));
    Ok(())
}

#[test]
fn without_a_measuring_program_connections_are_still_steered_and_nothing_is_left_behind()
-> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = start(&Refused::new("classifier")?)?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    let said = scenario.weir.process.output();
    assert!(said.contains("nothing is measured"), "{said}");
    assert!(said.contains(WHY), "{said}");
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_active", &[]), Some(0.0));
    assert_eq!(metrics.sum("weir_steering_by_load", &[]), Some(1.0));
    let decision = [("decision", "by_load")];
    let steered = metrics.sum("weir_steering_decisions_total", &decision);
    assert!(steered >= Some(1.0), "{steered:?}");
    assert_eq!(
        scenario.dump()?[0].latency_source.as_deref(),
        Some("worker")
    );
    let pins = scenario.options.instance.pins();
    assert!(!pins.exists(), "an empty folder is nobody's");
    Ok(())
}

#[test]
fn what_a_killed_process_attached_runs_on_where_its_successor_is_refused() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = vec![answers_after(Duration::from_millis(1))];
    let mut scenario = Scenario::start(answer, |star, options| {
        options.measured_on([star.endpoints[0].interface.as_str()])
    })?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    scenario.weir.process.signal(Signal::KILL)?;
    scenario.weir.process.wait(PATIENCE)?;
    let pinned = scenario.options.instance.pinned();

    let (good, refused) = (scenario.options.clone(), Refused::new("classifier")?);
    scenario.options.binary = Some(refused.path().to_owned());
    scenario.options.ebpf = Ebpf::Auto;
    scenario.start_again()?;
    let said = scenario.weir.process.output();
    assert!(said.contains(WHY), "{said}");
    assert_eq!(scenario.options.instance.pinned(), pinned);
    let proxy = scenario.star.proxy.place();
    let endpoint = scenario.endpoints[0].address();
    proxy.run(|| TcpStream::connect(endpoint))?;
    assert!(scenario.weir.process.stop(PATIENCE)?.success());

    scenario.options = good;
    scenario.start_again()?;
    let opened = scenario.dump()?[0].wire.opened;
    assert!(opened >= 2, "{opened}: handshakes were timed meanwhile");
    Ok(())
}

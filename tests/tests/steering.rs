//! Which worker a new connection comes to: one that has time for it, while there is one.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use weir_tests::client;
use weir_tests::editing::{Folder, Service};
use weir_tests::process::Place;
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skew::{hold_up, quick, two_workers};
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::Ebpf;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);
#[test]
fn a_worker_that_is_held_up_again_and_again_gets_hardly_any_new_connection() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    // A busy machine holds up the other worker, too, and then there is none with time: the best of three rounds counts.
    let mut with = f64::INFINITY;
    for _ in 0..3 {
        with = with.min(hold_up(&two_workers(Ebpf::Required, None)?)?.share());
        if with <= 0.02 {
            break;
        }
    }
    let without = hold_up(&two_workers(Ebpf::Off, None)?)?.share();
    println!("share of the worker that is held up: {with:.3} steered, {without:.3} by hash");
    assert!(with <= 0.02, "{with:.3} of the connections waited for it");
    assert!(without > 0.3, "{without:.3}: the stall is not felt");
    Ok(())
}

#[test]
fn how_connections_come_to_workers_is_told() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let steered = two_workers(Ebpf::Required, None)?;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = steered.client()?;
        assert_eq!(client.get("/")?.status(), 200);
        clients.push(client);
    }
    let metrics = steered.weir.metrics()?;
    let sum = |name: &str, labels: &[(&str, &str)]| metrics.sum(name, labels);
    assert_eq!(sum("weir_steering_by_load", &[]), Some(1.0));
    let by_load = sum("weir_steering_decisions_total", &[("decision", "by_load")]);
    assert_eq!(by_load, Some(20.0));
    assert_eq!(sum("weir_worker_steered_total", &[]), Some(20.0));
    for worker in ["0", "1"] {
        // Clients that stay are a load, so that the next one goes to the other worker.
        let steered = sum("weir_worker_steered_total", &[("worker", worker)]);
        let steered = steered.context("every worker is listed")?;
        assert!(
            (5.0..=15.0).contains(&steered),
            "{steered} to worker {worker}"
        );
    }
    let dump = steered.weir.admin("/config_dump")?.text();
    assert!(dump.contains("\"loopLagMs\""), "{dump}");

    let by_hash = two_workers(Ebpf::Off, None)?;
    by_hash.client()?.get("/")?;
    let metrics = by_hash.weir.metrics()?;
    assert_eq!(metrics.sum("weir_steering_by_load", &[]), Some(0.0));
    let connections = metrics.sum("weir_worker_connections", &[]);
    assert!(connections.is_some(), "their load is known all the same");
    Ok(())
}

#[test]
fn a_listener_that_goes_refuses_new_clients_at_once_and_resets_nobody() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new()?;
    let path = folder.path().join("weir.yaml");
    let mut service = None;
    let mut scenario = Scenario::start(quick(), |star, mut options| {
        let first = options.listen[0];
        let endpoint = SocketAddr::new(star.endpoints[0].address(), PORT);
        let mut both = Service::of(first, [endpoint]);
        both.listen.push(SocketAddr::new(first.ip(), PORT + 1));
        let written = folder.write("weir.yaml", &both.to_yaml());
        written.expect("a writable folder");
        service = Some(both);
        let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
        options = options.measured_on(interfaces);
        options.workers = 2;
        options.config = Some(path);
        options
    })?;
    let mut service = service.expect("written at the start");
    let going = service.listen.pop().expect("two of them");
    let place = scenario.star.client.namespace.place();
    folder.write("weir.yaml", &service.to_yaml())?;
    let slowest = come_until_refused(&place, going)?;
    assert!(
        slowest < Duration::from_millis(900),
        "{slowest:?}: a SYN was lost"
    );

    scenario.weir.process.signal(Signal::TERM)?;
    let slowest = come_until_refused(&place, scenario.weir.listen)?;
    assert!(
        slowest < Duration::from_millis(900),
        "{slowest:?}: a SYN was lost"
    );
    assert!(scenario.weir.process.wait(PATIENCE)?.success());
    Ok(())
}

/// Asks on one connection after another until nobody listens; each must be served or refused. Returns the longest wait.
fn come_until_refused(place: &Place, target: SocketAddr) -> Result<Duration> {
    let begin = Instant::now();
    let mut slowest = Duration::ZERO;
    while begin.elapsed() < PATIENCE {
        let start = Instant::now();
        let outcome = client::get(place, target, "/");
        slowest = slowest.max(start.elapsed());
        match outcome {
            Ok(answer) => ensure!(answer.status() == 200, "status {}", answer.status()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(slowest),
            Err(error) => return Err(error).context("neither served nor refused"),
        }
    }
    bail!("nobody was refused")
}

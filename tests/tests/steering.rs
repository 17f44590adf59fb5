//! Which worker a new connection comes to: one that has time for it, while there is one.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::Signal;
use weir_tests::client::{self, Client};
use weir_tests::editing::{Folder, Service};
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::process::Place;
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::stall::{Stall, Stalls};
use weir_tests::weir::Ebpf;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a worker is held up, of twice this time.
const STALL: Duration = Duration::from_millis(200);
/// Connections that come this shortly before a stall ends are not judged: they may be late for other reasons.
const MARGIN: Duration = Duration::from_millis(60);
const BETWEEN_CONNECTIONS: Duration = Duration::from_millis(2);

fn quick() -> Vec<Script> {
    vec![answers_after(Duration::ZERO)]
}

fn two_workers(ebpf: Ebpf) -> Result<Scenario> {
    Scenario::start(quick(), |star, mut options| {
        if ebpf == Ebpf::Required {
            let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
            options = options.measured_on(interfaces);
        }
        options.workers = 2;
        options
    })
}

/// Opens a connection every few milliseconds, come what may, and returns when each began and was answered.
fn open_many(place: &Place, target: SocketAddr, count: usize) -> Result<Vec<(Instant, Instant)>> {
    place.run(|| {
        let begin = Instant::now();
        let connections: Vec<_> = (0..count)
            .map(|number| {
                let due = begin + BETWEEN_CONNECTIONS * number as u32;
                thread::sleep(due.saturating_duration_since(Instant::now()));
                thread::spawn(move || -> Result<_> {
                    let opened = Instant::now();
                    let mut client = Client::connect_here(target)?;
                    let answer = client.request("GET", "/", "connection: close\r\n", b"")?;
                    ensure!(answer.status() == 200, "status {}", answer.status());
                    Ok((opened, Instant::now()))
                })
            })
            .collect();
        let done = connections.into_iter();
        done.map(|connection| connection.join().expect("no panic"))
            .collect()
    })
}

/// Of the connections that came while the worker was held up: how many, and how many had to wait for it.
fn judged(connections: &[(Instant, Instant)], stalls: &[Stall]) -> (usize, usize) {
    let during = |stall: &Stall| {
        let (from, to) = (stall.from, stall.to);
        let came = connections
            .iter()
            .filter(move |(opened, _)| (from..to - MARGIN).contains(opened));
        let waited = came.clone().filter(|(_, answered)| *answered >= to);
        (came.count(), waited.count())
    };
    stalls
        .iter()
        .map(during)
        .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

/// Share of new connections that come to a worker while it is held up.
fn share_of_the_stalled(scenario: &Scenario) -> Result<f64> {
    let process = scenario.weir.process.id();
    let place = scenario.star.client.namespace.place();
    let stalls = Stalls::begin(process, "weir-worker-0", STALL, STALL)?;
    let connections = open_many(&place, scenario.weir.listen, 2_000)?;
    let (came, waited) = judged(&connections, &stalls.finish()?);
    ensure!(came > 400, "only {came} connections came during stalls");
    println!("{waited} of {came} connections waited for the worker that was held up");
    Ok(waited as f64 / came as f64)
}

#[test]
fn a_worker_that_is_held_up_again_and_again_gets_hardly_any_new_connection() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    // A busy machine holds up the other worker, too, and then there is none with time: the best of three rounds counts.
    let mut with = f64::INFINITY;
    for _ in 0..3 {
        with = with.min(share_of_the_stalled(&two_workers(Ebpf::Required)?)?);
        if with <= 0.02 {
            break;
        }
    }
    let without = share_of_the_stalled(&two_workers(Ebpf::Off)?)?;
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
    let steered = two_workers(Ebpf::Required)?;
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

    let by_hash = two_workers(Ebpf::Off)?;
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

//! A newer Weir takes the place of a running one: clients notice nothing, and what is known of endpoints goes on.

use std::io::Read;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::Signal;
use socket2::{Domain, SockAddr, Socket, Type};
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::{answers_after, script};
use weir_tests::load::{Load, Pace, Report, get_request};
use weir_tests::process::Place;
use weir_tests::scenario::Scenario;
use weir_tests::seccomp::refuse;
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Ebpf, EndpointDump, Options};

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(15);

/// Load on a thread of its own until it is told to stop.
struct Running {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<std::io::Result<Report>>,
}

impl Running {
    fn start(place: &Place, target: SocketAddr, request: Vec<u8>, pace: Pace) -> Self {
        let load = Load {
            target,
            connections: 8,
            request,
            pace,
            warm_up: Duration::ZERO,
            length: Duration::from_secs(60),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        Self {
            stop,
            thread: place.spawn(move || load.run(&told)),
        }
    }

    fn stop(self) -> Result<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let report = self.thread.join().expect("no panic");
        report.context("the load could not run")
    }
}

/// One that keeps its connections, and one that makes a new one for each request.
fn both_loads(scenario: &Scenario) -> [Running; 2] {
    let place = scenario.star.client.namespace.place();
    let closing = b"GET / HTTP/1.1\r\nhost: weir.test\r\nconnection: close\r\n\r\n".to_vec();
    let target = scenario.weir.listen;
    [
        Running::start(&place, target, get_request("/"), Pace::PerSecond(400.0)),
        Running::start(&place, target, closing, Pace::PerSecond(200.0)),
    ]
}

fn endpoints() -> Vec<Script> {
    vec![
        answers_after(Duration::from_millis(2)),
        answers_after(Duration::from_millis(6)),
    ]
}

fn started(dump: &[EndpointDump]) -> u64 {
    dump.iter().map(|endpoint| endpoint.attempts.started).sum()
}

fn finished_on_the_wire(dump: &[EndpointDump]) -> u64 {
    dump.iter().map(|endpoint| endpoint.wire.finished).sum()
}

/// Takes over again and again under load; returns the scenario, after all requests were answered.
fn upgraded(adjust: impl FnOnce(Options) -> Options, workers: &[usize]) -> Result<Scenario> {
    let mut scenario = Scenario::start(endpoints(), |star, options| {
        let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
        adjust(options.measured_on(interfaces))
    })?;
    let loads = both_loads(&scenario);
    std::thread::sleep(Duration::from_millis(500));
    let mut before = scenario.dump()?;
    for workers in workers {
        scenario.options.workers = *workers;
        let mut older = scenario.take_over()?;
        let now = scenario.dump()?;
        for (before, now) in before.iter().zip(&now) {
            assert!(now.attempts.started >= before.attempts.started);
            assert!(now.wire.finished >= before.wire.finished);
            assert!(now.wire.opened >= before.wire.opened);
        }
        before = now;
        std::thread::sleep(Duration::from_millis(700));
        let status = older.process.wait(PATIENCE)?;
        assert!(status.success(), "{}", older.process.output());
        let said = older.process.output();
        assert!(said.contains("has taken over"), "{said}");
        assert!(!said.contains("WARN") && !said.contains("ERROR"), "{said}");
    }
    std::thread::sleep(Duration::from_millis(500));
    let reports = loads.map(Running::stop);
    for report in reports {
        let report = report?;
        println!(
            "{} responses, most {:.1?}",
            report.responses,
            report.quantile(1.0)
        );
        assert!(report.responses > 100, "{report:?}");
        assert_eq!((report.failures, report.broken), (0, 0));
    }
    Ok(scenario)
}

#[test]
fn an_upgrade_under_load_loses_no_request_and_goes_on_with_what_was_learnt() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = upgraded(
        |mut options| {
            options.workers = 2;
            options
        },
        &[2, 2, 2],
    )?;
    let dump = scenario.dump()?;
    let seen: u64 = scenario
        .endpoints
        .iter()
        .map(|endpoint| endpoint.seen().requests())
        .sum();
    let started = started(&dump);
    assert!(started <= seen, "{started} of {seen}");
    assert!(
        started as f64 > 0.9 * seen as f64,
        "counted by none: {started} of {seen}"
    );
    for endpoint in &dump {
        assert_eq!(endpoint.latency_source.as_deref(), Some("kernel"));
        assert_eq!(endpoint.pending, 0);
    }
    let said = scenario.weir.process.output();
    assert!(said.contains("going on with the tables"), "{said}");
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    assert_eq!(metrics.sum("weir_steering_by_load", &[]), Some(1.0));

    // The last of them has it all: it measures, and takes it along.
    let before = finished_on_the_wire(&dump);
    for _ in 0..10 {
        assert_eq!(scenario.client()?.get("/")?.status(), 200);
    }
    assert_eq!(finished_on_the_wire(&scenario.dump()?), before + 10);
    assert!(scenario.weir.process.stop(PATIENCE)?.success());
    let pinned = scenario.options.instance.pinned();
    assert!(
        !pinned.iter().any(|name| name.contains("gress")),
        "{pinned:?}"
    );
    scenario.options.more.clear();
    scenario.start_again()?;
    Ok(())
}

#[test]
fn the_number_of_workers_may_change_on_the_way() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let three = |mut options: Options| {
        options.workers = 3;
        options
    };
    // With more than ever before, the tables would be too small.
    upgraded(three, &[1, 3]).map(|_| ())
}

#[test]
fn one_that_cannot_serve_after_all_leaves_everything_to_the_older_one() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = Scenario::start(endpoints(), |star, options| {
        let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
        options.measured_on(interfaces)
    })?;
    let loads = both_loads(&scenario);
    let good = scenario.options.clone();
    // Its workers are the last to start, when the older one has let go of everything.
    scenario.options.without = Some(|command| {
        refuse(command, libc::SYS_io_uring_setup, libc::EPERM);
    });
    assert!(scenario.take_over().is_err());
    let is_back = || {
        let said = scenario.weir.process.output();
        said.contains("was to take over, and does not serve")
    };
    assert!(becomes_true(PATIENCE, is_back));
    let before = scenario.dump()?;
    std::thread::sleep(Duration::from_millis(300));
    let after = scenario.dump()?;
    assert!(started(&after) > started(&before), "counted where it was");
    assert!(
        finished_on_the_wire(&after) > finished_on_the_wire(&before),
        "measured again"
    );
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    assert_eq!(metrics.sum("weir_steering_by_load", &[]), Some(1.0));

    // Another one may try.
    scenario.options = good;
    let mut older = scenario.take_over()?;
    assert!(older.process.wait(PATIENCE)?.success());
    std::thread::sleep(Duration::from_millis(300));
    for load in loads {
        let report = load.stop()?;
        assert_eq!((report.failures, report.broken), (0, 0));
    }
    assert!(started(&scenario.dump()?) > started(&after));
    Ok(())
}

#[test]
fn one_whose_access_log_cannot_be_opened_leaves_before_the_older_one_lets_go() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = Scenario::start(endpoints(), |star, options| {
        let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
        options.measured_on(interfaces)
    })?;
    scenario.options.more = ["--access-log", "/no/such/folder/log"]
        .map(str::to_owned)
        .into();
    assert!(scenario.take_over().is_err());
    let said = || scenario.weir.process.output();
    assert!(becomes_true(PATIENCE, || said().contains("did not take over")));
    assert!(!said().contains("was to take over"), "{}", said());
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    Ok(())
}

#[test]
fn without_bpf_the_sockets_are_handed_over_all_the_same() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let off = |mut options: Options| {
        options.interfaces.clear();
        options.ebpf = Ebpf::Off;
        options.workers = 2;
        options
    };
    // What was learnt is lost with its process.
    let mut scenario = Scenario::start(endpoints(), |_, options| off(options))?;
    let loads = both_loads(&scenario);
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(500));
        let mut older = scenario.take_over()?;
        assert!(older.process.wait(PATIENCE)?.success());
    }
    for load in loads {
        let report = load.stop()?;
        assert!(report.responses > 100);
        assert_eq!((report.failures, report.broken), (0, 0));
    }
    Ok(())
}

#[test]
fn where_nobody_runs_it_starts_like_any_other() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::start(endpoints(), |_, mut options| {
        options.more = vec!["--takeover".to_owned()];
        options
    })?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    let said = scenario.weir.process.output();
    assert!(said.contains("nothing to take over"), "{said}");
    Ok(())
}

#[test]
fn a_request_under_way_is_answered_by_the_older_one() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let slow = script(|exchange| {
        exchange.wait(Duration::from_millis(1500))?;
        exchange.respond(200, b"whole")
    });
    let mut scenario = Scenario::plain(vec![slow])?;
    let mut busy = scenario.client()?;
    busy.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    std::thread::sleep(Duration::from_millis(200));
    let mut older = scenario.take_over()?;
    assert_eq!(busy.response("GET")?.status(), 200);
    assert!(older.process.wait(PATIENCE)?.success());
    Ok(())
}

#[test]
fn one_that_dies_on_the_way_changes_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = Scenario::start(endpoints(), |star, options| {
        let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
        options.measured_on(interfaces)
    })?;
    let mut options = scenario.options.clone();
    options.more.push("--takeover".to_owned());
    for moment in 0..12 {
        let loads = both_loads(&scenario);
        let mut command = std::process::Command::new(weir_tests::weir::binary()?);
        command.args(options.arguments());
        let place = scenario.star.proxy.place();
        let mut process = weir_tests::process::Process::start(command, &place)?;
        std::thread::sleep(Duration::from_millis(100 * moment));
        process.signal(Signal::KILL)?;
        process.wait(PATIENCE)?;
        let was_taken_over =
            !scenario.weir.process.is_running() || process.output().contains("took over from");
        std::thread::sleep(Duration::from_millis(100));
        for load in loads {
            let report = load.stop()?;
            assert!(
                was_taken_over || (report.failures, report.broken) == (0, 0),
                "killed after {} ms: {report:?}",
                100 * moment
            );
        }
        if was_taken_over {
            // It lived long enough: the next one starts from nothing but what is pinned.
            println!("taken over after {} ms", 100 * moment);
            scenario.weir.process.wait(PATIENCE)?;
            scenario.start_again()?;
            break;
        }
    }
    let metrics = scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_ebpf_attached", &[]), Some(2.0));
    let before = scenario.dump()?;
    for _ in 0..10 {
        assert_eq!(scenario.client()?.get("/")?.status(), 200);
    }
    let after = scenario.dump()?;
    assert_eq!(started(&after), started(&before) + 10);
    assert_eq!(
        finished_on_the_wire(&after),
        finished_on_the_wire(&before) + 10
    );
    Ok(())
}

/// One that says it wants to take over, and no more.
fn visitor(scenario: &Scenario) -> Result<Socket> {
    let place = scenario.star.proxy.place();
    let socket = place.run(|| Socket::new(Domain::UNIX, Type::SEQPACKET, None))?;
    socket.set_read_timeout(Some(PATIENCE))?;
    socket.connect(&door_of(scenario)?)?;
    Ok(socket)
}

fn door_of(scenario: &Scenario) -> Result<SockAddr> {
    let name = format!("\0weir/{}", scenario.options.instance.name());
    Ok(SockAddr::unix(name)?)
}

/// Reads what is said until it is this.
fn wait_for(socket: &Socket, words: &str) -> Result<()> {
    let mut buffer = [0; 4096];
    let mut socket = socket;
    loop {
        let length = socket.read(&mut buffer)?;
        if &buffer[..length] == words.as_bytes() {
            return Ok(());
        }
    }
}

#[test]
fn a_stop_waits_for_nobody_who_wants_to_take_over() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    for is_ready in [false, true] {
        let mut scenario = Scenario::plain(endpoints())?;
        let visitor = visitor(&scenario)?;
        wait_for(&visitor, "that is all")?;
        if is_ready {
            visitor.send(b"ready left")?;
            wait_for(&visitor, "yours")?;
        }
        let before = Instant::now();
        assert!(scenario.weir.process.stop(PATIENCE)?.success());
        let took = before.elapsed();
        assert!(took < Duration::from_secs(5), "ready: {is_ready}: {took:?}");
    }
    Ok(())
}

#[test]
fn a_stranger_of_the_same_name_is_no_hindrance() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut scenario = Scenario::plain(endpoints())?;
    scenario.options.more = vec!["--takeover".to_owned()];
    assert!(scenario.weir.process.stop(PATIENCE)?.success());
    let (place, door) = (scenario.star.proxy.place(), door_of(&scenario)?);
    let stranger = place.spawn(move || -> std::io::Result<Socket> {
        // Of this thread alone.
        rustix::thread::set_thread_uid(rustix::process::Uid::from_raw(65534))?;
        let socket = Socket::new(Domain::UNIX, Type::SEQPACKET, None)?;
        socket.bind(&door)?;
        socket.listen(4)?;
        Ok(socket)
    });
    let _stranger = stranger.join().expect("no panic")?;
    scenario.start_again()?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    let said = scenario.weir.process.output();
    assert!(said.contains("has the name of this instance"), "{said}");
    Ok(())
}

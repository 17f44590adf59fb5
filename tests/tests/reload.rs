//! A configuration that changes while it is served: all of it or nothing, and nobody's request is lost.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::Signal;
use weir_tests::client::Client;
use weir_tests::editing::{Folder, Service};
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::{answers_after, script, trickle_after};
use weir_tests::load::{Load, Pace, Report, get_request};
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;
use weir_tests::weir::EndpointDump;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);
const FILE: &str = "weir.yaml";

/// A scenario whose configuration is a file that is edited.
struct Edited {
    folder: Folder,
    scenario: Scenario,
}

impl Edited {
    /// Served from the first endpoint alone.
    fn start(scripts: Vec<Script>, more: &[&str]) -> Result<Self> {
        let folder = Folder::new()?;
        let path = folder.path().join(FILE);
        let scenario = Scenario::start(scripts, |star, mut options| {
            let first = SocketAddr::new(star.endpoints[0].address(), PORT);
            let service = Service::of(options.listen[0], [first]);
            let written = folder.write(FILE, &service.to_yaml());
            written.expect("a writable folder");
            options.config = Some(path);
            options.workers = 2;
            options.more = more.iter().map(|flag| (*flag).to_owned()).collect();
            options
        })?;
        Ok(Self { folder, scenario })
    }

    /// All requests go to these endpoints, by number.
    fn service(&self, endpoints: &[usize]) -> Service {
        let address = |number: &usize| self.scenario.endpoints[*number].address();
        Service::of(self.scenario.weir.listen, endpoints.iter().map(address))
    }

    fn write(&self, service: &Service) -> Result<()> {
        self.folder.write(FILE, &service.to_yaml())?;
        Ok(())
    }

    fn wait_for_revision(&self, revision: u64) -> Result<()> {
        let weir = &self.scenario.weir;
        let is_served = || weir.revision().is_ok_and(|served| served >= revision);
        let became = becomes_true(PATIENCE, is_served);
        let said = weir.process.output();
        ensure!(became, "revision {revision} is not served:\n{said}");
        Ok(())
    }

    /// Runs `work` while clients ask; fails if one of them is not answered.
    fn under_load(&self, work: impl FnOnce() -> Result<()>) -> Result<Report> {
        let load = Load {
            target: self.scenario.weir.listen,
            connections: 16,
            request: get_request("/"),
            pace: Pace::PerSecond(1000.0),
            warm_up: Duration::ZERO,
            length: Duration::from_secs(300),
        };
        let stop = AtomicBool::new(false);
        let place = self.scenario.star.client.namespace.place();
        let (report, done) = thread::scope(|scope| {
            let clients = scope.spawn(|| place.run(|| load.run(&stop)));
            let done = work();
            stop.store(true, Ordering::Relaxed);
            (clients.join().expect("no panic"), done)
        });
        done?;
        let report = report?;
        ensure!(report.failures == 0, "{} responses failed", report.failures);
        ensure!(report.broken == 0, "{} requests lost", report.broken);
        Ok(report)
    }

    fn seen(&self, endpoint: usize) -> u64 {
        self.scenario.endpoints[endpoint].seen().requests()
    }

    fn dump_of(&self, endpoint: usize) -> Result<EndpointDump> {
        let key = self.scenario.endpoints[endpoint].address().to_string();
        let mut dump = self.scenario.weir.dump()?.into_iter();
        let found = dump.find(|known| known.endpoint == key);
        found.with_context(|| format!("no {key} in the dump"))
    }
}

fn quick() -> Script {
    answers_after(Duration::from_millis(1))
}

#[test]
fn an_edited_file_is_served_without_losing_a_request_or_what_was_learned() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick(), quick()], &[])?;
    let report = edited.under_load(|| {
        ensure!(becomes_true(PATIENCE, || edited.seen(0) > 300));
        let mut both = edited.service(&[0, 1]);
        both.endpoints[0].1 = 2;
        edited.write(&both)?;
        ensure!(
            becomes_true(PATIENCE, || edited.seen(1) > 100),
            "no traffic"
        );
        edited.write(&edited.service(&[1, 2]))?;
        ensure!(
            becomes_true(PATIENCE, || edited.seen(2) > 100),
            "no traffic"
        );
        // Whoever is gone is left alone, once what was on its way has come.
        let quiet = edited.seen(0);
        thread::sleep(Duration::from_millis(300));
        ensure!(edited.seen(0) == quiet, "still asked after it had left");
        Ok(())
    })?;
    assert!(report.responses > 500);
    let kept = edited.dump_of(1)?;
    assert_eq!(kept.attempts.started, edited.seen(1), "since it came");
    assert!(kept.latency_ms.is_some());
    assert!(edited.dump_of(0).is_err(), "it has left");
    let said = edited.scenario.weir.process.output();
    for line in [
        "reloaded: endpoints +1 1 changed; revision 2 is served",
        "reloaded: endpoints +1 -1; revision 3 is served",
    ] {
        assert!(said.contains(line), "{line}\n{said}");
    }
    let metrics = edited.scenario.weir.metrics()?;
    assert_eq!(metrics.sum("weir_config_revision", &[]), Some(3.0));
    let applied = metrics.sum("weir_reloads_total", &[("result", "applied")]);
    assert_eq!(applied, Some(2.0));
    let loaded_at = metrics.sum("weir_config_loaded_timestamp_seconds", &[]);
    assert!(loaded_at.is_some_and(|seconds| seconds > 1.6e9));
    Ok(())
}

#[test]
fn one_broken_file_of_a_directory_changes_nothing_and_all_its_problems_are_said() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new()?;
    let scenario = Scenario::start(vec![quick()], |star, mut options| {
        let first = SocketAddr::new(star.endpoints[0].address(), PORT);
        let service = Service::of(options.listen[0], [first]);
        let written = folder.write("good.yaml", &service.to_yaml());
        written.expect("a writable folder");
        options.config = Some(folder.path().to_owned());
        options
    })?;
    let edited = Edited { folder, scenario };
    let weir = &edited.scenario.weir;
    let broken = "apiVersion: v1\nkind: Service\nmetadata: {name: two}\nspec: {ports: [{port: 99999}], colour: red}\n";
    edited.folder.write("broken.yaml", broken)?;
    let refused = || weir.process.output().contains("reload refused");
    assert!(becomes_true(PATIENCE, refused));
    let said = weir.process.output();
    for problem in ["broken.yaml:4:23", "broken.yaml:4:32", "2 errors"] {
        assert!(said.contains(problem), "{problem}\n{said}");
    }

    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 422);
    let text = answer.text();
    assert!(text.contains("broken.yaml:4:32: error: "), "{text}");
    assert!(text.ends_with("revision 1 is still served\n"), "{text}");
    let answer = weir.reload("accept: application/json\r\n")?;
    let json: serde_json::Value = serde_json::from_str(&answer.text())?;
    assert_eq!(json["result"], "refused");
    assert_eq!(json["problems"].as_array().map(Vec::len), Some(2), "{json}");
    assert_eq!(edited.scenario.client()?.get("/")?.status(), 200);
    assert_eq!(weir.revision()?, 1);

    fs::remove_file(edited.folder.path().join("broken.yaml"))?;
    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.text(), "nothing changed; revision 1 is served\n");
    let metrics = weir.metrics()?;
    let refused = metrics.sum("weir_reloads_total", &[("result", "refused")]);
    assert!(refused >= Some(3.0), "{refused:?}");
    Ok(())
}

#[test]
fn unwatched_files_are_loaded_on_sighup_and_when_the_admin_address_is_asked() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick()], &["--no-watch"])?;
    let weir = &edited.scenario.weir;
    edited.write(&edited.service(&[0, 1]))?;
    thread::sleep(Duration::from_millis(500));
    assert_eq!(weir.revision()?, 1, "nobody watches");
    weir.process.signal(Signal::HUP)?;
    edited.wait_for_revision(2)?;

    edited.write(&edited.service(&[1]))?;
    let answer = weir.reload("accept: application/json\r\n")?;
    assert_eq!(answer.status(), 200);
    let json: serde_json::Value = serde_json::from_str(&answer.text())?;
    assert_eq!(json["result"], "applied");
    assert_eq!(json["changes"], "endpoints -1");
    assert_eq!(json["revision"], 3);
    Ok(())
}

#[test]
fn what_flags_configure_cannot_be_loaded_again() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![quick()])?;
    let answer = scenario.weir.reload("")?;
    assert_eq!(answer.status(), 409);
    assert!(
        answer.text().contains("--print-config"),
        "{}",
        answer.text()
    );
    scenario.weir.process.signal(Signal::HUP)?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200, "it goes on");
    Ok(())
}

#[test]
fn listeners_come_and_go_and_one_that_cannot_be_had_changes_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick()], &[])?;
    let weir = &edited.scenario.weir;
    let place = edited.scenario.star.client.namespace.place();
    let (first, second) = (weir.listen, SocketAddr::new(weir.listen.ip(), PORT + 1));
    let mut early = Client::connect(&place, first)?;
    assert_eq!(early.get("/")?.status(), 200);

    let mut service = edited.service(&[0]);
    service.listen = vec![first, second];
    edited.write(&service)?;
    edited.wait_for_revision(2)?;
    let mut other = Client::connect(&place, second)?;
    assert_eq!(other.get("/")?.status(), 200);

    // An address of nobody's: the endpoint that would have come does not come either.
    let nowhere: SocketAddr = "192.0.2.1:80".parse()?;
    let mut impossible = edited.service(&[0, 1]);
    impossible.listen = vec![first, second, nowhere];
    fs::write(edited.folder.path().join(FILE), impossible.to_yaml())?;
    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 422);
    let text = answer.text();
    assert!(
        text.contains("cannot listen on 192.0.2.1:80: no interface"),
        "{text}"
    );
    assert_eq!(weir.revision()?, 2);
    assert_eq!(weir.dump()?.len(), 1);

    let mut idle = Client::connect(&place, first)?;
    assert_eq!(idle.get("/")?.status(), 200);
    service.listen = vec![second];
    edited.write(&service)?;
    edited.wait_for_revision(3)?;
    let last = early.get("/")?;
    assert_eq!(last.status(), 200, "one more answer");
    assert_eq!(last.head.field("connection"), Some("close"));
    assert!(idle.is_closed());
    assert!(Client::connect(&place, first).is_err(), "nobody listens");
    assert_eq!(other.get("/")?.status(), 200, "the other was not touched");

    service.listen = vec![first, second];
    edited.write(&service)?;
    edited.wait_for_revision(4)?;
    assert_eq!(Client::connect(&place, first)?.get("/")?.status(), 200);
    Ok(())
}

#[test]
fn a_long_response_of_an_endpoint_that_is_gone_comes_to_its_end() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let slow =
        script(|exchange| trickle_after(exchange, Duration::ZERO, 15, Duration::from_millis(100)));
    let edited = Edited::start(vec![slow, quick()], &[])?;
    let mut client = edited.scenario.client()?;
    client.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let (_, framing) = client.response_head("GET")?;
    edited.write(&edited.service(&[1]))?;
    edited.wait_for_revision(2)?;
    let mut body = Vec::new();
    client
        .wire
        .read_body(framing, |piece| body.extend_from_slice(piece))?;
    assert_eq!(body, b".".repeat(15));
    assert_eq!(client.get("/")?.text(), "hello from an endpoint\n");
    assert_eq!((edited.seen(0), edited.seen(1)), (1, 1));
    Ok(())
}

#[test]
fn a_config_map_that_kubernetes_exchanges_is_noticed() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let folder = Folder::new()?;
    let put = |version: &str, service: &Service| -> std::io::Result<()> {
        let data = folder.path().join(version);
        fs::create_dir(&data)?;
        fs::write(data.join(FILE), service.to_yaml())?;
        symlink(version, folder.path().join("..data_tmp"))?;
        fs::rename(
            folder.path().join("..data_tmp"),
            folder.path().join("..data"),
        )
    };
    let mut addresses = Vec::new();
    let scenario = Scenario::start(vec![quick(), quick()], |star, mut options| {
        let endpoints = star.endpoints.iter();
        addresses = endpoints
            .map(|peer| SocketAddr::new(peer.address(), PORT))
            .collect();
        let service = Service::of(options.listen[0], [addresses[0]]);
        put("..2026_01", &service).expect("a writable folder");
        symlink(format!("..data/{FILE}"), folder.path().join(FILE)).expect("a link");
        options.config = Some(folder.path().join(FILE));
        options
    })?;
    for (version, count, revision) in [("..2026_02", 2, 2), ("..2026_03", 1, 3)] {
        let endpoints = addresses.iter().copied().take(count);
        put(version, &Service::of(scenario.weir.listen, endpoints))?;
        let weir = &scenario.weir;
        let is_served = || weir.revision().is_ok_and(|served| served == revision);
        assert!(
            becomes_true(PATIENCE, is_served),
            "{}",
            weir.process.output()
        );
        assert_eq!(weir.dump()?.len(), count);
    }
    Ok(())
}

#[test]
fn more_endpoints_than_there_is_room_for_are_refused() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let edited = Edited::start(vec![quick(), quick(), quick()], &["--max-endpoints", "3"])?;
    let weir = &edited.scenario.weir;
    let mut too_many = edited.service(&[0, 1, 2]);
    too_many.endpoints.push(("10.200.0.1:80".parse()?, 1));
    edited.write(&too_many)?;
    let answer = weir.reload("")?;
    assert_eq!(answer.status(), 422);
    assert!(
        answer
            .text()
            .contains("room for 3 endpoints; raise --max-endpoints"),
        "{}",
        answer.text()
    );
    // Every row is given to others again and again.
    for turn in 0..6 {
        edited.write(&edited.service(&[turn % 2, 2]))?;
        let served = becomes_true(PATIENCE, || {
            weir.reload("").is_ok_and(|it| it.status() == 200)
        });
        assert!(served, "{}", weir.process.output());
        assert_eq!(edited.scenario.client()?.get("/")?.status(), 200);
    }
    Ok(())
}

/// How long the storm lasts, in seconds.
const STORM_SECONDS: &str = "WEIR_STORM_SECONDS";

#[test]
fn a_storm_of_reloads_loses_no_request_and_forgets_nothing() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    const PER_RELOAD: usize = 300;
    const RELOADS_PER_SECOND: f64 = 200.0 / 60.0;
    let length = std::env::var(STORM_SECONDS).ok();
    let seconds: f64 = length.and_then(|text| text.parse().ok()).unwrap_or(12.0);
    let edited = Edited::start(vec![quick(), quick(), quick()], &[])?;
    let weir = &edited.scenario.weir;
    let mut reloads = 0;
    let start = Instant::now();
    let report = edited.under_load(|| {
        while start.elapsed().as_secs_f64() < seconds {
            reloads += 1;
            edited.write(&storm(&edited, reloads, PER_RELOAD))?;
            let answer = weir.reload("")?;
            ensure!(answer.status() == 200, "{}", answer.text());
            let due = Duration::from_secs_f64(reloads as f64 / RELOADS_PER_SECOND);
            thread::sleep(due.saturating_sub(start.elapsed()));
        }
        Ok(())
    })?;
    let changes = reloads * PER_RELOAD;
    println!(
        "{reloads} reloads and {changes} endpoint changes in {:.1?}: {} requests, p50 {:.1?}, p99 {:.1?}, most {:.1?}; memory {} KiB",
        start.elapsed(),
        report.responses,
        report.quantile(0.5),
        report.quantile(0.99),
        report.quantile(1.0),
        weir.process.memory()? / 1024,
    );
    assert!(
        reloads as f64 > 0.5 * seconds * RELOADS_PER_SECOND,
        "{reloads} reloads"
    );
    let metrics = weir.metrics()?;
    let refused = metrics.sum("weir_reloads_total", &[("result", "refused")]);
    assert_eq!(refused, Some(0.0));
    let kept = edited.dump_of(0)?;
    assert_eq!(kept.attempts.started, edited.seen(0), "through all reloads");
    assert_eq!(kept.pending, 0);
    Ok(())
}

/// The first endpoint always, one of two others in turn, and many that get no request and change every time.
fn storm(edited: &Edited, number: usize, changing: usize) -> Service {
    let mut service = edited.service(&[0, 1 + number % 2]);
    // Half of them come, and half of those before go.
    let first = number * changing / 2;
    let idle = (first..first + 2 * changing).map(|one| {
        let [.., high, low] = u32::try_from(one % 65_000).unwrap_or(0).to_be_bytes();
        (SocketAddr::from(([10, 200, high, low], PORT)), 0)
    });
    service.endpoints.extend(idle);
    service
}

//! Interfaces come and go under a running Weir: it measures where they are, waits where they are not, and says which.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::Result;
use weir_tests::editing::{Folder, Service};
use weir_tests::endpoint::Endpoint;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::load::Pace;
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;
use weir_tests::weir::Ebpf;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);

/// Two endpoints, measured on the interfaces towards them.
fn measured() -> Result<Scenario> {
    let answer = || answers_after(Duration::from_millis(1));
    Scenario::start(vec![answer(), answer()], |star, options| {
        options.measured_on(star.endpoints.iter().map(|peer| peer.interface.as_str()))
    })
}

/// What `weir_ebpf_attached` says of an interface.
fn attached(scenario: &Scenario, interface: &str) -> Option<f64> {
    let metrics = scenario.weir.metrics().ok()?;
    metrics.sum("weir_ebpf_attached", &[("interface", interface)])
}

fn becomes_attached(scenario: &Scenario, interface: &str, expected: Option<f64>) -> bool {
    becomes_true(PATIENCE, || attached(scenario, interface) == expected)
}

/// Sends requests until each endpoint had some, and says how many exchanges with the first one the kernel saw. Some may
/// fail: an endpoint that is gone is tried again in a while.
fn seen_on_the_wire(scenario: &Scenario) -> Result<u64> {
    for _ in 0..40 {
        let _ = scenario.client()?.get("/")?;
    }
    Ok(scenario.dump()?[0].wire.finished)
}

#[test]
fn an_interface_that_is_deleted_and_made_again_is_measured_again() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = measured()?;
    let first = &scenario.star.endpoints[0];
    assert_eq!(attached(&scenario, "endpoint1"), Some(1.0));
    let before = seen_on_the_wire(&scenario)?;
    assert!(before > 0);

    for _ in 0..3 {
        scenario.star.proxy.ip("link delete endpoint1")?;
        assert!(becomes_attached(&scenario, "endpoint1", Some(0.0)));
        assert_eq!(attached(&scenario, "endpoint2"), Some(1.0));
        first.link(&scenario.star.proxy, "endpoint1")?;
        assert!(becomes_attached(&scenario, "endpoint1", Some(1.0)));
    }
    let again = becomes_true(PATIENCE, || {
        seen_on_the_wire(&scenario).is_ok_and(|seen| seen > before)
    });
    assert!(again, "attached, and sees nothing");
    let output = scenario.weir.process.output();
    assert_eq!(
        output.matches("the interface is gone").count(),
        3,
        "{output}"
    );
    Ok(())
}

#[test]
fn an_interface_swapped_faster_than_anybody_looks_is_measured() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = measured()?;
    let first = &scenario.star.endpoints[0];
    for _ in 0..20 {
        scenario.star.proxy.ip("link delete endpoint1")?;
        first.link(&scenario.star.proxy, "endpoint1")?;
    }
    let before = scenario.dump()?[0].wire.finished;
    assert!(becomes_attached(&scenario, "endpoint1", Some(1.0)));
    let again = becomes_true(PATIENCE, || {
        seen_on_the_wire(&scenario).is_ok_and(|seen| seen > before)
    });
    assert!(again, "attached, and sees nothing");
    Ok(())
}

#[test]
fn traffic_by_one_interface_is_undisturbed_while_another_comes_and_goes() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = || answers_after(Duration::from_millis(1));
    let scenario = Scenario::start(vec![answer(), answer()], |star, mut options| {
        options.to.remove(0);
        options.measured_on(star.endpoints.iter().map(|peer| peer.interface.as_str()))
    })?;
    let star = &scenario.star;
    let pace = Pace::PerSecond(300.0);
    let report = std::thread::scope(|scope| -> Result<_> {
        let load = scope.spawn(|| scenario.load(8, pace, Duration::from_secs(4)));
        for _ in 0..8 {
            star.proxy.ip("link delete endpoint1")?;
            std::thread::sleep(Duration::from_millis(150));
            star.endpoints[0].link(&star.proxy, "endpoint1")?;
            std::thread::sleep(Duration::from_millis(150));
        }
        load.join().expect("no panic")
    })?;
    assert!(report.responses > 600, "{report:?}");
    assert_eq!((report.failures, report.broken), (0, 0));
    assert!(becomes_attached(&scenario, "endpoint1", Some(1.0)));
    let dump = scenario.weir.dump()?;
    let seen = dump[0].wire.finished;
    assert!(seen >= report.responses, "{seen} of {}", report.responses);
    Ok(())
}

#[test]
fn a_renamed_interface_is_measured_on_under_its_new_name() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = measured()?;
    let before = seen_on_the_wire(&scenario)?;
    scenario.star.proxy.ip("link set endpoint1 down\n\
         link set endpoint1 name wan0\n\
         link set wan0 up\n")?;
    assert!(becomes_attached(&scenario, "wan0", Some(1.0)));
    assert_eq!(attached(&scenario, "endpoint1"), None);
    let goes_on = becomes_true(PATIENCE, || {
        seen_on_the_wire(&scenario).is_ok_and(|seen| seen > before)
    });
    assert!(goes_on, "attached, and sees nothing");
    Ok(())
}

#[test]
fn another_interface_that_takes_the_given_name_is_the_one_that_was_meant() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = measured()?;
    scenario.star.proxy.ip("link set endpoint1 down\n\
         link set endpoint1 name wan0\n")?;
    assert!(becomes_attached(&scenario, "wan0", Some(1.0)));
    scenario
        .star
        .proxy
        .ip("link add endpoint1 type veth peer name other")?;
    assert!(becomes_attached(&scenario, "endpoint1", Some(1.0)));
    assert_eq!(attached(&scenario, "wan0"), None);
    Ok(())
}

#[test]
fn an_interface_that_does_not_exist_yet_is_waited_for() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = vec![answers_after(Duration::from_millis(1))];
    let scenario = Scenario::start(answer, |_, mut options| {
        options.interfaces = vec!["later0".to_owned()];
        options.ebpf = Ebpf::Auto;
        options
    })?;
    assert_eq!(attached(&scenario, "later0"), Some(0.0));
    let output = scenario.weir.process.output();
    assert!(output.contains("no such interface yet"), "{output}");
    assert!(output.contains("endpoint1"), "those that exist: {output}");
    scenario
        .star
        .proxy
        .ip("link add later0 type veth peer name other")?;
    assert!(becomes_attached(&scenario, "later0", Some(1.0)));
    Ok(())
}

#[test]
fn without_names_it_follows_the_routes_to_the_endpoints() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = vec![answers_after(Duration::from_millis(1))];
    let scenario = Scenario::start(answer, |_, mut options| {
        options.ebpf = Ebpf::Required;
        options
    })?;
    assert_eq!(attached(&scenario, "endpoint1"), Some(1.0));
    assert_eq!(attached(&scenario, "client"), None);
    scenario.star.proxy.ip("link delete endpoint1")?;
    assert!(becomes_attached(&scenario, "endpoint1", Some(0.0)));
    scenario.star.endpoints[0].link(&scenario.star.proxy, "uplink")?;
    assert!(becomes_attached(&scenario, "uplink", Some(1.0)));
    // With a way to every endpoint, nothing is missed.
    assert_eq!(attached(&scenario, "endpoint1"), None);
    Ok(())
}

#[test]
fn an_endpoint_that_a_reload_adds_behind_another_interface_is_measured_there() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    const FILE: &str = "weir.yaml";
    let folder = Folder::new()?;
    let answer = || answers_after(Duration::from_millis(20));
    let scenario = Scenario::start(vec![answer(), answer()], |star, mut options| {
        let first = SocketAddr::new(star.endpoints[0].address(), PORT);
        let service = Service::of(options.listen[0], [first]);
        let path = folder.write(FILE, &service.to_yaml());
        options.config = Some(path.expect("a writable folder"));
        options.ebpf = Ebpf::Required;
        options
    })?;
    assert_eq!(attached(&scenario, "endpoint1"), Some(1.0));
    assert_eq!(attached(&scenario, "endpoint2"), None);

    let both = scenario.endpoints.iter().map(Endpoint::address);
    let service = Service::of(scenario.weir.listen, both);
    folder.write(FILE, &service.to_yaml())?;
    assert_eq!(scenario.weir.reload("")?.status(), 200);
    assert_eq!(attached(&scenario, "endpoint2"), Some(1.0), "at once");
    let mut client = scenario.client()?;
    let is_measured = || {
        let asked = client.get("/").is_ok_and(|answer| answer.status() == 200);
        let measured = scenario.dump().is_ok_and(|dump| {
            let mut sources = dump.iter().map(|one| one.latency_source.as_deref());
            sources.all(|source| source == Some("kernel"))
        });
        asked && measured
    };
    assert!(becomes_true(PATIENCE, is_measured), "by the worker alone");
    let mean = scenario.dump()?[1].wire.first_byte.mean_ms;
    let mean = mean.expect("was asked");
    assert!((20.0..24.0).contains(&mean), "{mean} ms");
    Ok(())
}

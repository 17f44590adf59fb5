//! Listeners on prefixes and ranges of ports, which nobody binds: served, changed while traffic flows, kept over a restart.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, ensure};
use rustix::process::Signal;
use weir_tests::client;
use weir_tests::editing::Folder;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::process::Place;
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Ebpf, weir_command};

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);

/// An ordinary listener, and one on these ports of this prefix.
fn documents(listen: SocketAddr, endpoint: SocketAddr, prefix: &str, last_port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{name: web}}
spec:
  addresses: [{{value: {}}}]
  listeners: [{{name: http, port: {}, protocol: HTTP}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata:
  name: wide
  annotations: {{weir.dev/ports: http=8000-{last_port}}}
spec:
  addresses: [{{type: weir.dev/Prefix, value: {prefix}}}]
  listeners: [{{name: http, port: 8000, protocol: HTTP}}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{name: all}}
spec:
  parentRefs: [{{name: web}}, {{name: wide}}]
  rules: [{{backendRefs: [{{name: shop, port: 80}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: shop}}
spec: {{ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: shop-1, labels: {{kubernetes.io/service-name: shop}}}}
addressType: IPv4
ports: [{{port: {}}}]
endpoints: [{{addresses: [{}]}}]
",
        listen.ip(),
        listen.port(),
        endpoint.port(),
        endpoint.ip(),
    )
}

struct Virtual {
    scenario: Scenario,
    folder: Folder,
}

impl Virtual {
    /// Serves 8000 to 8009 of 203.0.113.0/25; the whole /24 is routed here.
    fn start() -> Result<Self> {
        let folder = Folder::new()?;
        let path: PathBuf = folder.path().join("weir.yaml");
        let scenario = Scenario::start(vec![answers_after(Duration::ZERO)], |star, options| {
            let routed = star.proxy.ip("route add local 203.0.113.0/24 dev lo");
            routed.expect("nobody else has it");
            let endpoint = SocketAddr::new(star.endpoints[0].address(), PORT);
            let text = documents(options.listen[0], endpoint, "203.0.113.0/25", 8009);
            folder.write("weir.yaml", &text).expect("a writable folder");
            let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
            let mut options = options.measured_on(interfaces);
            options.workers = 2;
            options.config = Some(path);
            options
        })?;
        Ok(Self { scenario, folder })
    }

    fn serve(&self, prefix: &str, last_port: u16) -> Result<()> {
        let before = self.scenario.weir.revision()?;
        let endpoint = self.scenario.endpoints[0].address();
        let text = documents(self.scenario.weir.listen, endpoint, prefix, last_port);
        self.folder.write("weir.yaml", &text)?;
        let weir = &self.scenario.weir;
        let is_served = || weir.revision().is_ok_and(|now| now > before);
        ensure!(
            becomes_true(PATIENCE, is_served),
            "{}",
            weir.process.output()
        );
        Ok(())
    }

    fn status_at(&self, target: &str) -> Result<u16> {
        let place = self.scenario.star.client.namespace.place();
        Ok(client::get(&place, target.parse()?, "/")?.status())
    }
}

#[test]
fn every_address_and_port_that_is_meant_is_served_and_no_other() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let vips = Virtual::start()?;
    for served in [
        "203.0.113.0:8000",
        "203.0.113.127:8009",
        "203.0.113.64:8005",
    ] {
        assert_eq!(vips.status_at(served)?, 200, "{served}");
    }
    for not_served in ["203.0.113.128:8000", "203.0.113.1:8010", "203.0.113.1:7999"] {
        assert!(vips.status_at(not_served).is_err(), "{not_served}");
    }
    let ordinary = vips.scenario.weir.listen;
    assert_eq!(vips.status_at(&ordinary.to_string())?, 200);
    let metrics = vips.scenario.weir.metrics()?;
    let found = metrics.sum("weir_steering_decisions_total", &[("decision", "to_vip")]);
    assert_eq!(found, Some(3.0));
    let dump = vips.scenario.weir.admin("/config_dump")?.text();
    assert!(dump.contains("203.0.113.0/25:8000-8009"), "{dump}");
    Ok(())
}

#[test]
fn prefixes_change_while_traffic_flows_and_no_request_is_lost() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let vips = Virtual::start()?;
    let stop = AtomicBool::new(false);
    let asked = thread::scope(|scope| -> Result<u64> {
        let client = scope.spawn(|| -> Result<u64> {
            let mut asked = 0;
            while !stop.load(Ordering::Relaxed) {
                // In every prefix and range below.
                ensure!(vips.status_at("203.0.113.7:8001")? == 200, "after {asked}");
                asked += 1;
            }
            Ok(asked)
        });
        let prefixes = ["203.0.113.0/24", "203.0.113.0/28", "203.0.113.7/32"];
        let changes = (8001..8013).zip(prefixes.iter().cycle());
        let changed = changes.map(|(last, prefix)| vips.serve(prefix, last));
        let changed: Result<Vec<()>> = changed.collect();
        stop.store(true, Ordering::Relaxed);
        let asked = client.join().expect("no panic")?;
        changed.map(|_| asked)
    })?;
    assert!(asked > 20, "{asked} requests");
    assert!(vips.status_at("203.0.113.8:8001").is_err(), "it went");
    Ok(())
}

#[test]
fn a_process_that_takes_over_serves_prefixes_without_losing_a_request() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut vips = Virtual::start()?;
    let place = vips.scenario.star.client.namespace.place();
    let stop = Arc::new(AtomicBool::new(false));
    let told = stop.clone();
    let client = place.spawn(move || -> Result<u64> {
        let mut asked = 0;
        let target = "203.0.113.7:8001".parse()?;
        while !told.load(Ordering::Relaxed) {
            let answer = client::get(&Place::default(), target, "/");
            ensure!(answer?.status() == 200, "after {asked}");
            asked += 1;
        }
        Ok(asked)
    });
    for _ in 0..2 {
        let mut older = vips.scenario.take_over()?;
        assert!(older.process.wait(2 * PATIENCE)?.success());
        let said = older.process.output();
        assert!(said.contains("has taken over"), "{said}");
    }
    stop.store(true, Ordering::Relaxed);
    let asked = client.join().expect("no panic")?;
    assert!(asked > 20, "{asked} requests");
    assert!(vips.scenario.weir.process.stop(PATIENCE)?.success());
    assert!(vips.status_at("203.0.113.7:8001").is_err());
    Ok(())
}

#[test]
fn after_a_kill_the_next_process_serves_and_an_orderly_end_takes_the_program_along() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut vips = Virtual::start()?;
    vips.scenario.weir.process.signal(Signal::KILL)?;
    vips.scenario.weir.process.wait(PATIENCE)?;
    let is_pinned = |vips: &Virtual| {
        let pinned = vips.scenario.options.instance.pinned();
        pinned.iter().any(|file| file == "vip_lookup")
    };
    assert!(is_pinned(&vips));
    assert!(vips.status_at("203.0.113.1:8000").is_err(), "nobody serves");
    vips.scenario.start_again()?;
    assert_eq!(vips.status_at("203.0.113.1:8000")?, 200);
    assert!(vips.scenario.weir.process.stop(PATIENCE)?.success());
    assert!(!is_pinned(&vips));
    Ok(())
}

#[test]
fn without_the_program_an_address_is_bound_and_a_prefix_is_refused_in_words() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let mut vips = Virtual::start()?;
    assert!(vips.scenario.weir.process.stop(PATIENCE)?.success());
    vips.scenario.options.ebpf = Ebpf::Off;
    vips.scenario.options.interfaces.clear();
    let arguments = vips.scenario.options.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let refused = weir_command(&vips.scenario.star.proxy.place(), &arguments)?;
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(said.contains("203.0.113.0/25:8000-8009"), "{said}");
    assert!(said.contains("switched off"), "{said}");

    let endpoint = vips.scenario.endpoints[0].address();
    let text = documents(
        vips.scenario.options.listen[0],
        endpoint,
        "203.0.113.9/32",
        8000,
    );
    vips.folder.write("weir.yaml", &text)?;
    vips.scenario.start_again()?;
    assert_eq!(vips.status_at("203.0.113.9:8000")?, 200);
    let said = vips.scenario.weir.process.output();
    assert!(said.contains("ordinary socket"), "{said}");
    Ok(())
}

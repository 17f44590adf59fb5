//! A scenario whose configuration is edited while clients ask.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use weir_tests::editing::{Folder, Service};
use weir_tests::endpoint::Script;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::load::{Load, Pace, Report, get_request};
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Ebpf, EndpointDump, Options};

use crate::PATIENCE;

pub const FILE: &str = "weir.yaml";

/// A scenario whose configuration is a file that is edited.
pub struct Edited {
    pub folder: Folder,
    pub scenario: Scenario,
}

impl Edited {
    /// Served from the first endpoint alone, without kernel programs.
    pub fn start(scripts: Vec<Script>, more: &[&str]) -> Result<Self> {
        Self::start_with(scripts, |options| {
            options.more = more.iter().map(|flag| (*flag).to_owned()).collect();
        })
    }

    /// The same, with kernel programs towards whatever endpoints there are.
    pub fn start_measured(scripts: Vec<Script>) -> Result<Self> {
        Self::start_with(scripts, |options| options.ebpf = Ebpf::Required)
    }

    fn start_with(scripts: Vec<Script>, adjust: impl FnOnce(&mut Options)) -> Result<Self> {
        let folder = Folder::new()?;
        let path = folder.path().join(FILE);
        let scenario = Scenario::start(scripts, |star, mut options| {
            let first = SocketAddr::new(star.endpoints[0].address(), PORT);
            let service = Service::of(options.listen[0], [first]);
            let written = folder.write(FILE, &service.to_yaml());
            written.expect("a writable folder");
            options.config = Some(path);
            options.workers = 2;
            adjust(&mut options);
            options
        })?;
        Ok(Self { folder, scenario })
    }

    /// All requests go to these endpoints, by number.
    pub fn service(&self, endpoints: &[usize]) -> Service {
        let address = |number: &usize| self.scenario.endpoints[*number].address();
        Service::of(self.scenario.weir.listen, endpoints.iter().map(address))
    }

    pub fn write(&self, service: &Service) -> Result<()> {
        self.folder.write(FILE, &service.to_yaml())?;
        Ok(())
    }

    pub fn wait_for_revision(&self, revision: u64) -> Result<()> {
        let weir = &self.scenario.weir;
        let is_served = || weir.revision().is_ok_and(|served| served >= revision);
        let became = becomes_true(PATIENCE, is_served);
        let said = weir.process.output();
        ensure!(became, "revision {revision} is not served:\n{said}");
        Ok(())
    }

    /// Runs `work` while clients ask; fails if one of them is not answered.
    pub fn under_load(&self, work: impl FnOnce() -> Result<()>) -> Result<Report> {
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

    pub fn seen(&self, endpoint: usize) -> u64 {
        self.scenario.endpoints[endpoint].seen().requests()
    }

    pub fn dump_of(&self, endpoint: usize) -> Result<EndpointDump> {
        let key = self.scenario.endpoints[endpoint].address().to_string();
        let mut dump = self.scenario.weir.dump()?.into_iter();
        let found = dump.find(|known| known.endpoint == key);
        found.with_context(|| format!("no {key} in the dump"))
    }
}

/// An endpoint that answers at once.
pub fn quick() -> Script {
    answers_after(Duration::from_millis(1))
}

//! What the demo is made of: hosts, endpoints, Weir and load. Values are dropped in the order of the fields: first
//! what sends, last the hosts.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use weir_tests::endpoint::scripts::{answers_after, fails_of_ten};
use weir_tests::load::{Load, Pace, Report, get_request};
use weir_tests::scenario::Scenario;
use weir_tests::weir::Ebpf;

use crate::table::{Part, Row, Table};

const PARTS: [Part; 4] = [Part::Fast, Part::Fast, Part::Slow, Part::Flaky];

/// Enough to see shares within seconds, little enough to leave a small machine room.
const REQUESTS_PER_SECOND: f64 = 400.0;

const FAST: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(60);

pub struct Scene {
    stop_load: Arc<AtomicBool>,
    load: Option<JoinHandle<std::io::Result<Report>>>,
    scenario: Scenario,
}

impl Scene {
    pub fn start(weir: &Path) -> Result<Self> {
        let scripts = PARTS.map(|part| match part {
            Part::Fast => answers_after(FAST),
            Part::Slow => answers_after(SLOW),
            Part::Flaky => fails_of_ten(3, FAST),
        });
        let scenario = Scenario::start(scripts.into(), |star, mut options| {
            options.binary = Some(weir.to_owned());
            options = options.measured_on(star.interfaces());
            options.ebpf = Ebpf::Auto;
            options
        })?;

        let stop_load = Arc::new(AtomicBool::new(false));
        let stopped = stop_load.clone();
        let load = Load {
            target: scenario.weir.listen,
            connections: 64,
            request: get_request("/"),
            pace: Pace::PerSecond(REQUESTS_PER_SECOND),
            warm_up: Duration::ZERO,
            // Until it is stopped.
            length: Duration::from_secs(7 * 24 * 3600),
        };
        let client = scenario.star.client.namespace.place();
        let load = client.spawn(move || load.run(&stopped));
        Ok(Self {
            stop_load,
            load: Some(load),
            scenario,
        })
    }

    /// What Weir says of its endpoints now.
    pub fn table(&self, elapsed: Duration) -> Result<Table> {
        let rows = self.scenario.dump()?.into_iter().zip(PARTS);
        let rows = rows.map(|(dump, part)| Row::new(dump, part)).collect();
        Ok(Table { elapsed, rows })
    }

    /// Ends the load, then everything else.
    pub fn stop(mut self) -> Result<Report> {
        self.stop_load.store(true, Ordering::Relaxed);
        let load = self.load.take().expect("taken only here");
        let report = load.join().map_err(|_| anyhow!("the load panicked"))??;
        self.scenario.weir.process.stop(Duration::from_secs(5))?;
        Ok(report)
    }
}

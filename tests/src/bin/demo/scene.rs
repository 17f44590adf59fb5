//! What the demo is made of: hosts, endpoints, Weir and load. Values are dropped in the order of the fields: first
//! what sends, last the hosts.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Result, anyhow};
use weir_tests::endpoint::{Endpoint, answers_after, fails_of_ten};
use weir_tests::load::{Load, Pace, Report, get_request};
use weir_tests::topology::Star;
use weir_tests::weir::{Ebpf, Options, Weir};

use crate::table::{Part, Row, Table};

const PORT: u16 = 8080;

/// Enough to see shares within seconds, little enough to leave a small machine room.
const REQUESTS_PER_SECOND: f64 = 400.0;

const FAST: Duration = Duration::from_millis(5);
const SLOW: Duration = Duration::from_millis(60);

pub struct Scene {
    stop_load: Arc<AtomicBool>,
    load: Option<JoinHandle<std::io::Result<Report>>>,
    weir: Weir,
    endpoints: Vec<(Endpoint, Part)>,
    _star: Star,
}

impl Scene {
    pub fn start(weir: &Path) -> Result<Self> {
        let star = Star::new(4)?;
        let endpoints = [Part::Fast, Part::Fast, Part::Slow, Part::Flaky]
            .into_iter()
            .zip(&star.endpoints)
            .map(|(part, peer)| {
                let (place, address) = (peer.namespace.place(), (peer.address(), PORT));
                let endpoint = match part {
                    Part::Fast => Endpoint::start(&place, address, answers_after(FAST)),
                    Part::Slow => Endpoint::start(&place, address, answers_after(SLOW)),
                    Part::Flaky => Endpoint::start(&place, address, fails_of_ten(3, FAST)),
                };
                Ok((endpoint?, part))
            })
            .collect::<Result<Vec<_>>>()?;

        let listen = SocketAddr::new(star.proxy_address(), PORT);
        let addresses = endpoints.iter().map(|(endpoint, _)| endpoint.address());
        let mut options = Options::new(listen, addresses).measured_on(star.interfaces());
        options.ebpf = Ebpf::Auto;
        let weir = Weir::start_binary(weir, &star.proxy.place(), &options)?;

        let stop_load = Arc::new(AtomicBool::new(false));
        let stopped = stop_load.clone();
        let load = Load {
            target: listen,
            connections: 64,
            request: get_request("/"),
            pace: Pace::PerSecond(REQUESTS_PER_SECOND),
            warm_up: Duration::ZERO,
            // Until it is stopped.
            length: Duration::from_secs(7 * 24 * 3600),
        };
        let load = star
            .client
            .namespace
            .place()
            .spawn(move || load.run(&stopped));
        Ok(Self {
            stop_load,
            load: Some(load),
            weir,
            endpoints,
            _star: star,
        })
    }

    /// What Weir says of its endpoints now.
    pub fn table(&self, elapsed: Duration) -> Result<Table> {
        let metrics = self.weir.metrics()?;
        let rows = self
            .endpoints
            .iter()
            .map(|(endpoint, part)| Row::read(&metrics, endpoint.address(), *part))
            .collect();
        Ok(Table { elapsed, rows })
    }

    /// Ends the load, then everything else.
    pub fn stop(mut self) -> Result<Report> {
        self.stop_load.store(true, Ordering::Relaxed);
        let load = self.load.take().expect("taken only here");
        let report = load.join().map_err(|_| anyhow!("the load panicked"))??;
        self.weir.process.stop(Duration::from_secs(5))?;
        Ok(report)
    }
}

//! The usual stage of a scenario: a star of hosts, an endpoint with a script on each outer one, Weir in the middle.

use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::client::Client;
use crate::endpoint::{Endpoint, Script};
use crate::load::{Load, Pace, Report, get_request};
use crate::topology::Star;
use crate::weir::{EndpointDump, Options, Weir};

/// Port of Weir and of every endpoint.
pub const PORT: u16 = 8080;

/// Dropped in the order of the fields: the hosts last.
pub struct Scenario {
    pub weir: Weir,
    /// What Weir was started with.
    pub options: Options,
    pub endpoints: Vec<Endpoint>,
    pub star: Star,
}

impl Scenario {
    /// One endpoint for each script. `adjust` changes what Weir is started with; it gets the star to name interfaces
    /// and addresses of.
    pub fn start(
        scripts: Vec<Script>,
        adjust: impl FnOnce(&Star, Options) -> Options,
    ) -> Result<Self> {
        let count = u8::try_from(scripts.len()).context("a star has room for 255")?;
        let star = Star::new(count)?;
        let endpoints = scripts
            .into_iter()
            .zip(&star.endpoints)
            .map(|(script, peer)| {
                Endpoint::start(&peer.namespace.place(), (peer.address(), PORT), script)
            })
            .collect::<std::io::Result<Vec<_>>>()?;
        let listen = SocketAddr::new(star.proxy_address(), PORT);
        let options = Options::new(listen, endpoints.iter().map(Endpoint::address));
        let options = adjust(&star, options);
        let weir = Weir::start(&star.proxy.place(), &options)?;
        Ok(Self {
            weir,
            options,
            endpoints,
            star,
        })
    }

    /// With user space's own measurement and all defaults.
    pub fn plain(scripts: Vec<Script>) -> Result<Self> {
        Self::start(scripts, |_, options| options)
    }

    /// Starts Weir again, as the same instance, after it has ended.
    pub fn start_again(&mut self) -> Result<()> {
        self.weir = Weir::start(&self.star.proxy.place(), &self.options)?;
        Ok(())
    }

    /// Starts another Weir in place of the running one; returns that, which drains.
    pub fn take_over(&mut self) -> Result<Weir> {
        let next = Weir::take_over(&self.star.proxy.place(), &self.options)?;
        Ok(std::mem::replace(&mut self.weir, next))
    }

    /// A client on the client's host, connected to Weir.
    pub fn client(&self) -> Result<Client> {
        let place = self.star.client.namespace.place();
        Client::connect(&place, self.weir.listen).context("cannot connect to Weir")
    }

    /// Load from the client's host.
    pub fn load(&self, connections: usize, pace: Pace, length: Duration) -> Result<Report> {
        let load = Load {
            target: self.weir.listen,
            connections,
            request: get_request("/"),
            pace,
            warm_up: Duration::ZERO,
            length,
        };
        let place = self.star.client.namespace.place();
        let report = place.run(|| load.run(&AtomicBool::new(false)));
        report.context("the load could not run")
    }

    /// What Weir knows of each endpoint, in the order of the scripts.
    pub fn dump(&self) -> Result<Vec<EndpointDump>> {
        let mut dump = self.weir.dump()?;
        self.endpoints
            .iter()
            .map(|endpoint| {
                let key = endpoint.address().to_string();
                let found = dump.iter().position(|known| known.endpoint == key);
                let found = found.with_context(|| format!("no {key} in the dump"))?;
                Ok(dump.swap_remove(found))
            })
            .collect()
    }

    /// Shares of the requests each endpoint saw.
    pub fn shares(&self) -> Vec<f64> {
        let counts = self
            .endpoints
            .iter()
            .map(|endpoint| endpoint.seen().requests());
        let counts: Vec<u64> = counts.collect();
        let total = counts.iter().sum::<u64>().max(1);
        counts
            .iter()
            .map(|&count| count as f64 / total as f64)
            .collect()
    }
}

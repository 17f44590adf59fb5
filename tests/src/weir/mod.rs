//! The Weir binary as a process under test: started with arguments, asked through its own commands and addresses.

mod dump;
mod metrics;
mod options;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail};

pub use dump::{Attempts, EndpointDump, EndpointRow, Timed, Wire};
pub use metrics::Metrics;
pub use options::{Ebpf, Options};

use crate::client::{self, Client};
use crate::instance::Instance;
use crate::process::{Place, Process};
use crate::wait::{becomes_some, becomes_true};
use dump::ConfigDump;

/// How long start-up and answers of the admin address may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A running Weir.
pub struct Weir {
    pub process: Process,
    binary: PathBuf,
    place: Place,
    pub listen: SocketAddr,
    admin: SocketAddr,
    metrics: SocketAddr,
    /// After the process: what it has pinned goes when it has ended.
    _instance: Instance,
}

impl Weir {
    /// Starts it in a namespace of its own, where the default addresses are free, and waits until it is ready.
    pub fn start(place: &Place, options: &Options) -> Result<Self> {
        let mut weir = Self::spawn(place, options)?;
        weir.wait_until_ready()?;
        Ok(weir)
    }

    fn spawn(place: &Place, options: &Options) -> Result<Self> {
        let listen = *options.listen.first().context("nothing to listen on")?;
        let binary = options.binary.clone().map_or_else(binary, Ok)?;
        let mut command = Command::new(&binary);
        command.args(options.arguments());
        if let Some(without) = options.without {
            without(&mut command);
        }
        let process = Process::start(command, place)?;
        Ok(Self {
            process,
            binary,
            place: place.clone(),
            listen,
            admin: local(15000),
            metrics: local(15020),
            _instance: options.instance.clone(),
        })
    }

    /// Starts one that takes the place of a running one, and waits until it has.
    pub fn take_over(place: &Place, options: &Options) -> Result<Self> {
        let mut options = options.clone();
        options.more.push("--takeover".to_owned());
        let weir = Self::spawn(place, &options)?;
        // Until then the other one says that it is ready, at the same address.
        let has_taken = || weir.process.output().contains("took over from process");
        if !becomes_true(PATIENCE, has_taken) {
            bail!("weir did not take over:\n{}", weir.process.output());
        }
        Ok(weir)
    }

    fn wait_until_ready(&mut self) -> Result<()> {
        let readiness = local(15021);
        let ready = becomes_some(PATIENCE, || {
            if !self.process.is_running() {
                return Some(false);
            }
            let answer = client::get(&self.place, readiness, "/healthz/ready").ok()?;
            (answer.status() == 200).then_some(true)
        });
        match ready {
            Some(true) => Ok(()),
            Some(false) => bail!("weir ended at its start:\n{}", self.process.output()),
            None => bail!(
                "weir was not ready in {PATIENCE:?}:\n{}",
                self.process.output()
            ),
        }
    }

    /// The endpoints, as `weir proxy config backends -o json --all` shows them.
    pub fn rows(&self) -> Result<Vec<EndpointRow>> {
        let mut command = Command::new(&self.binary);
        command.args(["proxy", "config", "backends", "-o", "json", "--all"]);
        command.arg("--admin").arg(self.admin.to_string());
        let output = run_to_end(command, &self.place)?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let error = String::from_utf8_lossy(&output.stderr);
            bail!("weir proxy config backends failed: {error}");
        }
        serde_json::from_str(&text).with_context(|| format!("not the rows: {text}"))
    }

    /// The endpoints, as the admin address dumps them.
    pub fn dump(&self) -> Result<Vec<EndpointDump>> {
        let response = self.admin("/config_dump")?;
        let text = response.text();
        let dump: ConfigDump =
            serde_json::from_str(&text).with_context(|| format!("not a dump: {text}"))?;
        let backends = dump.backends.into_iter();
        Ok(backends.flat_map(|backend| backend.endpoints).collect())
    }

    /// Revision of what is served.
    pub fn revision(&self) -> Result<u64> {
        let dump: ConfigDump = serde_json::from_str(&self.admin("/config_dump")?.text())?;
        Ok(dump.revision)
    }

    /// Has it load its configuration again. `fields` are whole lines of the request's head.
    pub fn reload(&self, fields: &str) -> Result<client::Response> {
        let mut client = Client::connect(&self.place, self.admin)?;
        let fields = format!("connection: close\r\n{fields}");
        Ok(client.request("POST", "/reload", &fields, b"")?)
    }

    /// `GET` at the admin address.
    pub fn admin(&self, path: &str) -> Result<client::Response> {
        Ok(client::get(&self.place, self.admin, path)?)
    }

    pub fn metrics(&self) -> Result<Metrics> {
        let response = client::get(&self.place, self.metrics, "/metrics")?;
        Ok(Metrics::parse(&response.text()))
    }
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

/// Runs Weir with arguments to its end, which must come soon.
pub fn weir_command(place: &Place, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(binary()?);
    command.args(arguments);
    run_to_end(command, place)
}

/// Runs a command to its end in `place`.
pub fn run_to_end(mut command: Command, place: &Place) -> Result<Output> {
    place.prepare(&mut command);
    let name = command.get_program().to_string_lossy().into_owned();
    command
        .output()
        .with_context(|| format!("cannot run {name}"))
}

/// The binary under test: what `WEIR_BINARY` names, else the release build, else the debug build.
pub fn binary() -> Result<PathBuf> {
    if let Some(binary) = std::env::var_os("WEIR_BINARY") {
        return Ok(binary.into());
    }
    let own = std::env::current_exe().context("cannot find our own program")?;
    let target = own
        .ancestors()
        .find(|folder| folder.ends_with("target"))
        .context("not started from a target folder: set WEIR_BINARY")?;
    ["release/weir", "debug/weir"]
        .map(|file| target.join(file))
        .into_iter()
        .find(|file| file.is_file())
        .context("no weir binary: run `cargo xtask build`, or set WEIR_BINARY")
}

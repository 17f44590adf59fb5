//! The Weir binary as a process under test: started with arguments, asked through its own commands and addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::client::{self, Client};
use crate::instance::Instance;
use crate::process::{Place, Process};
use crate::wait::becomes_some;

/// How long start-up and answers of the admin address may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `weir run`.
#[derive(Clone, Debug)]
pub struct Options {
    pub listen: Vec<SocketAddr>,
    /// `ip:port` or `ip:port@weight`.
    pub to: Vec<String>,
    /// Resources to serve in place of `listen` and `to`; the first of `listen` must be an address they listen on.
    pub config: Option<PathBuf>,
    pub interfaces: Vec<String>,
    pub workers: usize,
    pub ebpf: Ebpf,
    /// What it is called, unless `more` says otherwise.
    pub instance: Instance,
    /// The program; the one under test if there is no other.
    pub binary: Option<PathBuf>,
    /// Further arguments as they are.
    pub more: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ebpf {
    Auto,
    Required,
    Off,
}

impl Options {
    /// One worker, measuring in user space.
    pub fn new(listen: SocketAddr, to: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            listen: vec![listen],
            to: to.into_iter().map(|address| address.to_string()).collect(),
            config: None,
            interfaces: Vec::new(),
            workers: 1,
            ebpf: Ebpf::Off,
            instance: Instance::new(),
            binary: None,
            more: Vec::new(),
        }
    }

    /// With kernel programs on these interfaces.
    pub fn measured_on<'a>(mut self, interfaces: impl IntoIterator<Item = &'a str>) -> Self {
        self.interfaces = interfaces.into_iter().map(str::to_owned).collect();
        self.ebpf = Ebpf::Required;
        self
    }

    pub fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned()];
        let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
        match &self.config {
            Some(path) => add("--config", path.display().to_string()),
            None => {
                for listen in &self.listen {
                    add("--listen", listen.to_string());
                }
                for to in &self.to {
                    add("--to", to.clone());
                }
            }
        }
        for interface in &self.interfaces {
            add("--interface", interface.clone());
        }
        add("--workers", self.workers.to_string());
        let ebpf = match self.ebpf {
            Ebpf::Auto => "auto",
            Ebpf::Required => "required",
            Ebpf::Off => "off",
        };
        add("--ebpf", ebpf.to_owned());
        if !self.more.iter().any(|argument| argument == "--instance") {
            add("--instance", self.instance.name().to_owned());
        }
        arguments.extend(self.more.iter().cloned());
        arguments
    }
}

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
        let listen = *options.listen.first().context("nothing to listen on")?;
        let binary = options.binary.clone().map_or_else(binary, Ok)?;
        let mut command = Command::new(&binary);
        command.args(options.arguments());
        let process = Process::start(command, place)?;
        let local = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let mut weir = Self {
            process,
            binary,
            place: place.clone(),
            listen,
            admin: local(15000),
            metrics: local(15020),
            _instance: options.instance.clone(),
        };
        weir.wait_until_ready(local(15021))?;
        Ok(weir)
    }

    fn wait_until_ready(&mut self, readiness: SocketAddr) -> Result<()> {
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

/// One row of `weir proxy config backends -o json`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointRow {
    pub endpoint: String,
    pub health: String,
    pub health_score: f64,
    /// Missing without a sample.
    pub latency_ms: Option<f64>,
    pub latency_source: Option<String>,
    pub pending: u64,
    pub weight: u64,
    pub ejected: bool,
}

/// The part of `/config_dump` that scenarios look at.
#[derive(Clone, Debug, Deserialize)]
struct ConfigDump {
    revision: u64,
    backends: Vec<BackendDump>,
}

#[derive(Clone, Debug, Deserialize)]
struct BackendDump {
    endpoints: Vec<EndpointDump>,
}

/// What the dump says of an endpoint.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointDump {
    pub endpoint: String,
    pub health_score: f64,
    /// Missing without a sample.
    pub latency_ms: Option<f64>,
    pub latency_source: Option<String>,
    pub self_delay_ms: Option<f64>,
    pub pending: u64,
    pub attempts: Attempts,
    pub ejected: bool,
    pub ejections: u64,
    pub wire: Wire,
}

/// How attempts ended.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Attempts {
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub neutral: u64,
}

/// What kernel programs counted.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wire {
    pub started: u64,
    pub finished: u64,
    pub opened: u64,
    pub first_byte: Timed,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Timed {
    pub count: u64,
    pub mean_ms: Option<f64>,
}

/// What a scrape of `/metrics` said.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Clone, Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Reads the text format of Prometheus; label values here hold no quotes.
    fn parse(text: &str) -> Self {
        let samples = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
            let labels = labels.strip_suffix('}')?;
            Some(Sample {
                name: name.to_owned(),
                labels: labels
                    .split("\",")
                    .filter_map(|label| label.split_once("=\""))
                    .map(|(key, value)| (key.to_owned(), value.trim_end_matches('"').to_owned()))
                    .collect(),
                value: value.parse().ok()?,
            })
        });
        Self {
            samples: samples.collect(),
        }
    }

    /// The sum of all series of that name with these labels; nothing if there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let mut matching = self
            .samples
            .iter()
            .filter(|sample| sample.name == name)
            .filter(|sample| {
                labels
                    .iter()
                    .all(|(key, value)| sample.labels.get(*key).is_some_and(|has| has == value))
            })
            .map(|sample| sample.value)
            .peekable();
        matching.peek()?;
        Some(matching.sum())
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_sum_over_the_labels_that_are_not_named() {
        let metrics = Metrics::parse(
            "# HELP a b\na{x=\"1\",y=\"2\"} 3\na{x=\"1\",y=\"3\"} 4\na{x=\"2\",y=\"2\"} 8\nplain 0.5\n",
        );
        assert_eq!(metrics.sum("a", &[("x", "1")]), Some(7.0));
        assert_eq!(metrics.sum("a", &[]), Some(15.0));
        assert_eq!(metrics.sum("a", &[("x", "9")]), None);
        assert_eq!(metrics.sum("plain", &[]), Some(0.5));
    }
}

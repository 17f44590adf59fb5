//! `weir run`: what to serve, and how.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

use super::admin::AdminArguments;
use super::locality::LocalityArguments;
use super::timeouts::Timeouts;
use super::xdp::XdpArguments;
use super::{target, value};
use crate::affinity::Affinity;
use crate::balance::Scoring;
use crate::config::{QuickError, quick_documents};
use crate::runtime::access_log::LogTarget;
use crate::runtime::admin::AdminAddresses;
use crate::runtime::dataplane::{EbpfMode, XdpMode};
use crate::runtime::l4::L4Mode;
use crate::runtime::reload::{ConfigError, Standpoint, both, conflicts, load_plan};
use crate::snapshot::{Plan, Target};

/// Serve: listen for HTTP, and balance over endpoints.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  weir run --listen 0.0.0.0:8080 --to 10.0.0.11:8080 --to 10.0.0.12:8080@3
  weir run --listen 0.0.0.0:8080 --to 10.0.0.11:8080,10.0.0.12:8080 --affinity 'cookie(\"session\")'
  weir run --listen 127.0.0.1:8080 --to '[fd00::11]:80' --ebpf off --workers 1
  WEIR_LISTEN=0.0.0.0:8080 WEIR_TO=10.0.0.11:8080,10.0.0.12:8080 weir run
  weir run --listen 0.0.0.0:8080 --to 10.0.0.11:8080 --print-config > weir.yaml
  weir run --config weir.yaml")]
pub struct RunOptions {
    /// Address to listen on for clients; may be given several times
    #[arg(
        long,
        value_name = "ADDR",
        env = "WEIR_LISTEN",
        value_delimiter = ',',
        value_parser = value::listen
    )]
    pub listen: Vec<SocketAddr>,

    /// Endpoint to send requests to, as `ip:port` or `[v6]:port`; may be given several times
    ///
    /// `@WEIGHT` sets its share of the requests, 0 to 65535, 1 if left out; an endpoint of weight 0 gets none. All
    /// listeners share the endpoints.
    #[arg(
        long,
        value_name = "ADDR[@WEIGHT]",
        env = "WEIR_TO",
        value_delimiter = ',',
        value_parser = target::parse
    )]
    pub to: Vec<Target>,

    /// Keep requests with the same value at one endpoint: a CEL expression over the head of a request
    ///
    /// For example request.headers["x-session-id"], cookie("session") or source.address. A request for which it gives
    /// no text is balanced as any other. All proxies agree on the endpoint of a value.
    #[arg(
        long,
        value_name = "EXPR",
        env = "WEIR_AFFINITY",
        value_parser = value::affinity
    )]
    pub affinity: Option<Affinity>,

    /// Write a line of JSON for each exchange to this file; - is the standard output
    #[arg(
        long,
        value_name = "FILE",
        env = "WEIR_ACCESS_LOG",
        value_parser = value::access_log
    )]
    pub access_log: Option<LogTarget>,

    /// How the better of two endpoints is found
    #[arg(long, value_enum, default_value_t, env = "WEIR_SCORING")]
    scoring: ScoringMode,

    /// Resources to serve instead of --listen and --to: a file, or a directory of .yaml, .yml and .json files
    ///
    /// Of a flag and a variable that contradict each other the flag holds.
    #[arg(long, value_name = "FILE|DIR", env = "WEIR_CONFIG")]
    config: Option<PathBuf>,

    /// Variables that flags have overruled.
    #[arg(skip)]
    overruled: Option<&'static str>,

    /// Do not reload when files of --config, or the deny list, change; SIGHUP and POST /reload still do
    #[arg(long, env = "WEIR_NO_WATCH")]
    no_watch: bool,

    /// Print the resources that --listen and --to stand for, and end
    #[arg(long, env = "WEIR_PRINT_CONFIG")]
    print_config: bool,

    /// Interface to measure endpoints on; may be given several times [default: those that lead to endpoints]
    #[arg(
        long = "interface",
        value_name = "IF",
        env = "WEIR_INTERFACE",
        value_delimiter = ',',
        value_parser = value::interface
    )]
    pub interfaces: Vec<String>,

    /// Threads that serve [default: one for each CPU, bound to it]
    #[arg(
        long,
        value_name = "N",
        env = "WEIR_WORKERS",
        value_parser = value::workers
    )]
    pub workers: Option<NonZeroUsize>,

    /// Endpoints there may be at one time, those that just left included [default: 4096, or twice those at the start]
    #[arg(
        long,
        value_name = "N",
        env = "WEIR_MAX_ENDPOINTS",
        value_parser = value::max_endpoints
    )]
    pub max_endpoints: Option<NonZeroUsize>,

    /// Whether kernel programs measure the endpoints
    #[arg(long, value_enum, default_value_t, env = "WEIR_EBPF")]
    pub ebpf: EbpfMode,

    /// Who serves TCP and UDP listeners
    #[arg(long, value_enum, default_value_t, env = "WEIR_L4")]
    pub l4: L4Mode,

    /// Name that tells the proxies of a host apart
    #[arg(
        long,
        value_name = "NAME",
        env = "WEIR_INSTANCE",
        default_value = "default",
        value_parser = value::instance
    )]
    pub instance: String,

    /// Take the place of the process that runs as this instance, if there is one; that one drains and ends
    ///
    /// Clients notice nothing: the sockets are handed over, and so is what is known of endpoints.
    #[arg(long, env = "WEIR_TAKEOVER")]
    pub takeover: bool,

    /// What to log: off, error, warn, info, debug, trace, or filters such as weir::balance=debug,info
    #[arg(
        long,
        value_name = "LEVEL",
        env = "WEIR_LOG",
        default_value = "info",
        value_parser = value::log
    )]
    pub log: String,

    #[command(flatten)]
    pub xdp: XdpArguments,

    #[command(flatten)]
    locality: LocalityArguments,

    #[command(flatten)]
    admin: AdminArguments,

    #[command(flatten)]
    pub timeouts: Timeouts,
}

/// The modes of scoring.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ScoringMode {
    /// Health over latency and pending of two draws; learned from outcomes alone
    #[default]
    Seed,
    /// Two different endpoints, pending in full; what is known ages, so that a recovered endpoint is found soon
    Adaptive,
}

impl From<ScoringMode> for Scoring {
    fn from(mode: ScoringMode) -> Self {
        match mode {
            ScoringMode::Seed => Self::Seed,
            ScoringMode::Adaptive => Self::Adaptive,
        }
    }
}

impl RunOptions {
    /// What to serve.
    pub fn plan(&self) -> Result<Plan, ConfigError> {
        let admin = self.admin_addresses();
        conflicts::check_surfaces(&admin)?;
        let plan = match &self.config {
            Some(path) => {
                let locality = self.locality.known();
                let standpoint = Standpoint {
                    locality: locality.as_ref(),
                    admin: &admin,
                    l4: self.l4,
                };
                load_plan(path, standpoint, |warning| tracing::warn!("{warning}"))
            }
            None => self.quick_plan(&admin),
        };
        let (mut plan, deny) = both(plan, self.xdp.deny_list())?;
        plan.deny = Arc::new(deny);
        Ok(plan)
    }

    /// What `--listen` and `--to` ask for.
    fn quick_plan(&self, admin: &AdminAddresses) -> Result<Plan, ConfigError> {
        let plan = Plan::quick(&self.listen, &self.to)
            .with_affinity(self.affinity.as_ref())
            .with_scoring(self.scoring.into());
        if let Some(conflict) = conflicts::check(&plan, admin).into_iter().next() {
            return Err(conflict.into());
        }
        for backend in conflicts::drained(&plan) {
            tracing::warn!(
                "all endpoints of {backend} have weight 0: its requests are answered 503"
            );
        }
        Ok(plan)
    }

    /// Says which part of the environment does not hold. It never changes, so once is enough.
    pub fn warn_of_overruled(&self) {
        if let Some(variables) = self.overruled {
            tracing::warn!("{variables} is set, and does not hold: flags say something else");
        }
    }

    /// Whether kernel programs are to serve what of TCP and UDP they can.
    pub fn is_l4_in_kernel(&self) -> bool {
        self.l4 == L4Mode::Xdp
    }

    /// Whether what is served can change: flags cannot.
    pub fn is_from_files(&self) -> bool {
        self.config.is_some() || self.xdp.file().is_some()
    }

    /// Where to look for changes.
    pub fn watched(&self) -> Vec<&Path> {
        let files = [self.config.as_deref(), self.xdp.file()];
        let files = files.into_iter().flatten();
        files.filter(|_| !self.no_watch).collect()
    }

    /// The text `--print-config` asks for, if it was given.
    pub fn printed_config(&self) -> Option<Result<String, QuickError>> {
        self.print_config.then(|| {
            quick_documents(
                &self.listen,
                &self.to,
                self.affinity.as_ref(),
                self.scoring.into(),
            )
        })
    }

    pub fn admin_addresses(&self) -> AdminAddresses {
        self.admin.addresses()
    }

    /// The filter for what is logged.
    pub fn log_filter(&self) -> EnvFilter {
        // What notify says of directories that are gone is no news.
        EnvFilter::new(format!("{},notify=error", self.log))
    }

    /// What no single flag can know: where each came from decides what holds. Says what is wrong, and what to do.
    pub(super) fn settle(&mut self, origin: impl Fn(&str) -> Origin) -> Result<(), String> {
        let quick = ["listen", "to", "affinity", "scoring"]
            .map(&origin)
            .into_iter()
            .max();
        match (origin("config"), quick.unwrap_or_default()) {
            (Origin::Nowhere, _) | (_, Origin::Nowhere) => {}
            (Origin::Flag, Origin::Flag) => {
                return Err(
                    "--config cannot be used with --listen, --to, --affinity or --scoring: leave either out"
                        .into(),
                );
            }
            (Origin::Variable, Origin::Variable) => {
                return Err(
                    "WEIR_CONFIG cannot be used with WEIR_LISTEN, WEIR_TO, WEIR_AFFINITY or WEIR_SCORING: unset either"
                        .into(),
                );
            }
            (Origin::Flag, Origin::Variable) => {
                self.listen.clear();
                self.to.clear();
                self.affinity = None;
                self.scoring = ScoringMode::default();
                self.overruled = Some("WEIR_LISTEN, WEIR_TO, WEIR_AFFINITY or WEIR_SCORING");
            }
            (Origin::Variable, Origin::Flag) => {
                self.config = None;
                self.overruled = Some("WEIR_CONFIG");
            }
        }
        self.xdp.check()?;
        self.check_l4()?;
        self.check()
    }

    fn check_l4(&self) -> Result<(), String> {
        let forbids = match (self.l4, self.xdp.mode, self.ebpf) {
            (L4Mode::Xdp, XdpMode::Off, _) => "--xdp off",
            (L4Mode::Xdp, _, EbpfMode::Off) => "--ebpf off",
            _ => return Ok(()),
        };
        Err(format!(
            "--l4 xdp takes kernel programs, and {forbids} forbids them: leave either out"
        ))
    }

    fn check(&self) -> Result<(), String> {
        if self.config.is_some() {
            return match self.print_config {
                true => Err(
                    "--print-config prints what --listen and --to stand for, not --config".into(),
                ),
                false => Ok(()),
            };
        }
        match (self.listen.is_empty(), self.to.is_empty()) {
            (false, false) => {}
            (true, true) => {
                return Err("there is nothing to serve: give --listen <ADDR> and --to <ADDR[@WEIGHT]>, or --config <FILE|DIR>".into());
            }
            (true, false) => return Err("--listen <ADDR> is missing: where clients connect".into()),
            (false, true) => {
                return Err("--to <ADDR[@WEIGHT]> is missing: where requests go".into());
            }
        }
        if let Some(address) = first_repeated(self.listen.iter().copied()) {
            return Err(format!("--listen {address} is given twice; leave one out"));
        }
        if let Some(address) = first_repeated(self.to.iter().map(|target| target.address)) {
            return Err(format!(
                "--to {address} is given twice; leave one out, and give the other a weight, as in {address}@2"
            ));
        }
        Ok(())
    }
}

/// Where the value of a flag came from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Origin {
    #[default]
    Nowhere,
    /// The environment.
    Variable,
    /// The command line.
    Flag,
}

fn first_repeated(addresses: impl Iterator<Item = SocketAddr>) -> Option<SocketAddr> {
    let mut seen = HashSet::new();
    let mut addresses = addresses.filter(|address| address.port() != 0);
    addresses.find(|address| !seen.insert(*address))
}

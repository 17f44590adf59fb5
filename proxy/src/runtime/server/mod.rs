//! Puts a running proxy together: limits, sockets, kernel programs, workers, control plane - and takes it apart again.
//! Everything that can be refused is refused before the first worker starts.

mod dead_ends;
mod kernel_services;
mod listeners;
mod reload;
mod sources;
mod takeover;
mod workers;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::sync::mpsc;

use super::access_log::{AccessLog, LogError, LogTarget, RingSink};
use super::admin::ebpf_status;
use super::budget::Budget;
use super::checks::Checks;
use super::clock;
use super::dataplane::{
    Dataplane, DataplaneError, DataplaneOptions, EbpfMode, MOUNT_POINT, TooMany, XdpMode,
    XdpOptions, possible_cpus,
};
use super::pulse::Pulse;
use super::reload::Reloads;
use super::ring::{RingError, heap, limits};
use super::takeover::{Door, Predecessor};
use super::tide::Tide;
use super::words;
use crate::balance::shared::Sizes;
use crate::balance::{Balancer, Books, Endpoint, EndpointRows, TablesFull};
use crate::exchange::{Proxy, Settings};
use crate::front::Front;
use crate::metrics::{Observed, Serving, WorkerCounters};
use crate::relay::{self, Relay};
use crate::seam::Peer;
use crate::snapshot::{Lineage, Plan};
use kernel_services::KernelServices;
use listeners::{Addresses, ByWorker};
pub use takeover::Admin;
use takeover::{Visits, open_door};
use workers::{Equipment, Workers, allowed_cpus};

/// Fewer clients than this are hardly worth a proxy.
const FEW_CLIENTS: usize = 256;
/// About what a proxy on one interface has open, where it cannot be counted.
const OPEN_AT_START: u64 = 48;
/// Descriptors each worker opens when it starts: its ring, and what wakes it.
const DESCRIPTORS_OF_WORKER: u64 = 2;
/// How long exchanges in flight may go on after the first signal to stop.
pub const DEFAULT_DRAIN: Duration = Duration::from_secs(10);
/// Rows of the endpoint tables, where not more are needed.
pub const DEFAULT_CAPACITY: usize = 4096;
/// Upstream connections that can be measured at one time, at most: each takes 16 bytes of mapped memory, used or not.
const MAX_FLOWS: u64 = 32 * 1024;
/// Elements of the connection table, two a connection and about 170 bytes each, all made at load; and where no service is
/// configured at the start.
const CONNECTIONS: u32 = 128 * 1024;
const FEW_CONNECTIONS: u32 = 4 * 1024;
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What to serve, and with what.
pub struct ServerOptions {
    pub plan: Plan,
    pub interfaces: Vec<String>,
    /// One per CPU this process may use if not given.
    pub workers: Option<NonZeroUsize>,
    pub ebpf: EbpfMode,
    /// Whether kernel programs serve what of TCP and UDP they can.
    pub is_l4_in_kernel: bool,
    /// When and how XDP is attached, and where; none given: where clients come in.
    pub xdp: (XdpMode, Vec<String>),
    pub instance: String,
    pub settings: Settings,
    /// How long a connection of an L4 service may be silent.
    pub l4_idle: Duration,
    /// Where a line for each exchange goes, if one is wanted.
    pub access_log: Option<LogTarget>,
    /// Endpoints there may be at one time, those included that just left.
    pub max_endpoints: Option<NonZeroUsize>,
    /// How long a drain waits for exchanges in flight.
    pub drain: Duration,
    /// The process whose place is taken.
    pub predecessor: Option<Predecessor>,
}

#[derive(Debug, Error)]
pub enum ServerError {
    #[error("cannot listen on {address}: {}", describe_bind(.source))]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
    #[error(
        "cannot listen on {listener}: prefixes and ranges of ports take a kernel program, and {reason}"
    )]
    Virtual { listener: String, reason: String },
    #[error("cannot listen: {0}")]
    TooManyVirtual(TooMany),
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
    #[error(transparent)]
    TablesFull(#[from] TablesFull),
    #[error(transparent)]
    AccessLog(#[from] LogError),
    #[error("worker {worker}: {source}")]
    Ring { worker: usize, source: RingError },
    #[error("worker {worker} cannot go on: {source}")]
    Worker { worker: usize, source: io::Error },
    #[error("worker {worker} has panicked, see above: this is a fault of Weir")]
    Panic { worker: usize },
    #[error("{what}: {}", words::of(.source))]
    System {
        what: &'static str,
        source: io::Error,
    },
}

fn describe_bind(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => "the address is in use by another process".to_owned(),
        io::ErrorKind::AddrNotAvailable => "no interface of this host has this address".to_owned(),
        io::ErrorKind::PermissionDenied => {
            "not permitted: ports below 1024 need root or CAP_NET_BIND_SERVICE".to_owned()
        }
        _ => words::of(error),
    }
}

/// A proxy that is ready to start.
pub struct Server {
    /// Before anything the process whose place we take could miss us by.
    at_end: AtEnd,
    options: ServerOptions,
    workers: usize,
    budget: Budget,
    addresses: Addresses,
    /// Bound, and not handed to workers yet.
    listeners: Vec<ByWorker>,
    dataplane: Arc<Dataplane>,
    kernel_services: KernelServices,
    lineage: Lineage,
    serving: Arc<Serving>,
    counters: Vec<Arc<WorkerCounters>>,
    access_log: Option<AccessLog>,
    /// One for each worker, where there is a log.
    log_sinks: Vec<RingSink>,
    /// A reload has left memory behind that nobody uses.
    is_littered: bool,
    /// Endpoints came or went since the dataplane looked for ways to them.
    routes_are_stale: bool,
    /// Where a process that is to take our place knocks.
    door: Option<Door>,
    /// Whose place we take; it serves until we do.
    predecessor: Option<Predecessor>,
}

impl Server {
    /// Claims everything the proxy needs.
    pub fn prepare(mut options: ServerOptions) -> Result<Self, ServerError> {
        let descriptors = limits::raise_descriptors().map_err(|source| ServerError::System {
            what: "the limit of open descriptors",
            source,
        })?;
        let workers = options
            .workers
            .map_or(allowed_cpus().len().max(1), NonZeroUsize::get);
        let plan = std::mem::take(&mut options.plan);
        let mut predecessor = options.predecessor.take();
        let mut addresses = Addresses::new(workers);
        if let Some(predecessor) = &mut predecessor {
            addresses.inherit(predecessor.take_listeners());
            addresses.check_free(&plan)?;
        }
        let door = predecessor.as_mut().and_then(Predecessor::take_door);
        let door = open_door(&options.instance, door);
        let endpoints = plan.targets().count();
        let lock = predecessor.as_mut().and_then(Predecessor::take_lock);
        let may_change = |pinned| match &predecessor {
            Some(predecessor) => predecessor.ask_for_the_place(pinned),
            None => Ok(()),
        };
        let dataplane_options = DataplaneOptions {
            mode: options.ebpf,
            interfaces: options.interfaces.clone(),
            destinations: plan.targets().map(|target| target.address).collect(),
            sizes: Sizes {
                capacity: capacity(options.max_endpoints, endpoints),
                workers,
                cpus: possible_cpus(),
                // Two of five descriptors are for endpoints.
                flows: (descriptors / 2).min(MAX_FLOWS) as usize,
            },
            instance: options.instance.clone(),
            xdp: XdpOptions {
                mode: options.xdp.0,
                interfaces: options.xdp.1.clone(),
                addresses: plan.client_addresses().collect(),
                deny: plan.deny.clone(),
                is_serving: options.is_l4_in_kernel && !plan.l4_services.is_empty(),
                connections: connections(&plan),
            },
            bpffs: Some(MOUNT_POINT.into()),
            lock,
        };
        let counters: Vec<Arc<WorkerCounters>> = (0..workers).map(|_| Arc::default()).collect();
        let log = options.access_log.take();
        let log = log.map(|target| AccessLog::start(target, &counters));
        let (access_log, log_sinks) = log.transpose()?.unzip();
        let dataplane = Arc::new(Dataplane::open_once(dataplane_options, may_change)?);
        let at_end = AtEnd {
            dataplane: dataplane.clone(),
            is_another_to_go_on: predecessor.is_some(),
        };
        let lineage = Lineage::begin(plan, EndpointRows::new(dataplane.tables()))?;
        let listeners = addresses.bind(&dataplane, lineage.current(), None)?;
        for endpoint in lineage.arrived() {
            dataplane.identify(peer(endpoint));
        }
        let mut kernel_services = KernelServices::default();
        if options.is_l4_in_kernel {
            // Before anybody is told that we are ready: the first datagram finds its service.
            kernel_services.tick(&dataplane, lineage.current(), clock::now());
        }
        Ok(Self {
            at_end,
            workers,
            budget: budget(descriptors, workers),
            access_log,
            log_sinks: log_sinks.unwrap_or_default(),
            addresses,
            listeners,
            dataplane,
            kernel_services,
            serving: Arc::new(Serving::new(
                lineage.current().clone(),
                clock::seconds_since_1970(),
            )),
            lineage,
            counters,
            is_littered: false,
            routes_are_stale: false,
            door,
            predecessor,
            options,
        })
    }

    /// Everything that can be told about this proxy.
    pub fn observed(&self) -> Observed {
        let dataplane = self.dataplane.clone();
        Observed {
            instance: self.options.instance.clone(),
            started: clock::now(),
            serving: self.serving.clone(),
            tables: self.dataplane.tables(),
            workers: self.counters.clone(),
            access_log: self.access_log.as_ref().map(|log| log.counters.clone()),
            ebpf: Box::new(move || ebpf_status(&dataplane)),
        }
    }

    /// Serves until `stop` says so, another process takes over or a worker fails, then drains. A second `stop` ends the
    /// drain.
    pub async fn run(
        mut self,
        admin: Admin,
        reloads: Reloads,
        mut stop: mpsc::Receiver<()>,
    ) -> Result<(), ServerError> {
        let readiness = admin.readiness.clone();
        let mut workers = self.start_workers()?;
        if self.predecessor.is_some() && !workers.count(Books::Shared).await {
            return workers.next_ending().await;
        }
        self.tell_predecessor();
        self.at_end.is_another_to_go_on = false;
        self.kernel_services.publish_again();
        let mut checks = Checks::new(self.dataplane.tables());
        checks.follow(self.lineage.current());
        readiness.set(true);
        let dataplane = self.dataplane.clone();
        tokio::spawn(async move { dataplane.stay_attached().await });
        // What was read and compiled for the start is not needed any more.
        heap::give_back();
        let mut tide = Tide::default();
        let (applier, mut loaded) = mpsc::channel(1);
        tokio::spawn(reloads.run(applier, self.serving.clone()));
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        let mut kernel_tick = tokio::time::interval(kernel_services::TICK);
        let mut visits = Visits::at(self.door.take());
        let mut heir = None;
        loop {
            tokio::select! {
                _ = heartbeat.tick() => {
                    self.on_heartbeat(&mut tide);
                    self.let_go(&workers);
                    self.follow_routes();
                }
                _ = kernel_tick.tick(), if self.options.is_l4_in_kernel => {
                    self.kernel_services.tick(&self.dataplane, self.lineage.current(), clock::now());
                }
                Some(loaded) = loaded.recv() => self.reload(loaded, &workers, &mut checks),
                Some(visit) = visits.next() => {
                    heir = self.receive(visit, &visits, &admin, &workers, &mut checks, &mut stop).await;
                    if heir.is_some() {
                        break;
                    }
                }
                _ = stop.recv() => break,
                ending = workers.next_ending() => return ending,
            }
        }
        readiness.set(false);
        tracing::info!(
            "draining: no new connections, {:?} for what is in flight",
            self.options.drain
        );
        match heir {
            Some(taken) => {
                // Who asks for figures asks the process that serves.
                drop(admin);
                workers.leave(self.addresses.leave(&taken));
            }
            None => {
                let listeners = self.lineage.current().sockets();
                let all: Vec<_> = listeners.map(|(id, _)| id).collect();
                workers.unlisten(self.addresses.turn_away(&all));
                self.addresses.publish(&self.dataplane);
                if let Err(error) = self.dataplane.serve_no_more() {
                    tracing::warn!(%error, "the kernel goes on to open connections of L4 services");
                }
            }
        }
        drop(visits);
        workers.drain();
        tokio::select! {
            () = workers.join() => {}
            () = tokio::time::sleep(self.options.drain) => tracing::warn!("not drained in time: closing what is left"),
            _ = stop.recv() => tracing::warn!("stopped again: closing what is left"),
        }
        if let Some(log) = self.access_log {
            log.finish();
        }
        Ok(())
    }

    fn on_heartbeat(&mut self, tide: &mut Tide) {
        let now = clock::now();
        self.dataplane.heartbeat(now);
        if let Err(error) = self.dataplane.sweep(now, self.options.l4_idle) {
            tracing::debug!(%error, "connections of L4 services cannot be looked through");
        }
        let connections = self.counters.iter().map(|it| it.ring_connections.value());
        // What was read for a reload, and the snapshot before it.
        let is_littered = std::mem::take(&mut self.is_littered);
        if tide.has_ebbed(connections.sum(), now) || is_littered {
            heap::give_back();
        }
    }

    fn start_workers(&mut self) -> Result<Workers, ServerError> {
        let cpus = allowed_cpus();
        let mut workers = Workers::none();
        let mut sinks = std::mem::take(&mut self.log_sinks).into_iter();
        for (worker, counters) in self.counters.iter().enumerate() {
            let tables = self.dataplane.tables();
            let settings = Settings {
                max_downstreams: self.budget.downstreams,
                max_shed: self.budget.shed,
                max_upstreams: self.budget.upstreams,
                // What is asked in the last moment is to be answered in time, too.
                grace: self.options.settings.grace.min(self.options.drain / 2),
                unix_at_zero: clock::unix_at_zero(),
                ..self.options.settings
            };
            let mut proxy = Proxy::new(
                self.lineage.current().clone(),
                settings,
                Balancer::new(tables.clone(), worker, rand::random()),
                tables.samples.clone(),
                counters.clone(),
            );
            if let Some(sink) = sinks.next() {
                proxy.log_to(Box::new(sink));
            }
            let relay = Relay::new(
                self.lineage.current().clone(),
                relay::Settings {
                    connect: settings.connect,
                    idle: self.options.l4_idle,
                    grace: settings.grace,
                    ..relay::Settings::default()
                },
                Balancer::new(tables, worker, rand::random()),
                counters.clone(),
            );
            workers.start(Equipment {
                core: Front::new(proxy, relay),
                flows: self.dataplane.flows(),
                counters: counters.clone(),
                pulse: Pulse::new(
                    self.dataplane.tables(),
                    worker,
                    self.dataplane.steering().is_ok(),
                ),
                // Fewer workers than CPUs share the host with others: two proxies must not end up on the same one.
                cpu: (self.workers == cpus.len()).then(|| cpus[worker]),
            })?;
        }
        workers.listen(std::mem::take(&mut self.listeners));
        self.addresses.publish(&self.dataplane);
        Ok(workers)
    }
}

/// Whoever ends in order takes the programs along. A process that is killed leaves them attached.
struct AtEnd {
    dataplane: Arc<Dataplane>,
    /// The process whose place we take still serves: it finds the programs attached, and puts its own there.
    is_another_to_go_on: bool,
}

impl Drop for AtEnd {
    fn drop(&mut self) {
        match self.is_another_to_go_on {
            true => self.dataplane.leave(),
            false => self.dataplane.detach(),
        }
    }
}

fn peer(endpoint: &Endpoint) -> Peer {
    Peer {
        address: endpoint.address,
        endpoint: endpoint.row.index,
        generation: endpoint.row.generation,
    }
}

/// Ends of packets the kernel can know for L4 services: of tables nobody needs, a small one.
fn connections(plan: &Plan) -> u32 {
    match plan.l4_services.is_empty() {
        true => FEW_CONNECTIONS,
        false => CONNECTIONS,
    }
}

/// Rows of the endpoint tables: what was asked for, else room for twice the endpoints there are.
fn capacity(asked_for: Option<NonZeroUsize>, endpoints: usize) -> usize {
    asked_for.map_or(DEFAULT_CAPACITY.max(2 * endpoints), NonZeroUsize::get)
}

/// Connections each worker may have. Asked once everything else is open.
fn budget(limit: u64, workers: usize) -> Budget {
    let open = limits::open_descriptors().unwrap_or_else(|error| {
        tracing::debug!(%error, "open descriptors cannot be counted");
        OPEN_AT_START
    });
    let in_use = open + DESCRIPTORS_OF_WORKER * workers as u64;
    let budget = Budget::of(limit, in_use, workers);
    let clients = budget.downstreams * workers;
    tracing::debug!(?budget, limit, in_use, "budget of descriptors");
    if clients < FEW_CLIENTS {
        tracing::warn!(
            "the limit of {limit} open descriptors is enough for {clients} clients at a time: more are answered 503; raise it (ulimit -n)"
        );
    }
    budget
}

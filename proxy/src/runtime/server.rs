//! Puts a running proxy together: limits, sockets, kernel programs, workers, control plane - and takes it apart again.
//! Everything that can be refused is refused before the first worker starts.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use thiserror::Error;
use tokio::sync::mpsc;

use super::access_log::{AccessLog, LogError, LogTarget, RingSink};
use super::admin::{Readiness, ebpf_status};
use super::budget::Budget;
use super::checks::Checks;
use super::clock;
use super::dataplane::{
    Dataplane, DataplaneError, DataplaneOptions, EbpfMode, Flows, MOUNT_POINT, possible_cpus,
};
use super::mailbox::{Order, WorkerHandle, mailbox};
use super::ring::{Gauges, Listener, RingError, heap, limits};
use super::tide::Tide;
use super::words;
use super::worker::{MeasureFlows, Observe, Worker};
use crate::balance::shared::Sizes;
use crate::balance::{Balancer, EndpointRows, TablesFull};
use crate::exchange::{Proxy, Settings};
use crate::metrics::{Observed, WorkerCounters};
use crate::moment::Moment;
use crate::seam::{FlowSlot, Peer};
use crate::snapshot::{ListenerId, Plan, Snapshot};

/// Fewer clients than this are hardly worth a proxy.
const FEW_CLIENTS: usize = 256;
/// About what a proxy on one interface has open, where it cannot be counted.
const OPEN_AT_START: u64 = 48;
/// Descriptors each worker opens when it starts: its ring, and what wakes it.
const DESCRIPTORS_OF_WORKER: u64 = 2;
/// Rows of the endpoint tables, at least: room for endpoints that come later.
const MIN_CAPACITY: usize = 256;
/// Upstream connections that can be measured at one time, at most.
const MAX_FLOWS: u64 = 64 * 1024;
const HEARTBEAT: Duration = Duration::from_secs(1);

/// What to serve, and with what.
pub struct ServerOptions {
    pub plan: Plan,
    pub interfaces: Vec<String>,
    /// One per CPU this process may use if not given.
    pub workers: Option<NonZeroUsize>,
    pub ebpf: EbpfMode,
    pub instance: String,
    pub settings: Settings,
    /// Where a line for each exchange goes, if one is wanted.
    pub access_log: Option<LogTarget>,
    /// How long a drain waits for exchanges in flight.
    pub drain: Duration,
}

#[derive(Debug, Error)]
pub enum ServerError {
    #[error("cannot listen on {address}: {}", describe_bind(.source))]
    Listen {
        address: SocketAddr,
        source: io::Error,
    },
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
    options: ServerOptions,
    workers: usize,
    budget: Budget,
    /// By worker, then in the order of the snapshot.
    listeners: Vec<Vec<Listener>>,
    dataplane: Arc<Dataplane>,
    snapshot: Arc<Snapshot>,
    counters: Vec<Arc<WorkerCounters>>,
    access_log: Option<AccessLog>,
    /// One for each worker, where there is a log.
    log_sinks: Vec<RingSink>,
}

impl Server {
    /// Claims everything the proxy needs.
    pub fn prepare(mut options: ServerOptions) -> Result<Self, ServerError> {
        let descriptors = limits::raise_descriptors().map_err(|source| ServerError::System {
            what: "the limit of open descriptors",
            source,
        })?;
        let cpus = allowed_cpus();
        let workers = options.workers.map_or(cpus.len().max(1), NonZeroUsize::get);
        let plan = std::mem::take(&mut options.plan);
        let listeners = bind(&plan, workers)?;

        let sizes = Sizes {
            capacity: plan.targets().count().next_power_of_two().max(MIN_CAPACITY),
            workers,
            cpus: possible_cpus(),
            flows: descriptors.min(MAX_FLOWS) as usize,
        };
        let dataplane = Dataplane::open(DataplaneOptions {
            mode: options.ebpf,
            interfaces: options.interfaces.clone(),
            destinations: plan.targets().map(|target| target.address).collect(),
            sizes,
            instance: options.instance.clone(),
            bpffs: Some(MOUNT_POINT.into()),
        })?;
        let mut rows = EndpointRows::new(dataplane.tables());
        let snapshot = Snapshot::new(1, plan, &mut rows)?;
        for endpoint in snapshot
            .backends()
            .iter()
            .flat_map(|backend| backend.endpoints())
        {
            dataplane.identify(Peer {
                address: endpoint.address,
                endpoint: endpoint.row.index,
                generation: endpoint.row.generation,
            });
        }
        let counters: Vec<Arc<WorkerCounters>> = (0..workers).map(|_| Arc::default()).collect();
        let log = options.access_log.take();
        let log = log.map(|target| AccessLog::start(target, &counters));
        let (access_log, log_sinks) = log.transpose()?.unzip();
        let budget = budget(descriptors, workers);
        Ok(Self {
            workers,
            budget,
            access_log,
            log_sinks: log_sinks.unwrap_or_default(),
            counters,
            listeners,
            dataplane: Arc::new(dataplane),
            snapshot: Arc::new(snapshot),
            options,
        })
    }

    /// Everything that can be told about this proxy.
    pub fn observed(&self) -> Observed {
        let dataplane = self.dataplane.clone();
        Observed {
            instance: self.options.instance.clone(),
            started: clock::now(),
            snapshot: self.snapshot.clone(),
            tables: self.dataplane.tables(),
            workers: self.counters.clone(),
            access_log: self.access_log.as_ref().map(|log| log.counters.clone()),
            ebpf: Box::new(move || ebpf_status(&dataplane)),
        }
    }

    /// Serves until `stop` says so or a worker fails, then drains. A second `stop` ends the drain.
    pub async fn run(
        mut self,
        readiness: Readiness,
        mut stop: mpsc::Receiver<()>,
    ) -> Result<(), ServerError> {
        let _detach = DetachAtEnd(self.dataplane.clone());
        let cpus = allowed_cpus();
        let (ended, mut endings) = mpsc::unbounded_channel();
        let mut running = Vec::new();
        let of_any_worker = self.listeners.first().into_iter().flatten();
        let addresses: Vec<SocketAddr> = of_any_worker.map(Listener::address).collect();
        let mut sinks = std::mem::take(&mut self.log_sinks).into_iter();
        for (worker, listeners) in std::mem::take(&mut self.listeners).into_iter().enumerate() {
            // Fewer workers than CPUs share the host with others: two proxies must not end up on the same one.
            let place = Place {
                worker,
                cpu: (self.workers == cpus.len()).then(|| cpus[worker]),
                log: sinks.next(),
            };
            running.push(self.start_worker(place, listeners, ended.clone())?);
        }
        drop(ended);
        for address in addresses {
            tracing::info!("listening on {address}");
        }
        let mut checks = Checks::new(self.dataplane.tables());
        checks.follow(&self.snapshot);
        readiness.set(true);
        let dataplane = self.dataplane.clone();
        tokio::spawn(async move { dataplane.stay_attached().await });
        // What was read and compiled for the start is not needed any more.
        heap::give_back();
        let mut tide = Tide::default();
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        loop {
            tokio::select! {
                _ = heartbeat.tick() => self.on_heartbeat(&mut tide),
                _ = stop.recv() => break,
                ending = endings.recv() => return ending.unwrap_or(Ok(())),
            }
        }
        readiness.set(false);
        tracing::info!(
            "draining: no new connections, {:?} for what is in flight",
            self.options.drain
        );
        for worker in &running {
            worker.handle.order(Order::Drain);
        }
        let all_ended = async { while endings.recv().await.is_some() {} };
        tokio::select! {
            () = all_ended => {
                for worker in running {
                    let _ = worker.thread.join();
                }
            }
            () = tokio::time::sleep(self.options.drain) => tracing::warn!("not drained in time: closing what is left"),
            _ = stop.recv() => tracing::warn!("stopped again: closing what is left"),
        }
        if let Some(log) = self.access_log {
            log.finish();
        }
        Ok(())
    }

    fn on_heartbeat(&self, tide: &mut Tide) {
        let now = clock::now();
        self.dataplane.heartbeat(now);
        let connections = self.counters.iter().map(|it| it.ring_connections.value());
        if tide.has_ebbed(connections.sum(), now) {
            heap::give_back();
        }
    }

    fn start_worker(
        &self,
        Place { worker, cpu, log }: Place,
        listeners: Vec<Listener>,
        ended: mpsc::UnboundedSender<Result<(), ServerError>>,
    ) -> Result<Running, ServerError> {
        let system = |source| ServerError::System {
            what: "a worker's thread",
            source,
        };
        let (handle, mailbox) = mailbox().map_err(system)?;
        for (id, listener) in (0..).map(ListenerId).zip(listeners) {
            handle.order(Order::Listen(id, listener));
        }
        let balancer = Balancer::new(self.dataplane.tables(), worker, rand::random());
        let settings = Settings {
            max_downstreams: self.budget.downstreams,
            max_shed: self.budget.shed,
            max_upstreams: self.budget.upstreams,
            unix_at_zero: clock::unix_at_zero(),
            ..self.options.settings
        };
        let counters = self.counters[worker].clone();
        let samples = self.dataplane.tables().samples;
        let mut core = Proxy::new(
            self.snapshot.clone(),
            settings,
            balancer,
            samples,
            counters.clone(),
        );
        if let Some(sink) = log {
            core.log_to(Box::new(sink));
        }
        let flows = self.dataplane.flows();
        let main = move || -> Result<(), ServerError> {
            if let Some(cpu) = cpu {
                pin(worker, cpu);
            }
            let counters = Counted(counters);
            Worker::new(core, flows, counters, mailbox)
                .map_err(|source| ServerError::Ring { worker, source })?
                .run()
                .map_err(|source| ServerError::Worker { worker, source })
        };
        let thread = thread::Builder::new()
            .name(format!("weir-worker-{worker}"))
            .spawn(move || {
                // Nobody listens any more once the server has given up.
                let _ = ended.send(main());
            })
            .map_err(system)?;
        Ok(Running { handle, thread })
    }
}

/// What is a worker's own.
struct Place {
    worker: usize,
    /// The one it is pinned to.
    cpu: Option<usize>,
    log: Option<RingSink>,
}

/// Whoever ends in order takes the programs along. A process that is killed leaves them attached.
struct DetachAtEnd(Arc<Dataplane>);

impl Drop for DetachAtEnd {
    fn drop(&mut self) {
        self.0.detach();
    }
}

struct Running {
    handle: WorkerHandle,
    thread: JoinHandle<()>,
}

/// Publishes what a worker holds.
struct Counted(Arc<WorkerCounters>);

impl Observe for Counted {
    fn on_turn(&mut self, gauges: Gauges, _now: Moment) {
        self.0.ring_connections.set(gauges.connections as u64);
        self.0.ring_buffers.set(gauges.buffers_held as u64);
        self.0.buffers_exhausted.raise_to(gauges.buffers_exhausted);
    }

    fn on_accept_failed(&mut self) {
        self.0.accept_failed.increment();
    }
}

impl MeasureFlows for Flows {
    fn register(&mut self, local: SocketAddr, peer: Peer) -> Option<FlowSlot> {
        Flows::register(self, local, peer)
    }

    fn release(&mut self, slot: FlowSlot) {
        Flows::release(self, slot);
    }
}

/// A proxy that was killed leaves its sockets to the kernel, which closes them with its ring a few moments later: whoever
/// is started in its place waits for that.
fn wait_until_free(address: SocketAddr) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(50);
    const TRIES: usize = 30;
    for _ in 0..TRIES {
        match Listener::check_free(address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => thread::sleep(PAUSE),
            other => return other,
        }
    }
    Listener::check_free(address)
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

fn bind(plan: &Plan, workers: usize) -> Result<Vec<Vec<Listener>>, ServerError> {
    let mut by_worker: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
    for address in plan.listeners.iter().map(|listener| listener.address) {
        let failed = |source| ServerError::Listen { address, source };
        wait_until_free(address).map_err(failed)?;
        // With port 0 the first socket finds a port, and the others must join it there.
        let mut actual = address;
        for listeners in &mut by_worker {
            let listener = Listener::bind(actual).map_err(failed)?;
            actual = listener.address();
            listeners.push(listener);
        }
    }
    Ok(by_worker)
}

fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

fn pin(worker: usize, cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    if let Err(error) = sched_setaffinity(None, &set) {
        tracing::warn!(worker, cpu, %error, "the worker is not pinned to its CPU");
    }
}

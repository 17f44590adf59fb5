//! The kernel's side of the proxy: loads the measuring programs, shares their tables, attaches them to interfaces, and
//! registers upstream connections with them. Without BPF the same tables lie in plain memory, everything else of Weir
//! works as before, and the reason is said once.

mod attach;
mod flows;
mod interfaces;
mod kernel;
mod keys;
mod link_news;
mod mapping;
mod pins;
mod programs;
mod route;
mod syscall;
mod tcx;
mod unavailable;
mod watched;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;
use weir_common::{EndpointIdValue, Reason};

use crate::balance::shared::{SharedTables, Sizes};
use crate::moment::Moment;
use crate::seam::Peer;
use attach::Attachment;
use kernel::Kernel;
use link_news::LinkNews;
use pins::Pins;
use watched::{Wanted, Watched};

pub use attach::Hook;
pub use flows::{Flows, Unmeasured};
pub use interfaces::Interface;
pub use kernel::Direction;
pub use mapping::MappingError;
pub use pins::{DetachError, LockError, Removed, bpffs::MOUNT_POINT, detach, instances};
pub use unavailable::Unavailable;
pub use watched::{InterfaceStatus, NotAttached};

/// How long changes of interfaces and routes are let settle: they come in bursts, and looking costs a question for each
/// endpoint.
const SETTLING: Duration = Duration::from_millis(100);

/// Whether to use BPF.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EbpfMode {
    /// With BPF where it can be had, otherwise without and with a warning.
    #[default]
    Auto,
    /// With BPF, or not at all.
    Required,
    /// Without.
    Off,
}

/// What to measure, and where.
pub struct DataplaneOptions {
    pub mode: EbpfMode,
    /// Where to attach; one that does not exist is waited for. None given: the interfaces that routes lead to the
    /// endpoints by.
    pub interfaces: Vec<String>,
    /// Where the endpoints are; what is there is told later, by [`Dataplane::identify`].
    pub destinations: Vec<SocketAddr>,
    pub sizes: Sizes,
    /// Tells several proxies of a host apart.
    pub instance: String,
    /// The BPF file system: where tables and links are pinned, so that they outlive this process. None: they end with it.
    pub bpffs: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    #[error(
        "another Weir runs as instance {instance}: {source}. Stop it first, or give this one a name with --instance"
    )]
    InstanceInUse { instance: String, source: LockError },
    #[error("no interface named {name}; there are: {}", .existing.join(", "))]
    UnknownInterface { name: String, existing: Vec<String> },
    #[error("BPF is required, but {0}")]
    Unavailable(Unavailable),
    #[error("BPF is required, but attaching to {interface} failed: {reason}")]
    NotAttached {
        interface: String,
        reason: NotAttached,
    },
    #[error("BPF is required, but there is nothing to attach to: no endpoint can be reached")]
    NoInterface,
}

/// Why there is no kernel behind the tables.
#[derive(Debug, thiserror::Error)]
pub enum WithoutKernel {
    #[error("switched off")]
    SwitchedOff,
    #[error("{0}")]
    Unavailable(Unavailable),
}

/// The shared tables and, with BPF, the programs that fill them. Dropping it detaches the programs; the tables last as
/// long as somebody holds them.
pub struct Dataplane {
    tables: SharedTables,
    /// Before the kernel, which holds the lock on what is pinned: links must be gone when the next owner comes.
    watched: Mutex<Watched>,
    kernel: Result<Kernel, WithoutKernel>,
    workers: usize,
    /// Shares of the flow slots handed out.
    shares: AtomicUsize,
    unmeasured: Arc<Unmeasured>,
}

impl Dataplane {
    /// Loads, maps and attaches what `options` ask for.
    ///
    /// # Errors
    /// With [`EbpfMode::Required`] whatever keeps the kernel from measuring, an interface that does not exist included.
    pub fn open(options: DataplaneOptions) -> Result<Self, DataplaneError> {
        let is_required = options.mode == EbpfMode::Required;
        if is_required {
            refuse_unknown(&options.interfaces)?;
        }
        let kernel = load_kernel(&options)?;
        let wanted = match options.interfaces.is_empty() {
            true => Wanted::Towards(options.destinations.clone()),
            false => Wanted::Named(distinct(options.interfaces)),
        };
        let dataplane = Self {
            tables: match &kernel {
                Ok(kernel) => kernel.tables.clone(),
                Err(_) => SharedTables::anonymous(options.sizes),
            },
            kernel,
            workers: options.sizes.workers,
            watched: Mutex::new(Watched::new(wanted)),
            shares: AtomicUsize::new(0),
            unmeasured: Arc::default(),
        };
        if dataplane.has_kernel() {
            dataplane.attach_what_is_there();
            dataplane.remove_links_of_the_past();
            dataplane.say_what_is_missing(&options.destinations);
            if is_required {
                dataplane.refuse_unattached(&options.destinations)?;
            }
        }
        Ok(dataplane)
    }

    pub fn tables(&self) -> SharedTables {
        self.tables.clone()
    }

    /// Whether the tables lie in the kernel.
    pub fn has_kernel(&self) -> bool {
        self.kernel.is_ok()
    }

    /// Why the tables do not lie in the kernel; None when they do.
    pub fn without_kernel(&self) -> Option<&WithoutKernel> {
        self.kernel.as_ref().err()
    }

    /// Where tables and links are pinned; None if they end with this process.
    pub fn pins(&self) -> Option<PathBuf> {
        let programs = self.kernel.as_ref().ok()?.programs();
        programs.pins.as_ref().map(|pins| pins.folder().to_owned())
    }

    /// The next worker's share of the flow slots. Once every worker has had one, shares are empty: connections
    /// registered there go unmeasured and are counted.
    pub fn flows(&self) -> Flows {
        let (workers, flows) = (self.workers, self.tables.sizes.flows);
        let share = flows / workers.max(1);
        let number = self.shares.fetch_add(1, Relaxed);
        let start = number.saturating_mul(share).min(flows);
        let end = if number < workers {
            start + share
        } else {
            start
        };
        let table = self.kernel.as_ref().ok().map(|kernel| kernel.flows.clone());
        let range = start as u32..end as u32;
        Flows::new(
            table,
            self.tables.samples.clone(),
            range,
            self.unmeasured.clone(),
        )
    }

    /// Lets the kernel recognise connections to this endpoint, whoever makes them, and time their handshakes. Says
    /// whether there was room; without BPF there is nothing to do.
    pub fn identify(&self, endpoint: Peer) -> bool {
        let Ok(kernel) = &self.kernel else {
            return true;
        };
        let value = EndpointIdValue {
            endpoint: endpoint.endpoint,
            padding: 0,
            generation: endpoint.generation,
        };
        let id = keys::endpoint_id(endpoint.address);
        kernel.identities.insert(&id, &value).is_ok()
    }

    /// The opposite of [`identify`](Self::identify).
    pub fn forget(&self, address: SocketAddr) {
        if let Ok(kernel) = &self.kernel {
            // One that is not there is forgotten already.
            let _ = kernel.identities.remove(&keys::endpoint_id(address));
        }
    }

    /// The interfaces asked for or found, and how the programs hang on them now. Empty without BPF.
    pub fn status(&self) -> Vec<InterfaceStatus> {
        match self.kernel {
            Ok(_) => self.watched().status(),
            Err(_) => Vec::new(),
        }
    }

    /// Where no interfaces were given, measures on those that lead to these addresses, and no longer looks for ways to
    /// the addresses given before.
    pub fn follow_destinations(&self, destinations: &[SocketAddr]) {
        if let Ok(kernel) = &self.kernel {
            self.watched().follow(destinations, &mut kernel.programs());
            self.say_what_is_missing(destinations);
        }
    }

    /// Attaches again to interfaces that return, and to those that routes begin to lead to the endpoints by. Never
    /// returns.
    pub async fn stay_attached(&self) {
        if !self.has_kernel() {
            return std::future::pending().await;
        }
        if let Err(error) = self.mend_on_news().await {
            tracing::warn!(%error, "the kernel does not tell of its interfaces: one that is made anew goes unmeasured");
        }
        std::future::pending().await
    }

    /// Takes the programs off every interface, for good.
    pub fn detach(&self) {
        self.watched().detach();
    }

    /// What the programs did with the packets they saw. Empty without BPF.
    pub fn reasons(&self) -> Vec<(Reason, u64)> {
        self.kernel
            .as_ref()
            .map_or_else(|_| Vec::new(), Kernel::reasons)
    }

    /// Connections the kernel does not measure.
    pub fn unmeasured(&self) -> &Unmeasured {
        &self.unmeasured
    }

    /// Tells the kernel and other processes that this one is alive, and passes on what the programs logged. To be
    /// called about once a second.
    pub fn heartbeat(&self, now: Moment) {
        self.tables.meta[0]
            .heartbeat_ns
            .store(now.as_nanos(), Relaxed);
        if let Ok(kernel) = &self.kernel {
            kernel.flush_log();
        }
    }

    /// Attaches to one more interface, by this hook and no other.
    ///
    /// # Errors
    /// `Unsupported` without BPF, and what the kernel says.
    pub fn attach_by(&self, interface: &Interface, hook: Hook) -> io::Result<()> {
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        let attachment = Attachment::make_by(&mut kernel.programs(), interface, hook)
            .map_err(io::Error::other)?;
        self.watched().add(attachment);
        Ok(())
    }

    /// Runs a program on a packet as an interface would show it, `repeat` times, and returns the time one run took.
    ///
    /// # Errors
    /// `Unsupported` without BPF, and what the kernel says.
    pub fn run_on(&self, direction: Direction, packet: &[u8], repeat: u32) -> io::Result<Duration> {
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        kernel
            .programs()
            .run_on(direction, packet, repeat)
            .map_err(io::Error::other)
    }

    /// Instructions the verifier walked before it accepted a program: it gives up at a million.
    ///
    /// # Errors
    /// `Unsupported` without BPF or where the kernel does not tell, and what the kernel says.
    pub fn verified_instructions(&self, direction: Direction) -> io::Result<u32> {
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        let count = kernel.programs().verified_instructions(direction);
        count
            .map_err(io::Error::other)?
            .ok_or(io::ErrorKind::Unsupported.into())
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attach_what_is_there(&self) {
        if let Ok(kernel) = &self.kernel {
            self.watched().attach_what_is_there(&mut kernel.programs());
        }
    }

    /// Links an earlier process left on interfaces that are none of ours.
    fn remove_links_of_the_past(&self) {
        let Ok(kernel) = &self.kernel else { return };
        let kept = self.watched().indexes();
        if let Some(pins) = &kernel.programs().pins
            && let Err(error) = pins.remove_other_links(&kept)
        {
            tracing::warn!(%error, "cannot remove links an earlier process left");
        }
    }

    async fn mend_on_news(&self) -> io::Result<()> {
        let news = LinkNews::subscribe()?;
        // What changed between the start and the subscription.
        self.attach_what_is_there();
        loop {
            news.changed().await?;
            self.attach_what_is_there();
            tokio::time::sleep(SETTLING).await;
        }
    }

    fn say_what_is_missing(&self, destinations: &[SocketAddr]) {
        let status = self.status();
        let is_missing = |status: &&InterfaceStatus| status.attached == Err(NotAttached::Missing);
        for missing in status.iter().filter(is_missing) {
            tracing::warn!(
                interface = missing.name,
                existing = existing_names().join(" "),
                "there is no such interface yet: measuring on it begins when there is"
            );
        }
        if self.watched().is_by_route() {
            let (_, unreachable) = interfaces::towards(destinations);
            for (endpoint, error) in unreachable {
                tracing::warn!(%endpoint, %error, "no route to the endpoint: its interface is unknown");
            }
        } else {
            for interface in leading_nowhere(&status, destinations) {
                tracing::warn!(
                    interface,
                    "no endpoint is reached by this interface: nothing is measured on it"
                );
            }
        }
    }

    fn refuse_unattached(&self, destinations: &[SocketAddr]) -> Result<(), DataplaneError> {
        let status = self.status();
        if status.is_empty() && !destinations.is_empty() {
            return Err(DataplaneError::NoInterface);
        }
        for InterfaceStatus { name, attached, .. } in status {
            attached.map_err(|reason| DataplaneError::NotAttached {
                interface: name,
                reason,
            })?;
        }
        Ok(())
    }
}

/// The interfaces among these that exist and that no way to any of the addresses takes.
fn leading_nowhere<'a>(
    status: &'a [InterfaceStatus],
    destinations: &[SocketAddr],
) -> impl Iterator<Item = &'a str> {
    let (leading, _) = interfaces::towards(destinations);
    status
        .iter()
        .filter(|status| status.attached != Err(NotAttached::Missing))
        .map(|status| status.name.as_str())
        .filter(move |name| !leading.iter().any(|interface| interface.name == *name))
}

/// CPUs this machine may ever have: rows the per-CPU tables need. Those online now, where nothing says more.
pub fn possible_cpus() -> usize {
    let online = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    aya::util::nr_cpus().unwrap_or_else(|_| online())
}

/// The pins of the instance. Not to have any is no error, and said once it matters.
fn claim_pins(options: &DataplaneOptions) -> Result<Result<Pins, LockError>, DataplaneError> {
    let Some(bpffs) = &options.bpffs else {
        return Ok(Err(io::Error::from(io::ErrorKind::Unsupported).into()));
    };
    match Pins::claim(bpffs, &options.instance) {
        Err(source @ LockError::Held(_)) => Err(DataplaneError::InstanceInUse {
            instance: options.instance.clone(),
            source,
        }),
        claimed => Ok(claimed),
    }
}

fn load_kernel(
    options: &DataplaneOptions,
) -> Result<Result<Kernel, WithoutKernel>, DataplaneError> {
    if options.mode == EbpfMode::Off {
        tracing::info!(
            "kernel programs are switched off: latency is measured by the workers' clocks"
        );
        return Ok(Err(WithoutKernel::SwitchedOff));
    }
    let (pins, unpinned) = match claim_pins(options)? {
        Ok(pins) => (Some(pins), None),
        Err(cause) => (None, Some(cause)),
    };
    match Kernel::load(options.sizes, pins) {
        Ok(kernel) => {
            if let (Some(cause), Some(_)) = (unpinned, &options.bpffs) {
                kernel::unpinned(&cause);
            }
            Ok(Ok(kernel))
        }
        Err(cause) if options.mode == EbpfMode::Required => Err(DataplaneError::Unavailable(cause)),
        Err(cause) => {
            tracing::warn!(
                instance = options.instance,
                "no BPF: {cause}. Latency is measured by the workers' clocks, which include the proxy's own delay, \
                 and handshakes, resets and retransmits are not counted"
            );
            Ok(Err(WithoutKernel::Unavailable(cause)))
        }
    }
}

fn refuse_unknown(names: &[String]) -> Result<(), DataplaneError> {
    let is_unknown = |name: &&String| Interface::named(name).is_none();
    match names.iter().find(is_unknown) {
        None => Ok(()),
        Some(name) => Err(DataplaneError::UnknownInterface {
            name: name.clone(),
            existing: existing_names(),
        }),
    }
}

fn existing_names() -> Vec<String> {
    let interfaces = Interface::all().unwrap_or_default().into_iter();
    interfaces.map(|interface| interface.name).collect()
}

fn distinct(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes {
        capacity: 4,
        workers: 2,
        cpus: 2,
        flows: 8,
    };

    fn options(mode: EbpfMode) -> DataplaneOptions {
        DataplaneOptions {
            mode,
            interfaces: Vec::new(),
            destinations: Vec::new(),
            sizes: SIZES,
            instance: "test".to_owned(),
            bpffs: None,
        }
    }

    #[test]
    fn without_bpf_the_tables_lie_in_plain_memory_and_say_whose_they_are() {
        let dataplane = Dataplane::open(options(EbpfMode::Off)).expect("nothing can fail");
        assert!(!dataplane.has_kernel());
        assert!(matches!(
            dataplane.without_kernel(),
            Some(WithoutKernel::SwitchedOff)
        ));
        assert!(dataplane.status().is_empty());
        let meta = dataplane.tables().meta[0].read();
        assert_eq!(meta.magic, weir_common::MAGIC);
        dataplane.heartbeat(Moment::from_nanos(7));
        assert_eq!(dataplane.tables().meta[0].read().heartbeat_ns, 7);
    }

    #[test]
    fn an_unknown_interface_that_is_required_is_named_beside_those_that_exist() {
        let error = Dataplane::open(DataplaneOptions {
            interfaces: vec!["lo".to_owned(), "no-such-interface".to_owned()],
            ..options(EbpfMode::Required)
        });
        let text = error.err().expect("it does not exist").to_string();
        assert!(text.contains("no-such-interface"), "{text}");
        assert!(text.contains("lo"), "{text}");
    }
}

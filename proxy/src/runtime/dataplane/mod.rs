//! The kernel's side of the proxy: loads the measuring programs, shares their tables, attaches them to interfaces, and
//! registers upstream connections with them. Without BPF the same tables lie in plain memory, everything else of Weir
//! works as before, and the reason is said once.

mod attach;
mod flows;
mod interfaces;
mod kernel;
mod keys;
mod mapping;
mod route;
mod syscall;
mod unavailable;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::ValueEnum;
use weir_common::{EndpointIdValue, Reason};

use crate::balance::shared::{SharedTables, Sizes};
use crate::moment::Moment;
use crate::seam::Peer;
use kernel::Kernel;

pub use attach::{Hook, InterfaceStatus};
pub use flows::{Flows, Unmeasured};
pub use interfaces::Interface;
pub use kernel::Direction;
pub use mapping::MappingError;
pub use unavailable::Unavailable;

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
    /// Where to attach. None given: the interfaces that routes lead to the endpoints by.
    pub interfaces: Vec<String>,
    /// Where the endpoints are; what is there is told later, by [`Dataplane::identify`].
    pub destinations: Vec<SocketAddr>,
    pub sizes: Sizes,
    /// Tells several proxies of a host apart.
    pub instance: String,
}

#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    #[error("no interface named {name}; there are: {}", .existing.join(", "))]
    UnknownInterface { name: String, existing: Vec<String> },
    #[error("BPF is required, but {0}")]
    Unavailable(Unavailable),
    #[error("BPF is required, but attaching to {interface} failed: {reason}")]
    NotAttached { interface: String, reason: String },
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
    kernel: Result<Kernel, WithoutKernel>,
    interfaces: Vec<InterfaceStatus>,
    /// Shares of the flow slots handed out.
    shares: AtomicUsize,
    unmeasured: Arc<Unmeasured>,
}

impl Dataplane {
    /// Loads, maps and attaches what `options` ask for.
    ///
    /// # Errors
    /// An interface that does not exist, in every mode; with [`EbpfMode::Required`] whatever keeps the kernel from
    /// measuring.
    pub fn open(options: DataplaneOptions) -> Result<Self, DataplaneError> {
        let named = named_interfaces(&options.interfaces)?;
        let kernel = load_kernel(&options)?;
        let mut dataplane = Self {
            tables: match &kernel {
                Ok(kernel) => kernel.tables.clone(),
                Err(_) => SharedTables::anonymous(options.sizes),
            },
            kernel,
            interfaces: Vec::new(),
            shares: AtomicUsize::new(0),
            unmeasured: Arc::default(),
        };
        if dataplane.has_kernel() {
            let interfaces = match named.is_empty() {
                true => routed_interfaces(&options.destinations),
                false => named,
            };
            if interfaces.is_empty()
                && !options.destinations.is_empty()
                && options.mode == EbpfMode::Required
            {
                return Err(DataplaneError::NoInterface);
            }
            dataplane.attach(&interfaces, options.mode)?;
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

    /// The next worker's share of the flow slots. Once every worker has had one, shares are empty: connections
    /// registered there go unmeasured and are counted.
    pub fn flows(&self) -> Flows {
        let Sizes { workers, flows, .. } = self.tables.sizes;
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

    /// The interfaces asked for or found, and how the programs hang on them. Empty without BPF.
    pub fn status(&self) -> &[InterfaceStatus] {
        &self.interfaces
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
    pub fn attach_by(&mut self, interface: &Interface, hook: Hook) -> io::Result<()> {
        let kernel = self.kernel.as_mut();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        let attached = kernel
            .attach_by(interface, hook)
            .map_err(io::Error::other)?;
        self.interfaces.push(InterfaceStatus {
            interface: interface.clone(),
            attached: Ok(attached),
        });
        Ok(())
    }

    /// Runs a program on a packet as an interface would show it, `repeat` times, and returns the time one run took.
    ///
    /// # Errors
    /// `Unsupported` without BPF, and what the kernel says.
    pub fn run_on(
        &mut self,
        direction: Direction,
        packet: &[u8],
        repeat: u32,
    ) -> io::Result<Duration> {
        let kernel = self.kernel.as_mut();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        kernel
            .run_on(direction, packet, repeat)
            .map_err(io::Error::other)
    }

    /// Instructions the verifier walked before it accepted a program: it gives up at a million.
    ///
    /// # Errors
    /// `Unsupported` without BPF or where the kernel does not tell, and what the kernel says.
    pub fn verified_instructions(&mut self, direction: Direction) -> io::Result<u32> {
        let kernel = self.kernel.as_mut();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        let count = kernel.verified_instructions(direction);
        count
            .map_err(io::Error::other)?
            .ok_or(io::ErrorKind::Unsupported.into())
    }

    fn attach(&mut self, interfaces: &[Interface], mode: EbpfMode) -> Result<(), DataplaneError> {
        let Ok(kernel) = &mut self.kernel else {
            return Ok(());
        };
        for interface in interfaces {
            let status = kernel.attach(interface);
            let name = &interface.name;
            match &status.attached {
                Ok(Hook::Tcx) => tracing::info!(interface = name, "measuring on the wire"),
                Ok(Hook::Clsact) => tracing::info!(
                    interface = name,
                    "measuring on the wire, by clsact filters: this kernel has no tcx"
                ),
                Err(reason) if mode == EbpfMode::Required => {
                    return Err(DataplaneError::NotAttached {
                        interface: name.clone(),
                        reason: reason.clone(),
                    });
                }
                Err(reason) => tracing::warn!(
                    interface = name,
                    reason,
                    "cannot attach: endpoints behind this interface are measured by the workers' clocks"
                ),
            }
            self.interfaces.push(status);
        }
        Ok(())
    }
}

/// CPUs this machine may ever have: rows the per-CPU tables need. Those online now, where nothing says more.
pub fn possible_cpus() -> usize {
    let online = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    aya::util::nr_cpus().unwrap_or_else(|_| online())
}

fn load_kernel(
    options: &DataplaneOptions,
) -> Result<Result<Kernel, WithoutKernel>, DataplaneError> {
    if options.mode == EbpfMode::Off {
        return Ok(Err(WithoutKernel::SwitchedOff));
    }
    match Kernel::load(options.sizes) {
        Ok(kernel) => Ok(Ok(kernel)),
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

fn named_interfaces(names: &[String]) -> Result<Vec<Interface>, DataplaneError> {
    let find = |name: &String| {
        Interface::named(name).ok_or_else(|| DataplaneError::UnknownInterface {
            name: name.clone(),
            existing: Interface::all()
                .unwrap_or_default()
                .into_iter()
                .map(|interface| interface.name)
                .collect(),
        })
    };
    let mut interfaces: Vec<Interface> = names.iter().map(find).collect::<Result<_, _>>()?;
    interfaces.sort_by_key(|interface| interface.index);
    interfaces.dedup();
    Ok(interfaces)
}

fn routed_interfaces(destinations: &[SocketAddr]) -> Vec<Interface> {
    let (interfaces, unreachable) = interfaces::towards(destinations);
    for (endpoint, error) in unreachable {
        tracing::warn!(%endpoint, %error, "no route to the endpoint: its interface is unknown");
    }
    let names: Vec<&str> = interfaces.iter().map(|found| &*found.name).collect();
    tracing::info!(
        interfaces = names.join(" "),
        "no interface given: these lead to the endpoints"
    );
    interfaces
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
    fn an_unknown_interface_is_named_beside_those_that_exist() {
        let error = Dataplane::open(DataplaneOptions {
            interfaces: vec!["lo".to_owned(), "no-such-interface".to_owned()],
            ..options(EbpfMode::Off)
        });
        let text = error.err().expect("it does not exist").to_string();
        assert!(text.contains("no-such-interface"), "{text}");
        assert!(text.contains("lo"), "{text}");
    }
}

//! Opening the dataplane: what is asked for, what stands in the way, and what is done about it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use clap::ValueEnum;

use super::Dataplane;
use super::interfaces::{Interface, existing_names};
use super::kernel::{self, Kernel, Proven};
use super::pins::{LockError, Pins};
use super::unavailable::Unavailable;
use super::watched::{InterfaceStatus, NotAttached, Wanted, Watched};
use super::xdp::{XdpOptions, XdpWatched};
use crate::balance::shared::{SharedTables, Sizes};
use crate::runtime::takeover::{Pinned, TakeoverError};
use crate::snapshot::DenyList;

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
    pub xdp: XdpOptions,
    /// The BPF file system: where tables and links are pinned, so that they outlive this process. None: they end with it.
    pub bpffs: Option<PathBuf>,
    /// On what is pinned, handed over by the process that has the instance.
    pub lock: Option<OwnedFd>,
}

#[derive(Debug, thiserror::Error)]
pub enum DataplaneError {
    #[error(
        "another Weir runs as instance {instance}: {source}. Stop it first, take over from it with --takeover, or give this one a name with --instance"
    )]
    InstanceInUse { instance: String, source: LockError },
    #[error(transparent)]
    Predecessor(#[from] TakeoverError),
    #[error("no interface named {name}; there are: {}", .existing.join(", "))]
    UnknownInterface { name: String, existing: Vec<String> },
    #[error("BPF is required, but {0}")]
    Unavailable(Unavailable),
    #[error("BPF is required, but attaching to {interface} failed: {reason}")]
    NotAttached {
        interface: String,
        reason: NotAttached,
    },
    #[error("BPF is required, but attaching XDP to {interface} failed: {reason}")]
    XdpNotAttached { interface: String, reason: String },
    #[error("BPF is required, but the kernel does not take the deny list: {0}")]
    NotDenied(io::Error),
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

/// What is done first.
struct First {
    is_required: bool,
    is_serving: bool,
    deny: Arc<DenyList>,
    destinations: Vec<SocketAddr>,
}

impl Dataplane {
    /// Loads, maps and attaches what `options` ask for.
    ///
    /// # Errors
    /// With [`EbpfMode::Required`] whatever keeps the kernel from measuring, an interface that does not exist included.
    pub fn open(options: DataplaneOptions) -> Result<Self, DataplaneError> {
        Self::open_once(options, |_| Ok(()))
    }

    /// The same; what is pinned or attached is changed only after `may_change`, which is called once all programs have
    /// been accepted and have run, with what will become of what is pinned.
    pub fn open_once(
        mut options: DataplaneOptions,
        may_change: impl FnOnce(Pinned) -> Result<(), TakeoverError>,
    ) -> Result<Self, DataplaneError> {
        let is_required = options.mode == EbpfMode::Required;
        if is_required {
            refuse_unknown(&options.interfaces)?;
        }
        let is_handed_over = options.lock.is_some();
        let proven = load_kernel(&mut options)?;
        let goes_on = proven.as_ref().is_ok_and(Proven::has_pins);
        may_change(if goes_on { Pinned::Taken } else { Pinned::Left })?;
        let kernel = proven.map(Proven::keep);
        let first = First {
            is_required,
            is_serving: options.xdp.is_serving,
            deny: options.xdp.deny.clone(),
            destinations: options.destinations.clone(),
        };
        let wanted = match options.interfaces.is_empty() {
            true => Wanted::Towards(options.destinations),
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
            xdp: Mutex::new(XdpWatched::new(options.xdp)),
            shares: AtomicUsize::new(0),
            unmeasured: Arc::default(),
        };
        let begun = dataplane.begin(&first);
        if begun.is_err() && is_handed_over {
            // Whoever handed it over goes on, and puts its own programs in the place of these.
            dataplane.leave();
        }
        begun.map(|()| dataplane)
    }

    /// Goes on where an earlier process was, and attaches.
    fn begin(&self, first: &First) -> Result<(), DataplaneError> {
        if let Ok(kernel) = &self.kernel
            && let Some(pins) = &kernel.programs().pins
        {
            self.xdp().go_on_serving(pins);
        }
        if let Err(error) = self.adopt_services(first.is_serving) {
            tracing::warn!(%error, "the L4 services of an earlier process cannot be taken over");
        }
        // Before anything is attached: the program of an earlier process denies until this one's takes its place.
        match self.deny(&first.deny) {
            Err(error) if first.is_required => return Err(DataplaneError::NotDenied(error)),
            Err(error) => {
                tracing::error!(%error, "the kernel does not take the deny list: nothing is denied")
            }
            Ok(()) => {}
        }
        if self.has_kernel() {
            self.attach_what_is_there();
            self.remove_links_of_the_past();
            self.say_what_is_missing(&first.destinations);
            if first.is_required {
                self.refuse_unattached(&first.destinations)?;
            }
        }
        Ok(())
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
        for status in self.xdp_status() {
            let interface = status.name;
            let not_attached = |reason| DataplaneError::XdpNotAttached { interface, reason };
            status.attached.map_err(not_attached)?;
        }
        Ok(())
    }
}

/// The pins of the instance. Not to have any is no error, and said once it matters.
fn claim_pins(options: &mut DataplaneOptions) -> Result<Result<Pins, LockError>, DataplaneError> {
    let Some(bpffs) = &options.bpffs else {
        return Ok(Err(io::Error::from(io::ErrorKind::Unsupported).into()));
    };
    match Pins::claim(bpffs, &options.instance, options.lock.take()) {
        Err(source @ LockError::Held(_)) => Err(DataplaneError::InstanceInUse {
            instance: options.instance.clone(),
            source,
        }),
        claimed => Ok(claimed),
    }
}

fn load_kernel(
    options: &mut DataplaneOptions,
) -> Result<Result<Proven, WithoutKernel>, DataplaneError> {
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
    match Kernel::load(options.sizes, options.xdp.connections, pins) {
        Ok(kernel) => {
            if let (Some(cause), Some(_)) = (unpinned, &options.bpffs) {
                kernel::unpinned(&cause);
            }
            Ok(Ok(kernel))
        }
        Err(cause) if options.mode == EbpfMode::Required => Err(DataplaneError::Unavailable(cause)),
        // Nothing else the kernel does depends on these programs.
        Err(cause) if cause.is_of_measuring() => {
            say_unmeasured(options, "nothing is measured on the wire", &cause);
            let (sizes, connections) = (options.sizes, options.xdp.connections);
            Ok(Kernel::load_unmeasured(sizes, connections, cause)
                .map(Proven::unpinned)
                .map_err(WithoutKernel::Unavailable))
        }
        Err(cause) => {
            say_unmeasured(options, "no BPF", &cause);
            Ok(Err(WithoutKernel::Unavailable(cause)))
        }
    }
}

fn say_unmeasured(options: &DataplaneOptions, what: &str, cause: &Unavailable) {
    tracing::warn!(
        instance = options.instance,
        "{what}: {cause}. Latency is measured by the workers' clocks, which include the proxy's own delay, and \
         handshakes, resets and retransmits are not counted"
    );
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

fn distinct(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::moment::Moment;

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
            xdp: XdpOptions::default(),
            bpffs: None,
            lock: None,
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

//! The kernel's side of the proxy: loads the measuring programs, shares their tables, attaches them to interfaces, and
//! registers upstream connections with them. Without BPF the same tables lie in plain memory, everything else of Weir
//! works as before, and the reason is said once.

mod attach;
mod flows;
mod following;
mod interfaces;
mod kernel;
mod keys;
mod link;
mod link_news;
mod mapping;
mod nat_ports;
mod neighbours;
mod netlink;
mod opening;
mod pins;
mod programs;
mod room;
mod route;
mod steering;
mod syscall;
mod tcx;
mod unavailable;
mod vip_lookup;
mod vips;
mod watched;
mod xdp;

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard};

use weir_common::{EndpointIdValue, Reason};

use crate::balance::shared::SharedTables;
use crate::moment::Moment;
use crate::seam::Peer;
use kernel::Kernel;
use pins::Pins;
use programs::Programs;
use watched::Watched;
use xdp::XdpWatched;

pub use attach::Hook;
pub use flows::{Flows, Unmeasured};
pub use interfaces::Interface;
pub use kernel::Direction;
pub use mapping::MappingError;
pub use neighbours::resolve;
pub use opening::{DataplaneError, DataplaneOptions, EbpfMode, WithoutKernel};
pub use pins::{DetachError, LockError, Removed, bpffs::MOUNT_POINT, detach, instances};
pub use programs::{FrameRun, Segments};
pub use steering::{NotSteered, Steered};
pub use unavailable::Unavailable;
pub use vip_lookup::Lookup;
pub use vips::{Covered, TooMany, table as vip_table};
pub use watched::{InterfaceStatus, NotAttached};
pub use xdp::{KernelEndpoint, KernelService, XdpHook, XdpMode, XdpOptions, XdpStatus, dead_end};

/// The shared tables and, with BPF, the programs that fill them. Dropping it detaches the programs; the tables last as
/// long as somebody holds them.
pub struct Dataplane {
    tables: SharedTables,
    /// Before the kernel, which holds the lock on what is pinned: links must be gone when the next owner comes.
    watched: Mutex<Watched>,
    xdp: Mutex<XdpWatched>,
    kernel: Result<Kernel, WithoutKernel>,
    workers: usize,
    /// Shares of the flow slots handed out.
    shares: AtomicUsize,
    unmeasured: Arc<Unmeasured>,
}

impl Dataplane {
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

    /// Whether connections to endpoints are measured on the wire; else why not, in words.
    pub fn measuring(&self) -> Result<(), String> {
        let kernel = self.kernel.as_ref().map_err(ToString::to_string)?;
        let measuring = kernel.measuring.as_ref();
        measuring.copied().map_err(ToString::to_string)
    }

    /// Where tables and links are pinned; None if they end with this process.
    pub fn pins(&self) -> Option<PathBuf> {
        let programs = self.kernel.as_ref().ok()?.programs();
        programs.pins.as_ref().map(|pins| pins.folder().to_owned())
    }

    /// A descriptor another process of this instance takes what is pinned over by.
    pub fn lock(&self) -> Option<OwnedFd> {
        let programs = self.kernel.as_ref().ok()?.programs();
        let lock = programs.pins.as_ref()?.lock();
        lock.try_clone_to_owned().ok()
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
        let kernel = self.kernel.as_ref().ok();
        let kernel = kernel.filter(|kernel| kernel.measuring.is_ok());
        let table = kernel.map(|kernel| kernel.flows.clone());
        let range = start as u32..end as u32;
        Flows::new(
            table,
            self.tables.samples.clone(),
            range,
            self.unmeasured.clone(),
        )
    }

    /// Lets the kernel recognise connections to this endpoint, whoever makes them, and time their handshakes. That there
    /// is no room is counted; without BPF there is nothing to do.
    pub fn identify(&self, endpoint: Peer) {
        let Ok(kernel) = &self.kernel else {
            return;
        };
        let value = EndpointIdValue {
            endpoint: endpoint.endpoint,
            padding: 0,
            generation: endpoint.generation,
        };
        let id = keys::endpoint_id(endpoint.address);
        if kernel.identities.insert(&id, &value).is_err() {
            self.unmeasured.unidentified.fetch_add(1, Relaxed);
        }
    }

    /// The opposite of [`identify`](Self::identify).
    pub fn forget(&self, address: SocketAddr) {
        if let Ok(kernel) = &self.kernel {
            // One that is not there is forgotten already.
            let _ = kernel.identities.remove(&keys::endpoint_id(address));
        }
    }

    /// Has the kernel give connections to the less loaded of two workers. The sockets listen on one address, one for
    /// each worker, in their order. None without the program.
    pub fn steer(&self, sockets: &[BorrowedFd<'_>]) -> Option<Result<Steered, NotSteered>> {
        let kernel = self.kernel.as_ref().ok()?;
        let steering = kernel.steering.as_ref().ok()?;
        let programs = kernel.programs();
        let program = programs.pick_worker().map_err(NotSteered::from);
        Some(program.and_then(|program| steering.steer(program, false, sockets)))
    }

    /// Whether listeners can be on prefixes and port ranges; else why not, in words.
    pub fn vips(&self) -> Result<(), String> {
        self.steering()?;
        let kernel = self.kernel.as_ref().map_err(ToString::to_string)?;
        let vips = kernel.vips.as_ref();
        vips.map(|_| ()).map_err(ToString::to_string)
    }

    /// Has the kernel look for virtual addresses, and steers connections to these sockets as [`steer`](Self::steer) does.
    ///
    /// # Errors
    /// In words; that of [`vips`](Self::vips) included.
    pub fn steer_vip(&self, sockets: &[BorrowedFd<'_>]) -> Result<Steered, String> {
        let kernel = self.kernel.as_ref().map_err(ToString::to_string)?;
        let steering = kernel.steering.as_ref().map_err(ToString::to_string)?;
        let vips = kernel.vips.as_ref().map_err(ToString::to_string)?;
        let programs = kernel.programs();
        let pin = programs.pins.as_ref().map(Pins::vip_lookup);
        // One that is there goes on with what it has until there is something to be found by ours.
        if pin.as_ref().is_none_or(|pin| !pin.exists()) {
            let attached = vips.attach(pin);
            attached.map_err(|error| format!("the kernel refuses the program: {error}"))?;
        }
        let program = programs.pick_worker().map_err(|error| error.to_string())?;
        let steered = steering.steer(program, true, sockets);
        steered.map_err(|error| error.to_string())
    }

    /// From now on these are the addresses listened on. Without one that is virtual there is nothing to look up.
    pub fn publish_vips(&self, covered: &[Covered]) {
        let Ok(kernel) = &self.kernel else { return };
        let Ok(vips) = &kernel.vips else { return };
        let rows = vip_table(covered).map_err(|error| error.to_string());
        let published = rows.and_then(|rows| vips.publish(rows).map_err(|error| error.to_string()));
        if let Err(error) = published {
            tracing::warn!("virtual addresses stay as they were: {error}");
        }
        let programs = kernel.programs();
        let pins = programs.pins.as_ref();
        if covered.iter().any(|one| one.listener.is_some()) {
            if let Err(error) = vips.attach(pins.map(Pins::vip_lookup)) {
                tracing::warn!("virtual addresses are not served: {error}");
            }
        } else if let Some(pins) = pins {
            // An earlier process may have left its link.
            let _ = pins.remove_vip_lookup();
        }
    }

    /// Runs `vip_lookup` on a packet looking for its socket; says whether it finds one.
    ///
    /// # Errors
    /// `Unsupported` without the program, and what the kernel says.
    pub fn look_up(&self, lookup: &Lookup) -> io::Result<bool> {
        let Ok(Kernel { vips: Ok(vips), .. }) = &self.kernel else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        vips.run_on(lookup)
    }

    /// Whether the kernel gives connections to workers by load; else why not, in words.
    pub fn steering(&self) -> Result<(), String> {
        let kernel = self.kernel.as_ref().map_err(ToString::to_string)?;
        let steering = kernel.steering.as_ref();
        steering.map(|_| ()).map_err(ToString::to_string)
    }

    /// What the programs did with the packets and connections they saw. Empty without BPF.
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

    /// Shows a measuring program a packet as an interface would, `repeat` times, and says what became of it.
    ///
    /// # Errors
    /// `Unsupported` without BPF, and what the kernel says.
    pub fn run_on(
        &self,
        direction: Direction,
        packet: &[u8],
        segments: Segments,
        repeat: u32,
    ) -> io::Result<FrameRun> {
        let mut programs = self.programs()?;
        let run = programs.run_on(direction, packet, segments, repeat);
        run.map_err(io::Error::other)
    }

    /// Shows `xdp_ingress` a frame, `repeat` times, and says what became of it.
    ///
    /// # Errors
    /// `Unsupported` without BPF, and what the kernel says.
    pub fn run_xdp(&self, frame: &[u8], repeat: u32) -> io::Result<FrameRun> {
        self.programs()?.run_xdp(frame, repeat)
    }

    /// A measuring program, for whoever runs it behind another; None is `xdp_ingress`.
    ///
    /// # Errors
    /// `Unsupported` without BPF, and what the kernel says.
    pub fn program(&self, direction: Option<Direction>) -> io::Result<OwnedFd> {
        let mut programs = self.programs()?;
        let program = match direction {
            Some(direction) => programs.of(direction).and_then(|program| program.fd()),
            None => {
                return programs
                    .xdp()
                    .map_err(io::Error::other)?
                    .as_fd()
                    .try_clone_to_owned();
            }
        };
        program
            .map_err(io::Error::other)?
            .as_fd()
            .try_clone_to_owned()
    }

    fn programs(&self) -> io::Result<MutexGuard<'_, Programs>> {
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        Ok(kernel.programs())
    }

    /// Instructions the verifier walked before it accepted a program: it gives up at a million.
    ///
    /// # Errors
    /// `Unsupported` without BPF or where the kernel does not tell, and what the kernel says.
    pub fn verified_instructions(&self, direction: Direction) -> io::Result<u32> {
        let count = self.programs()?.verified_instructions(direction);
        count
            .map_err(io::Error::other)?
            .ok_or(io::ErrorKind::Unsupported.into())
    }
}

/// CPUs this machine may ever have: rows the per-CPU tables need. Those online now, where nothing says more.
pub fn possible_cpus() -> usize {
    let online = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    aya::util::nr_cpus().unwrap_or_else(|_| online())
}

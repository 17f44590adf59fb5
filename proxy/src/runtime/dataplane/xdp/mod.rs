//! The program that sees frames before the host does: what it works by, and which interfaces it hangs on. It costs
//! something on every frame, so it is attached only where there is work for it, or where somebody asks for it.

mod columns;
mod dead_end;
mod deny;
mod hook;
mod link_kind;
mod obstacles;
mod placement;
mod services;
mod sweep;
mod watched;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use clap::ValueEnum;

use super::Dataplane;
use super::kernel::Kernel;
use super::keys;
use super::neighbours::resolve;
use crate::moment::Moment;
use crate::snapshot::{DenyList, Transport};

pub use dead_end::dead_end;
pub use deny::DenyTables;
pub use hook::{XdpHook, is_on};
pub use services::{KernelEndpoint, KernelService, ServiceTables};
pub use sweep::Sweep;
pub use watched::{XdpStatus, XdpWatched};

/// When, and how, `xdp_ingress` is attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum XdpMode {
    /// While there is work for it: by the driver where it can, otherwise by the network stack and with a warning.
    #[default]
    Auto,
    /// Always, and by the driver only.
    Native,
    /// Always, and by the network stack.
    Generic,
    /// Never.
    Off,
}

impl XdpMode {
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Off => "off",
        }
    }
}

/// What `xdp_ingress` is to do, and where.
#[derive(Clone, Debug)]
pub struct XdpOptions {
    pub mode: XdpMode,
    /// Where to attach; one that does not exist is waited for. None given: the interfaces that carry `addresses`.
    pub interfaces: Vec<String>,
    /// What clients connect to.
    pub addresses: Vec<IpAddr>,
    pub deny: Arc<DenyList>,
    /// Whether L4 services are to be served, so that connections of an earlier process go on.
    pub is_serving: bool,
    /// Packets' ends that can be known at one time: two for a connection of an L4 service.
    pub connections: u32,
}

impl Default for XdpOptions {
    fn default() -> Self {
        Self {
            mode: XdpMode::default(),
            interfaces: Vec::new(),
            addresses: Vec::new(),
            deny: Arc::default(),
            is_serving: false,
            connections: 1024,
        }
    }
}

impl Dataplane {
    /// Denies these, and no others any more.
    ///
    /// # Errors
    /// What the kernel says; then nothing has changed.
    pub fn deny(&self, list: &Arc<DenyList>) -> io::Result<()> {
        let mut xdp = self.xdp();
        match &self.kernel {
            Ok(kernel) => {
                kernel.deny.exchange(xdp.deny(), list)?;
                xdp.set_deny(list.clone(), &mut kernel.programs());
            }
            Err(cause) => {
                if !list.is_empty() && xdp.deny() != list {
                    tracing::warn!(
                        prefixes = list.len(),
                        "the deny list is not enforced: no BPF, {cause}"
                    );
                }
                xdp.note_deny(list.clone());
            }
        }
        Ok(())
    }

    /// Goes on with the services another process left until others are told, or forgets them.
    pub(super) fn adopt_services(&self, is_serving: bool) -> io::Result<()> {
        let Ok(kernel) = &self.kernel else {
            return Ok(());
        };
        let tables = kernel.services.lock();
        let mut tables = tables.unwrap_or_else(PoisonError::into_inner);
        tables.adopt()?;
        match is_serving {
            true => Ok(()),
            false => tables.publish(&[]),
        }
    }

    /// Serves these in the kernel, and no others any more. Connections that stand go on.
    ///
    /// # Errors
    /// `Unsupported` without BPF, `StorageFull` if there are more endpoints than rows, and what the kernel says.
    pub fn serve(&self, services: &[KernelService]) -> io::Result<()> {
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        if !services.is_empty() {
            // Before the first one: as long as the tables there may be connections.
            self.tables.meta[0].has_l4.store(1, Relaxed);
        }
        let tables = kernel.services.lock();
        tables
            .unwrap_or_else(PoisonError::into_inner)
            .publish(services)?;
        let vips = services.iter().map(|one| one.address.ip()).collect();
        let endpoints = services.iter().flat_map(|one| &one.endpoints);
        let ways: Vec<SocketAddr> = endpoints.map(|endpoint| endpoint.address).collect();
        self.xdp().serve(vips, ways, &mut kernel.programs());
        Ok(())
    }

    /// Has the kernel ask for the link addresses that packets of L4 services had to go without: those of clients it has not
    /// spoken to for long, mostly. To be called about as often as a client can wait.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn resolve_missing(&self) -> io::Result<()> {
        let Ok(kernel) = &self.kernel else {
            return Ok(());
        };
        for (address, _) in kernel.unresolved.all()? {
            kernel.unresolved.remove(&address)?;
            let address = SocketAddr::new(keys::ip(address), 0);
            if let Err(error) = resolve(address) {
                tracing::debug!(%address, %error, "a link address cannot be asked for");
            }
        }
        Ok(())
    }

    /// Serves nobody new. Connections that stand go on, and with them the programs, until the end of this process and
    /// beyond.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn serve_no_more(&self) -> io::Result<()> {
        let Ok(kernel) = &self.kernel else {
            return Ok(());
        };
        let tables = kernel.services.lock();
        tables.unwrap_or_else(PoisonError::into_inner).publish(&[])
    }

    /// Forgets connections of L4 services without a packet for `idle`, and those that have come to nothing; sets right how
    /// many are counted as open. A part of them at a time: to be called about once a second.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn sweep(&self, now: Moment, idle: Duration) -> io::Result<()> {
        let Ok(kernel) = &self.kernel else {
            return Ok(());
        };
        if self.xdp().is_away() {
            return Ok(());
        }
        let mut sweep = kernel.sweep.lock().unwrap_or_else(PoisonError::into_inner);
        sweep.go_on(&self.tables, now, idle)
    }

    /// Where it has withdrawn for good: what is left attached serves standing connections, and nothing else.
    pub fn let_connections_end(&self) {
        if let Err(error) = self
            .serve_no_more()
            .and_then(|()| self.deny(&Arc::default()))
        {
            tracing::warn!(%error, "the kernel goes on to serve and to deny where connections stand");
        }
    }

    /// Takes `xdp_ingress` off all interfaces, but for those that standing connections of L4 services come in by: what is
    /// pinned goes on with them.
    pub(super) fn end_xdp(&self) {
        let standing = self.standing();
        if standing == 0 {
            return self.xdp().detach();
        }
        tracing::info!(
            "{standing} connections of L4 services go on in the kernel, for the next start or until `weir detach`"
        );
        if let Err(error) = self.deny(&Arc::default()) {
            tracing::warn!(%error, "the kernel denies on");
        }
        self.xdp().retire();
    }

    /// Connections of L4 services that outlive this process.
    pub(super) fn standing(&self) -> u64 {
        let is_pinned = |kernel: &Kernel| kernel.programs().pins.is_some();
        if !self.kernel.as_ref().is_ok_and(is_pinned) || !self.xdp().has_served() {
            return 0;
        }
        let rows = self.tables.score.iter().map(|cells| cells.read());
        rows.map(|row| row.opened.saturating_sub(row.closed)).sum()
    }

    /// From now on these are the addresses clients connect to. Interfaces given by name stay what they are.
    pub fn follow_addresses(&self, addresses: Vec<IpAddr>) {
        if let Ok(kernel) = &self.kernel {
            self.xdp().follow(addresses, &mut kernel.programs());
        }
    }

    /// The interfaces `xdp_ingress` is wanted on, and how it hangs on them. Empty without BPF.
    pub fn xdp_status(&self) -> Vec<XdpStatus> {
        self.xdp().status()
    }

    /// The L4 services the kernel serves.
    pub fn served(&self) -> Vec<(Transport, SocketAddr)> {
        let Ok(kernel) = &self.kernel else {
            return Vec::new();
        };
        let tables = kernel.services.lock();
        tables.unwrap_or_else(PoisonError::into_inner).served()
    }

    pub fn xdp_mode(&self) -> XdpMode {
        self.xdp().mode()
    }

    /// Prefixes the kernel drops packets from; none where it does not.
    pub fn denied_prefixes(&self) -> usize {
        match self.kernel {
            Ok(_) => self.xdp().deny().len(),
            Err(_) => 0,
        }
    }

    pub(super) fn xdp(&self) -> MutexGuard<'_, XdpWatched> {
        self.xdp.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

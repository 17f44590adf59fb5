//! The program that sees frames before the host does: what it works by, and which interfaces it hangs on. It costs
//! something on every frame, so it is attached only where there is work for it, or where somebody asks for it.

mod deny;
mod hook;
mod placement;
mod watched;

use std::io;
use std::net::IpAddr;
use std::sync::{Arc, MutexGuard, PoisonError};

use clap::ValueEnum;

use super::Dataplane;
use crate::snapshot::DenyList;

pub use deny::DenyTables;
pub use hook::{XdpHook, is_on};
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
#[derive(Clone, Debug, Default)]
pub struct XdpOptions {
    pub mode: XdpMode,
    /// Where to attach; one that does not exist is waited for. None given: the interfaces that carry `addresses`.
    pub interfaces: Vec<String>,
    /// What clients connect to.
    pub addresses: Vec<IpAddr>,
    pub deny: Arc<DenyList>,
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

//! Which path serves the L4 services: kernel programs, or the relay in user space.

use clap::ValueEnum;

use crate::snapshot::{L4Service, Transport};

/// What an operator wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum L4Mode {
    /// By kernel programs (XDP) where they can, else by the relay
    #[default]
    Auto,
    /// By kernel programs, or not at all
    Xdp,
    /// By the relay
    Proxy,
}

/// Who serves one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4Path {
    Relay,
    /// Datagrams, where no kernel program does it.
    Nobody,
}

impl L4Path {
    /// As the status names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Nobody => "nobody",
        }
    }
}

/// Who serves this one. This build has no kernel program that does.
pub fn path(service: &L4Service) -> L4Path {
    match service.transport {
        Transport::Tcp => L4Path::Relay,
        Transport::Udp => L4Path::Nobody,
    }
}

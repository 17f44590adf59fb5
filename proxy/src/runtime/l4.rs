//! Which path serves the L4 services: kernel programs, or the relay in user space.

use clap::ValueEnum;

use crate::snapshot::{L4Service, Transport};

/// What an operator wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum L4Mode {
    /// By the relay, for now
    #[default]
    Auto,
    /// By kernel programs (XDP); by the relay what they cannot serve
    Xdp,
    /// By the relay
    Proxy,
}

/// Who serves one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum L4Path {
    Relay,
    /// Datagrams, which the relay does not know.
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

/// Who serves this one where no kernel program does.
pub fn path(service: &L4Service) -> L4Path {
    match service.transport {
        Transport::Tcp => L4Path::Relay,
        Transport::Udp => L4Path::Nobody,
    }
}

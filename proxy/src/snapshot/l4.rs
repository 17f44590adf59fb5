//! Services below HTTP: connections, or datagrams, that go to endpoints as they are. The relay serves those of TCP in
//! user space; kernel programs may serve both kinds.
//!
//! Endpoints are those of [`Backend`](crate::balance::Backend)s like any other: one that serves HTTP as well has one row
//! in the tables, and one record. The affinity of a backend that an L4 service leads to is the client's address, or
//! there is none: checking a configuration refuses any other.

use std::fmt;
use std::net::SocketAddr;

use super::{ListenerId, Snapshot};
use crate::balance::Backend;
use crate::route::Split;

/// What carries the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    Tcp,
    Udp,
}

impl fmt::Display for Transport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        })
    }
}

/// Where clients connect or send, and who serves them. Of a Gateway with several addresses each is a service.
#[derive(Clone, Debug, PartialEq)]
pub struct L4Service {
    pub transport: Transport,
    /// What clients use. The unspecified address stands for all of this host's of its family.
    pub address: SocketAddr,
    /// To places among the backends, drawn once for each connection. Empty: nobody serves it.
    pub split: Split,
    /// How many endpoints more are tried if no connection to the first comes to stand.
    pub more_tries: u8,
    /// Whether connections begin with a PROXY header that says where they come from.
    pub reads_header: bool,
    /// As `namespace/name`; empty if none is attached.
    pub route: String,
}

impl Snapshot {
    /// In the order of their numbers, which they share with the listeners.
    pub fn l4_services(&self) -> impl Iterator<Item = (ListenerId, &L4Service)> {
        self.l4_services.iter().map(|(id, service)| (*id, service))
    }

    pub fn l4_service(&self, id: ListenerId) -> Option<&L4Service> {
        let services = &self.l4_services;
        let place = services.binary_search_by_key(&id, |(id, _)| *id).ok()?;
        Some(&services[place].1)
    }

    /// The backends a service leads to, each with its weight among them.
    pub fn backends_of(&self, service: &L4Service) -> impl Iterator<Item = (&Backend, u64)> {
        let weights = service.split.weights();
        weights.filter_map(|(place, weight)| Some((self.backends.get(place)?, weight)))
    }
}

//! What a pick hands out: the right and the duty to use one endpoint for one attempt.

use std::net::SocketAddr;

use super::endpoint::Endpoint;
use super::outlier::HealthPolicy;
use super::rows::EndpointRow;

/// One attempt on one endpoint. It counts as pending until it is given back with
/// [`Balancer::finish`](super::Balancer::finish), which takes it by value: exactly once.
#[derive(Debug)]
#[must_use = "an attempt counts as pending until its lease is finished"]
pub struct Lease {
    pub(super) row: EndpointRow,
    pub(super) address: SocketAddr,
    pub(super) method: Method,
    /// The policy of the backend the attempt was made for, which may be gone when the attempt ends.
    pub(super) policy: HealthPolicy,
}

impl Lease {
    pub(super) fn new(endpoint: &Endpoint, method: Method, policy: HealthPolicy) -> Self {
        Self {
            row: endpoint.row,
            address: endpoint.address,
            method,
            policy,
        }
    }

    /// Row of the endpoint in the shared tables.
    pub fn index(&self) -> u32 {
        self.row.index
    }

    /// Which endpoint the row belonged to when it was picked.
    pub fn generation(&self) -> u64 {
        self.row.generation
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How the pick was decided.
    pub fn method(&self) -> Method {
        self.method
    }
}

/// How a pick was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Power of two choices among active endpoints.
    P2c,
    /// The highest rendezvous value of the request's affinity key.
    Affinity,
    /// Power of two choices among ejected endpoints, because no active one was left.
    Rejected,
}

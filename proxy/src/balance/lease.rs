//! What a pick hands out: the right and the duty to use one endpoint for one attempt.

use std::net::SocketAddr;

use super::endpoint::{Bucket, Endpoint};
use super::rows::EndpointRow;
use super::terms::TermsId;

/// One attempt on one endpoint. It counts as pending until it is given back with
/// [`Balancer::finish`](super::Balancer::finish), which takes it by value: exactly once.
#[derive(Debug)]
#[must_use = "an attempt counts as pending until its lease is finished"]
pub struct Lease {
    pub(super) row: EndpointRow,
    pub(super) address: SocketAddr,
    pub(super) terms: TermsId,
    pub(super) method: Method,
    bucket: Bucket,
    pub(super) detour: Option<Detour>,
}

impl Lease {
    #[inline]
    pub(super) fn new(endpoint: &Endpoint, terms: TermsId, method: Method) -> Self {
        Self {
            row: endpoint.row,
            address: endpoint.address,
            terms,
            method,
            bucket: endpoint.bucket,
            detour: None,
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

    /// Of the endpoint.
    pub fn bucket(&self) -> Bucket {
        self.bucket
    }

    /// Why a key did not get what it is bound to.
    pub fn detour(&self) -> Option<Detour> {
        self.detour
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

/// How a key that is bound to an endpoint fell short of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detour {
    /// The best endpoint carries more than its bounded load: the best with room was picked, if there is one.
    Overloaded,
    /// Nobody active was left: an ejected endpoint was picked.
    Ejected,
}

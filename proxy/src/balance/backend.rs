//! A named destination made of endpoints, as a snapshot holds it: immutable.

use std::fmt;

use serde::{Deserialize, Serialize};
use weir_rendezvous::{Candidate, EndpointHash};

use super::endpoint::Endpoint;
use super::policy::Policy;

/// Which backend of which snapshot: workers remember per backend what is active in it, and forget when this changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BackendId {
    /// Place among the backends of a snapshot.
    pub place: usize,
    /// Revision of the snapshot.
    pub revision: u64,
}

/// What kind of document a backend came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum BackendKind {
    /// An `AgentgatewayBackend`.
    Backend,
    /// A `Service`, or the flags of a quick start.
    Service,
}

impl fmt::Display for BackendKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Backend => "Backend",
            Self::Service => "Service",
        })
    }
}

/// A named destination and the endpoints it may be served by.
#[derive(Clone, Debug)]
pub struct Backend {
    pub id: BackendId,
    pub kind: BackendKind,
    pub name: String,
    pub namespace: String,
    pub policy: Policy,
    endpoints: Vec<Endpoint>,
    /// Of the endpoints' keys, in the same order.
    hashes: Vec<EndpointHash>,
}

impl Backend {
    /// A backend under the default policy.
    pub fn new(
        id: BackendId,
        kind: BackendKind,
        name: impl Into<String>,
        namespace: impl Into<String>,
        mut endpoints: Vec<Endpoint>,
    ) -> Self {
        endpoints.sort_by_key(|endpoint| endpoint.bucket);
        let hash = |endpoint: &Endpoint| EndpointHash::of(&endpoint.key);
        Self {
            id,
            kind,
            name: name.into(),
            namespace: namespace.into(),
            policy: Policy::default(),
            hashes: endpoints.iter().map(hash).collect(),
            endpoints,
        }
    }

    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// All endpoints, the best bucket first; drained and ejected ones too.
    #[inline]
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Whether any endpoint could serve whose row has not been tried.
    pub fn has_untried(&self, is_tried: impl Fn(u32) -> bool) -> bool {
        let mut endpoints = self.endpoints.iter();
        endpoints.any(|one| !one.weight.is_drained() && !is_tried(one.row.index))
    }

    /// An endpoint as affinity sees it. Only for places of endpoints.
    pub(super) fn candidate(&self, place: usize) -> Candidate {
        Candidate {
            place,
            weight: self.endpoints[place].weight.share(),
            hash: self.hashes[place],
        }
    }

    /// The endpoints' buckets, the best first, each with the place of its first endpoint.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (usize, &[Endpoint])> {
        let mut start = 0;
        self.endpoints
            .chunk_by(|one, next| one.bucket == next.bucket)
            .map(move |bucket| {
                let first = start;
                start += bucket.len();
                (first, bucket)
            })
    }
}

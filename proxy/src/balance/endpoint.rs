//! One thing that can be picked: where it is, how large its share is, and which row of the shared tables is its own.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use super::rows::EndpointRow;

/// Relative share of the picks, 0 to 65535. An endpoint of weight 0 is drained by the operator: it is never drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u16);

impl Weight {
    pub const DRAINED: Self = Self(0);
    pub const ONE: Self = Self(1);

    pub const fn new(share: u16) -> Self {
        Self(share)
    }

    pub const fn share(self) -> u16 {
        self.0
    }

    pub const fn is_drained(self) -> bool {
        self.0 == 0
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

impl fmt::Display for Weight {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

/// Priority of an endpoint, 0 first: a bucket is used only while every earlier one has nothing to offer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(pub u8);

/// One destination that can be dialled and picked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Who it is across updates and restarts: `ip:port` for one named by its address.
    pub key: Arc<str>,
    pub address: SocketAddr,
    pub weight: Weight,
    pub bucket: Bucket,
    /// Where the shared tables keep what is known of it.
    pub row: EndpointRow,
}

//! What both sides share, without `std`: the values in the tables that kernel programs and the proxy map into memory,
//! the keys of the hash tables, and the reasons kernel programs count.
//!
//! Every value is made of plain integers with explicit padding. Its size is asserted at compile time; changing one
//! means a new [`LAYOUT_VERSION`].

#![no_std]

#[cfg(feature = "user")]
extern crate std;

mod deny;
mod flow;
mod l4;
mod reason;
mod rows;
mod steering;
#[cfg(feature = "user")]
mod table;

pub use deny::{DenyKeyV4, DenyKeyV6, MAX_DENIED};
pub use flow::{Address, EndpointId, EndpointIdValue, Flow, FlowKey};
pub use l4::{
    Connection, ConnectionKey, MAX_SCORE_LATENCY, Progress, SEEN_SHIFT, Service, ServiceEndpoint,
    ServiceKey, TCP, UDP,
};
pub use reason::Reason;
pub use rows::{
    EndpointAttempts, EndpointIdentity, EndpointLoad, EndpointOutlook, EndpointReading,
    EndpointScore, EndpointState, EndpointWire, FlowSample, Meta, Worker, WorkerSteered,
};
#[cfg(feature = "user")]
pub use rows::{
    EndpointAttemptsCells, EndpointIdentityCells, EndpointLoadCells, EndpointOutlookCells,
    EndpointReadingCells, EndpointScoreCells, EndpointStateCells, EndpointWireCells,
    FlowSampleCells, MetaCells, WorkerCells, WorkerSteeredCells,
};
pub use steering::{
    LISTENER_GROUPS, ListenerGroup, VIP_PREFIXES, VIP_RANGES, Vip, VipKey, VipRange,
};
#[cfg(feature = "user")]
pub use table::{Cells, Table};

/// First word of `META`: the ASCII bytes `weirmeta`.
pub const MAGIC: u64 = u64::from_be_bytes(*b"weirmeta");

/// Raised whenever the meaning or the place of one field of one table changes.
pub const LAYOUT_VERSION: u64 = 11;

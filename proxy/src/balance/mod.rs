//! Picks an endpoint for every attempt, and learns from how the attempt ended.
//!
//! ```text
//! score = health / (1 + latency * (1 + 0.1 * pending))      higher wins
//!
//! pick ──► Lease (pending +1) ──► one attempt ──► finish(Outcome) (pending -1, health, latency, ejection)
//! ```
//!
//! That is the default mode; `adaptive` has the formula of the other one, [`Scoring`] chooses.
//!
//! What is remembered of an endpoint lies in tables all workers share; each worker has a [`Balancer`] over them. A pick
//! takes no lock, allocates nothing, reads no clock and costs the same for any number of endpoints.

mod active;
mod adaptive;
mod alias;
mod apart;
mod backend;
mod balancer;
mod bounded_load;
mod cell;
mod checked;
mod connections;
mod dated;
mod ejection;
mod ejection_counts;
mod endpoint;
mod ewma;
mod figures;
mod identity;
mod lease;
mod load;
mod locality;
mod outcome;
mod outlier;
mod p2c;
mod policy;
mod rows;
mod score;
pub mod shared;
mod slow_start;
mod standing;
mod state;
mod terms;
mod untried;
mod watch;
mod wire;

pub use apart::Books;
pub use backend::{Backend, BackendId, BackendKind};
pub use balancer::{Balancer, NoEndpoint};
pub use bounded_load::BoundedLoad;
pub use checked::Checked;
pub use connections::{ConnectionNews, reading_of};
pub use ejection::{Ejection, Trigger, Verdict};
pub use ejection_counts::{EjectionCounts, EjectionReason, Ejections};
pub use endpoint::{Bucket, Endpoint, Weight};
pub use figures::Figures;
pub use lease::{Detour, Lease, Method};
pub use load::LeaseCounts;
pub use locality::{Locality, LocalityMode, LocalityPolicy, Scope};
pub use outcome::{LatencySample, LatencySource, LatencySpan, Outcome};
pub use outlier::{Before, Eviction, HealthPolicy, Percent, Suggested};
pub use policy::{Policy, Scoring};
pub use rows::{Departed, EndpointRow, EndpointRows, TablesFull};
pub use score::{Prospect, Reading, Score};
pub use slow_start::{Eased, SlowStart};
pub use standing::{Standing, State, standings};
pub use state::{CheckCounts, CheckResult};
pub use watch::{Draw, How, PickWatch, WatchedPick};
pub use weir_rendezvous::AffinityKey;
pub use wire::{Wire, WireRows};

#[cfg(test)]
mod tests;

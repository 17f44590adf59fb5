//! Harness of demo, measurements and end-to-end scenarios: network namespaces, scripted endpoints, clients, load, and
//! the Weir binary as a process. It knows Weir by its command line and its admin address only, never by its code.
//!
//! Whatever is made here is removed when its value is dropped, when the run panics, and when it is interrupted; what a
//! killed run left behind is removed at the start of the next one.

pub mod client;
pub mod documents;
pub mod echo;
pub mod editing;
pub mod endpoint;
pub mod idle;
pub mod instance;
pub mod kernel_tables;
pub mod leftovers;
pub mod load;
pub mod message;
pub mod namespace;
pub mod origin;
pub mod pattern;
pub mod process;
pub mod refused;
pub mod scenario;
pub mod seccomp;
pub mod skew;
pub mod skip;
pub mod stall;
pub mod stream;
pub mod topology;
pub mod wait;
pub mod weir;

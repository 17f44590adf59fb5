//! The only folder that touches the world: descriptors, the kernel, threads and clocks.

pub mod access_log;
pub mod admin;
pub mod budget;
pub mod checks;
pub mod clock;
pub mod config_files;
pub mod dataplane;
pub mod l4;
pub mod mailbox;
pub mod pulse;
pub mod reload;
pub mod ring;
pub mod server;
pub mod takeover;
mod tide;
pub mod words;
pub mod worker;

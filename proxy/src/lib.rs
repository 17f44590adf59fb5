//! Weir's proxy. Everything outside [`runtime`] is sans-IO: bytes, time and randomness are arguments, effects are
//! returned as actions. `docs/architecture.md` draws the map.

pub mod access_log;
pub mod affinity;
pub mod balance;
pub mod cel;
pub mod check;
pub mod cli;
pub mod condition;
pub mod config;
pub mod conn;
pub mod exchange;
pub mod front;
pub mod http;
pub mod metrics;
pub mod moment;
pub mod proxy_protocol;
pub mod relay;
pub mod route;
pub mod runtime;
pub mod seam;
pub mod snapshot;
pub mod timer;

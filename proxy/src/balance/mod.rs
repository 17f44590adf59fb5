//! Picks an endpoint: score, EWMA, power of two choices, ejection, leases.

pub mod shared;

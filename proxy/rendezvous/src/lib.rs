//! Weighted rendezvous hashing: the same value goes to the same endpoint, on every replica and without a table between
//! them. Whoever joins takes over only what it now wins, whoever leaves gives up only what it had.
//!
//! ```text
//! v = A ^ E;  v = (v ^ v>>30) * bf58476d1ce4e5b9;  v = (v ^ v>>27) * 94d049bb133111eb;  mix = v ^ v>>31
//! u = ((mix >> 11) + 0.5) / 2^53        value = weight / -ln u        the highest value wins
//! ```
//!
//! A hashes the value, E the endpoint's key; the mixer is SplitMix64's (Steele, Lea, Flood 2014). Replicas agree only if
//! they compute the same bits, so this crate depends on nothing that differs between machines, and is small enough for
//! its tests to be run under an emulator of another processor.

mod candidates;
mod hash;
mod logarithm;
mod reach;

pub use candidates::{Candidate, Candidates};
pub use hash::{AffinityKey, EndpointHash};

use hash::Mix;

/// What an endpoint offers for a key: of all endpoints the highest value wins. 0 for one without weight.
pub fn value(key: AffinityKey, endpoint: EndpointHash, weight: u16) -> f64 {
    Mix::of(key, endpoint).value(weight)
}

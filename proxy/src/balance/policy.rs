//! How the endpoints of a backend are chosen and judged: what an operator may set, with the defaults.

use std::fmt;

use super::bounded_load::BoundedLoad;
use super::outlier::{HealthPolicy, Percent};
use super::slow_start::SlowStart;

/// One backend's. The default asks for nothing: two draws, and the default ejection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Policy {
    /// How endpoints are compared.
    pub scoring: Scoring,
    /// When an endpoint is ejected.
    pub health: HealthPolicy,
    /// How many of the endpoints that are not drained may be out of the pool, active checks included, for another one to
    /// be ejected; `None`: all. It binds ejections by traffic, not those by checks.
    pub max_ejected: Option<Percent>,
    /// How long new and returning endpoints are eased in; `None`: they get their share at once.
    pub slow_start: Option<SlowStart>,
    /// How much more than the average a bound endpoint may carry; `None`: any load.
    pub bounded_load: Option<BoundedLoad>,
}

/// How the better of two endpoints is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scoring {
    /// Two draws with replacement; health over latency and pending, learned from outcomes alone, never from time.
    #[default]
    Seed,
    /// Two different endpoints; pending weighs in full, and what was learned ages: an endpoint that is avoided is looked
    /// at again.
    Adaptive,
}

impl fmt::Display for Scoring {
    /// As configuration names it.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Seed => "seed",
            Self::Adaptive => "adaptive",
        })
    }
}

//! What the tables say of one endpoint, gathered for people and scrapers. Sums over workers and CPUs; the fields were
//! read one after the other while traffic went on, so they agree only roughly.

use std::time::Duration;

use weir_common::EndpointWire;

use super::ejection_counts::Ejections;
use super::endpoint::Endpoint;
use super::load::{self, LeaseCounts};
use super::outcome::LatencySource;
use super::shared::SharedTables;
use super::state::{CheckCounts, EndpointState};
use crate::moment::Moment;

/// One endpoint at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    pub health: f64,
    /// EWMA in seconds; `None` before the first success.
    pub latency_seconds: Option<f64>,
    pub latency_source: Option<LatencySource>,
    /// The proxy's own delay: by how much the workers' measurements were longer than the kernel's, on average.
    pub self_delay: Option<Duration>,
    pub leases: LeaseCounts,
    /// How much longer the endpoint stays ejected by its traffic; `None` if it is not.
    pub ejected_for: Option<Duration>,
    /// By its traffic, those seen by earlier processes included.
    pub ejections: u64,
    /// By what they were for, those of this process.
    pub ejections_for: Ejections,
    /// Whether active checks keep it out of the pool.
    pub is_failing_checks: bool,
    pub checks: CheckCounts,
    /// What kernel programs counted; all zero without them.
    pub wire: EndpointWire,
}

impl Figures {
    /// Whether it is out of the pool, for whichever reason.
    pub fn is_ejected(&self) -> bool {
        self.ejected_for.is_some() || self.is_failing_checks
    }

    pub fn read(tables: &SharedTables, endpoint: &Endpoint, now: Moment) -> Self {
        let state = EndpointState::of(tables, endpoint.row);
        let reading = state.reading();
        Self {
            health: reading.health,
            latency_seconds: reading.latency_seconds,
            latency_source: state.latency_source(),
            self_delay: state.mean_self_delay(),
            leases: load::counts(tables, endpoint.row.index),
            ejected_for: state.ejected_until(now).map(|until| until.since(now)),
            ejections: state.ejections_total(),
            ejections_for: tables.ejections.of(endpoint.row.index),
            is_failing_checks: state.is_failing_checks(),
            checks: state.check_counts(),
            wire: tables.wire.total(endpoint.row.index),
        }
    }
}

//! What the tables say of one endpoint, gathered for people and scrapers. Sums over workers and CPUs; the fields were
//! read one after the other while traffic went on, so they agree only roughly.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_common::EndpointWireCells;

use super::endpoint::Endpoint;
pub use super::load::LeaseCounts;
use super::outcome::LatencySource;
use super::shared::SharedTables;
use super::state::EndpointState;
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
    /// How much longer the endpoint stays ejected; `None` if it is active.
    pub ejected_for: Option<Duration>,
    pub ejections: u64,
    pub wire: WireFigures,
}

/// What kernel programs counted of an endpoint; all zero without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WireFigures {
    /// Exchanges whose first request byte left.
    pub started: u64,
    /// Exchanges whose first response byte came.
    pub finished: u64,
    pub first_byte: Timed,
    pub connect: Timed,
    pub opened: u64,
    pub closed: u64,
    pub retransmits: u64,
    pub resets: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
}

/// Lengths of time, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timed {
    pub sum: Duration,
    pub count: u64,
}

impl Timed {
    pub fn mean(&self) -> Option<Duration> {
        let mean = self.sum.as_nanos().checked_div(self.count.into())?;
        u64::try_from(mean).ok().map(Duration::from_nanos)
    }
}

impl Figures {
    pub fn read(tables: &SharedTables, endpoint: &Endpoint, now: Moment) -> Self {
        let state = EndpointState::of(tables, endpoint.row);
        let reading = state.reading();
        Self {
            health: reading.health,
            latency_seconds: reading.latency_seconds,
            latency_source: state.latency_source(),
            self_delay: state.mean_self_delay(),
            leases: super::load::counts(tables, endpoint.row.index),
            ejected_for: state.ejected_until(now).map(|until| until.since(now)),
            ejections: state.ejections_total(),
            wire: WireFigures::read(tables, endpoint.row.index),
        }
    }
}

impl WireFigures {
    fn read(tables: &SharedTables, index: u32) -> Self {
        let sum = |field: fn(&EndpointWireCells) -> &AtomicU64| -> u64 {
            tables
                .wire
                .iter()
                .skip(index as usize)
                .step_by(tables.sizes.capacity)
                .map(|row| field(row).load(Relaxed))
                .sum()
        };
        Self {
            started: sum(|row| &row.started),
            finished: sum(|row| &row.finished),
            first_byte: Timed {
                sum: Duration::from_nanos(sum(|row| &row.first_byte_ns_sum)),
                count: sum(|row| &row.first_byte_count),
            },
            connect: Timed {
                sum: Duration::from_nanos(sum(|row| &row.connect_ns_sum)),
                count: sum(|row| &row.connect_count),
            },
            opened: sum(|row| &row.opened),
            closed: sum(|row| &row.closed),
            retransmits: sum(|row| &row.retransmits),
            resets: sum(|row| &row.resets),
            bytes_out: sum(|row| &row.bytes_out),
            bytes_in: sum(|row| &row.bytes_in),
        }
    }
}

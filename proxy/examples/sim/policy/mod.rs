//! Who decides where a request goes. Weir's own modes run the balancer of the proxy; the others are textbook policies,
//! written here to compare with.

mod peak_ewma;
mod peers;
pub mod weir;

use std::time::Duration;

use ::weir::balance::{HealthPolicy, Lease, Scoring};
use ::weir::moment::Moment;
use clap::ValueEnum;

use self::peak_ewma::PeakEwma;
use self::peers::{LeastRequest, Peers, RoundRobin, TwoChoices};
use self::weir::Weir;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Name {
    /// Weir's default: two draws, health over latency and pending
    Seed,
    /// Weir's adaptive mode: two different endpoints, and what is known of them ages
    Adaptive,
    /// Each endpoint in turn
    RoundRobin,
    /// The endpoint with the fewest requests in flight
    LeastRequest,
    /// Of two endpoints the one with fewer requests in flight
    P2cPending,
    /// Of two endpoints the one with the lower peak-sensitive latency times requests in flight (Finagle, Linkerd)
    PeakEwma,
}

/// Chooses for one proxy.
pub trait Policy {
    /// The first so many endpoints are there from now on.
    fn set_members(&mut self, members: usize);

    fn pick(&mut self, now: Moment) -> Ticket;

    fn finish(&mut self, ticket: Ticket, verdict: Verdict, now: Moment);
}

/// One pick, to be finished once.
pub struct Ticket {
    pub endpoint: usize,
    /// Weir's, with the worker that holds it.
    lease: Option<(usize, Lease)>,
}

/// How a request ended.
#[derive(Clone, Copy, Debug)]
pub struct Verdict {
    pub latency: Duration,
    pub is_success: bool,
}

impl Name {
    pub fn label(self) -> &'static str {
        match self {
            Self::Seed => "seed",
            Self::Adaptive => "adaptive",
            Self::RoundRobin => "round-robin",
            Self::LeastRequest => "least-request",
            Self::P2cPending => "p2c-pending",
            Self::PeakEwma => "peak-ewma",
        }
    }

    /// A fresh policy over `endpoints`, of which the first `members` are there.
    pub fn build(self, pool: Pool) -> Box<dyn Policy> {
        match self {
            Self::Seed => Box::new(Weir::new(pool, Scoring::Seed)),
            Self::Adaptive => Box::new(Weir::new(pool, Scoring::Adaptive)),
            Self::RoundRobin => Box::new(Peers::new(RoundRobin::default(), pool)),
            Self::LeastRequest => Box::new(Peers::new(LeastRequest, pool)),
            Self::P2cPending => Box::new(Peers::new(TwoChoices, pool)),
            Self::PeakEwma => Box::new(Peers::new(PeakEwma::new(pool.endpoints), pool)),
        }
    }
}

/// What a policy is built for.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    pub endpoints: usize,
    pub members: usize,
    pub health: HealthPolicy,
    pub seed: u64,
}

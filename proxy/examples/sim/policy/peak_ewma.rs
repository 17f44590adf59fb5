//! PeakEWMA as Finagle and Linkerd have it: an average of latency that rises at once and falls over ten seconds, times
//! the requests in flight; two choices. It looks at every answer alike, failures too.

use weir::moment::Moment;

use super::Verdict;
use super::peers::{Choose, Draw};

pub struct PeakEwma {
    /// Seconds, and when they were true.
    averages: Vec<(f64, Moment)>,
}

impl PeakEwma {
    /// Time constant of the average, in seconds.
    const DECAY: f64 = 10.0;
    /// Seconds an endpoint that has answered nothing yet is taken to need while it has something to answer.
    const UNMEASURED: f64 = 1.0;

    pub fn new(endpoints: usize) -> Self {
        Self {
            averages: vec![(0.0, Moment::default()); endpoints],
        }
    }

    fn cost(&self, endpoint: usize, pending: &[u64], now: Moment) -> f64 {
        let (average, at) = self.averages[endpoint];
        let pending = pending[endpoint] as f64;
        if average == 0.0 {
            return if pending > 0.0 {
                Self::UNMEASURED + pending
            } else {
                0.0
            };
        }
        average * weight(at, now) * (pending + 1.0)
    }
}

impl Choose for PeakEwma {
    fn choose(&mut self, active: &[usize], pending: &[u64], draw: &mut Draw<'_>) -> usize {
        let (first, second) = draw.two_of(active);
        if self.cost(first, pending, draw.now) < self.cost(second, pending, draw.now) {
            first
        } else {
            second
        }
    }

    fn learn(&mut self, endpoint: usize, verdict: Verdict, now: Moment) {
        let (average, at) = &mut self.averages[endpoint];
        let sample = verdict.latency.as_secs_f64();
        let old = weight(*at, now);
        *average = if sample > *average {
            sample
        } else {
            *average * old + sample * (1.0 - old)
        };
        *at = now;
    }
}

/// What an average is still worth.
fn weight(at: Moment, now: Moment) -> f64 {
    (-now.since(at).as_secs_f64() / PeakEwma::DECAY).exp()
}

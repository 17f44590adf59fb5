//! Traffic shared out between backends by weight.

use std::sync::Arc;

use super::Filters;

/// Backends with what each gets. Empty: requests that come here have nowhere to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Those that get something.
    shares: Vec<Share>,
}

/// What one backend gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// Its place.
    pub backend: usize,
    /// What is done to its part alone, with what the rule does to all. `None`: nothing beyond the rule's.
    pub filters: Option<Arc<Filters>>,
    /// Sum of the weights up to its own.
    up_to: u64,
}

/// A backend and its part in the whole.
#[derive(Clone, Debug)]
pub struct Portion {
    pub backend: usize,
    pub weight: u32,
    pub filters: Option<Arc<Filters>>,
}

impl Split {
    /// Backends by place, each with its weight. Those of weight 0 get nothing.
    pub fn new(weights: impl IntoIterator<Item = (usize, u32)>) -> Self {
        Self::of(weights.into_iter().map(|(backend, weight)| Portion {
            backend,
            weight,
            filters: None,
        }))
    }

    pub fn of(portions: impl IntoIterator<Item = Portion>) -> Self {
        let mut total = 0;
        let with_share = portions.into_iter().filter(|portion| portion.weight > 0);
        let shares = with_share.map(|portion| {
            total += u64::from(portion.weight);
            Share {
                backend: portion.backend,
                filters: portion.filters,
                up_to: total,
            }
        });
        Self {
            shares: shares.collect(),
        }
    }

    pub fn one(backend: usize) -> Self {
        Self::new([(backend, 1)])
    }

    /// Whose a request is; `None` if nobody's. `below` draws a number below its argument, and is not asked where there
    /// is no choice.
    pub fn draw(&self, below: impl FnOnce(u64) -> u64) -> Option<&Share> {
        match &self.shares[..] {
            [] => None,
            [only] => Some(only),
            shares @ [.., last] => {
                let drawn = below(last.up_to);
                let at = shares.partition_point(|share| share.up_to <= drawn);
                shares.get(at)
            }
        }
    }

    /// Those with a share, each with its weight.
    pub fn weights(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut before = 0;
        self.shares.iter().map(move |share| {
            let weight = share.up_to - before;
            before = share.up_to;
            (share.backend, weight)
        })
    }

    /// Of those that have their own.
    pub fn filters(&self) -> impl Iterator<Item = &Arc<Filters>> {
        self.shares
            .iter()
            .filter_map(|share| share.filters.as_ref())
    }

    pub(super) fn backends(&self) -> impl Iterator<Item = usize> {
        self.shares.iter().map(|share| share.backend)
    }
}

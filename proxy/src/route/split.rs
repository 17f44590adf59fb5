//! Traffic shared out between backends by weight.

/// Backends by place, with what each gets. Empty: requests that come here have nowhere to go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Split {
    /// Those with a share, each with the sum of the weights up to it.
    shares: Vec<(usize, u64)>,
}

impl Split {
    /// Backends of weight 0 get nothing.
    pub fn new(weights: impl IntoIterator<Item = (usize, u32)>) -> Self {
        let mut total = 0;
        let with_share = weights.into_iter().filter(|(_, weight)| *weight > 0);
        let shares = with_share.map(|(backend, weight)| {
            total += u64::from(weight);
            (backend, total)
        });
        Self {
            shares: shares.collect(),
        }
    }

    pub fn one(backend: usize) -> Self {
        Self::new([(backend, 1)])
    }

    /// The place of a backend; `None` if there is none. `below` draws a number below its argument, and is not asked where
    /// there is no choice.
    pub fn draw(&self, below: impl FnOnce(u64) -> u64) -> Option<usize> {
        match &self.shares[..] {
            [] => None,
            [(only, _)] => Some(*only),
            shares @ [.., (_, total)] => {
                let drawn = below(*total);
                let at = shares.partition_point(|(_, up_to)| *up_to <= drawn);
                shares.get(at).map(|(backend, _)| *backend)
            }
        }
    }

    /// Those with a share, each with its weight.
    pub fn weights(&self) -> impl Iterator<Item = (usize, u64)> {
        let mut before = 0;
        self.shares.iter().map(move |(backend, up_to)| {
            let weight = up_to - before;
            before = *up_to;
            (*backend, weight)
        })
    }

    pub(super) fn backends(&self) -> impl Iterator<Item = usize> {
        self.shares.iter().map(|(backend, _)| *backend)
    }
}

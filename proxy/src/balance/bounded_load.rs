//! How much more than the average a bound endpoint may carry (Mirrokni, Thorup, Zadimoghaddam 2018).

/// A multiple of the average number of pending exchanges, 1.0 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedLoad(f64);

impl BoundedLoad {
    /// `None` below 1.0: not everybody can stay below the average.
    pub fn new(factor: f64) -> Option<Self> {
        (factor.is_finite() && factor >= 1.0).then_some(Self(factor))
    }

    pub fn factor(self) -> f64 {
        self.0
    }

    /// As many exchanges may be pending on an endpoint for another one to go there.
    pub fn limit(self, pending: impl Iterator<Item = u64>) -> f64 {
        let (sum, count) = pending.fold((0, 0_u64), |(sum, count), one| (sum + one, count + 1));
        self.0 * sum as f64 / count.max(1) as f64
    }
}

//! How long something takes each time: a histogram one worker writes and anybody reads. Its bounds are a factor of four
//! apart, which tells a turn that is long from one that is not, and costs a few comparisons.

use std::time::Duration;

use super::counter::Counter;

/// Upper bounds of the buckets, included. Whatever takes longer is counted behind them.
pub const BOUNDS: [Duration; 8] = [
    Duration::from_micros(64),
    Duration::from_micros(256),
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(16),
    Duration::from_millis(64),
    Duration::from_millis(256),
    Duration::from_secs(1),
];

#[derive(Debug, Default)]
pub struct Durations {
    /// Of each bucket alone, the one without a bound last.
    buckets: [Counter; BOUNDS.len() + 1],
    sum_ns: Counter,
}

impl Durations {
    #[inline]
    pub fn add(&self, length: Duration) {
        let bucket = BOUNDS.iter().position(|bound| length <= *bound);
        self.buckets[bucket.unwrap_or(BOUNDS.len())].increment();
        self.sum_ns
            .add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    }

    /// How often it took no longer than each bound, and how often in all.
    pub fn cumulative(&self) -> [u64; BOUNDS.len() + 1] {
        let mut sum = 0;
        self.buckets.each_ref().map(|bucket| {
            sum += bucket.value();
            sum
        })
    }

    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.value())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_counts_in_every_bucket_it_fits_into() {
        let durations = Durations::default();
        for micros in [0, 64, 65, 900_000, 3_000_000] {
            durations.add(Duration::from_micros(micros));
        }
        assert_eq!(durations.cumulative(), [2, 3, 3, 3, 3, 3, 3, 4, 5]);
        assert_eq!(durations.sum(), Duration::from_micros(3_900_129));
    }
}

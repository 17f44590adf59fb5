//! Durations counted in buckets of equal ratio: any number of them in little memory, quantiles to one percent.

use std::time::Duration;

/// Counts of durations from 1 µs to 1,000 s.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// Grows to the longest duration seen.
    buckets: Vec<u32>,
    count: u64,
}

impl Histogram {
    /// Each bucket is longer than the one before by this.
    const RATIO: f64 = 1.01;
    const BUCKETS: usize = 2083;

    pub fn record(&mut self, length: Duration) {
        let micros = (length.as_secs_f64() * 1e6).max(1.0);
        let bucket = (micros.ln() / Self::RATIO.ln()) as usize;
        let bucket = bucket.min(Self::BUCKETS - 1);
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.count += 1;
    }

    /// The duration that the part `quantile` of all stays below; `None` while there are none.
    pub fn quantile(&self, quantile: f64) -> Option<Duration> {
        let rank = (quantile * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += u64::from(*count);
            seen >= rank
        })?;
        // The middle of the bucket.
        let micros = Self::RATIO.powf(bucket as f64 + 0.5);
        Some(Duration::from_secs_f64(micros / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_to_one_percent() {
        let mut histogram = Histogram::default();
        assert_eq!(histogram.quantile(0.5), None);
        for micros in 1..=100_000 {
            histogram.record(Duration::from_micros(micros));
        }
        for quantile in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let got = histogram.quantile(quantile).expect("many durations");
            let expected = 0.1 * quantile;
            let off = got.as_secs_f64() / expected - 1.0;
            assert!(off.abs() < 0.011, "{quantile}: {got:?}, off by {off}");
        }
    }
}

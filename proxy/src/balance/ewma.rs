//! The moving average behind health and latency. It moves only when an exchange finishes, never with time.

/// Weight of the newest sample.
const ALPHA: f64 = 0.3;

/// The average after `sample`. An average of exactly 0.0 holds nothing worth keeping: the sample is taken verbatim, and
/// that is also how an average begins.
pub fn next(average: f64, sample: f64) -> f64 {
    if average == 0.0 {
        return sample;
    }
    ALPHA * sample + (1.0 - ALPHA) * average
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_course(start: f64, samples: &[f64], expected: &[f64]) {
        let mut average = start;
        for (sample, expected) in samples.iter().zip(expected) {
            average = next(average, *sample);
            assert!(
                (average - expected).abs() < 1e-12,
                "{average} after {sample}, expected {expected}"
            );
        }
    }

    #[test]
    fn health_falls_with_failures_and_recovers_with_successes() {
        assert_course(
            1.0,
            &[0.0, 0.0, 0.0, 1.0, 1.0, 0.0],
            &[0.7, 0.49, 0.343, 0.5401, 0.678_07, 0.474_649],
        );
    }

    #[test]
    fn the_first_latency_is_taken_verbatim() {
        assert_course(0.0, &[0.1, 0.2, 0.4, 0.05], &[0.1, 0.13, 0.211, 0.1627]);
    }

    #[test]
    fn an_average_of_exactly_zero_takes_the_next_sample_whole() {
        assert_eq!(next(0.0, 1.0), 1.0);
        assert_eq!(next(f64::MIN_POSITIVE, 1.0), 0.3);
    }
}

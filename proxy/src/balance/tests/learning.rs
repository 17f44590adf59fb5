//! What an outcome leaves behind.

use super::*;

const TENTH: LatencySample = LatencySample {
    length: Duration::from_millis(100),
    source: LatencySource::Kernel,
    self_delay: Duration::from_millis(2),
};

fn assert_near(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");
}

#[test]
fn an_endpoint_starts_healthy_unmeasured_and_idle() {
    let pool = Pool::of_weights(&[1]);
    let figures = pool.figures(0);
    assert_eq!(figures.health, 1.0);
    assert_eq!(figures.latency_seconds, None);
    assert_eq!(figures.latency_source, None);
    assert_eq!(figures.leases, LeaseCounts::default());
    assert_eq!(figures.ejected_for, None);
}

#[test]
fn a_success_without_a_sample_leaves_the_latency_unknown() {
    let mut pool = Pool::of_weights(&[1]);
    pool.succeed(0, None);
    assert_eq!(pool.figures(0).latency_seconds, None);
}

#[test]
fn latency_is_averaged_over_successes_and_untouched_by_failures() {
    let mut pool = Pool::of_weights(&[1]);
    pool.succeed(0, Some(TENTH));
    let slower = LatencySample {
        length: Duration::from_millis(200),
        source: LatencySource::Worker,
        self_delay: Duration::ZERO,
    };
    pool.succeed(0, Some(slower));
    pool.fail(0);
    let figures = pool.figures(0);
    assert_near(figures.latency_seconds.expect("measured"), 0.13);
    assert_near(figures.health, 0.7);
    assert_eq!(figures.latency_source, Some(LatencySource::Worker));
}

#[test]
fn self_delay_is_the_mean_over_what_the_kernel_measured() {
    let mut pool = Pool::of_weights(&[1]);
    pool.succeed(0, Some(TENTH));
    let late = LatencySample {
        self_delay: Duration::from_millis(4),
        ..TENTH
    };
    pool.succeed(0, Some(late));
    let by_worker = LatencySample {
        source: LatencySource::Worker,
        ..TENTH
    };
    pool.succeed(0, Some(by_worker));
    assert_eq!(pool.figures(0).self_delay, Some(Duration::from_millis(3)));
}

#[test]
fn a_neutral_end_gives_the_lease_back_and_says_nothing_else() {
    let mut pool = Pool::of_weights(&[1]);
    pool.fail_times(0, 4);
    let before = pool.figures(0);
    let lease = pool.pick();
    assert_eq!(pool.figures(0).leases.pending, 1);
    assert_eq!(pool.finish(lease, Outcome::Neutral), None);
    let after = pool.figures(0);
    assert_eq!(after.leases.pending, 0);
    assert_eq!(after.leases.neutral, 1);
    assert_eq!(after.health, before.health);
    assert!(pool.fail(0).is_some(), "four failures are still remembered");
}

#[test]
fn late_news_about_an_earlier_endpoint_of_the_row_changes_only_what_is_pending() {
    let mut pool = Pool::of_weights(&[1]);
    let late_failures: Vec<Lease> = (0..6).map(|_| pool.lease_of(0)).collect();
    let late_success = pool.lease_of(0);

    // The row goes to another endpoint while those attempts still run.
    let old_row = pool.backend.endpoints()[0].row;
    let new_row = EndpointRow {
        generation: old_row.generation + 1,
        ..old_row
    };
    pool.tables.state[0]
        .generation
        .store(new_row.generation, Relaxed);

    for lease in late_failures {
        assert_eq!(pool.finish(lease, Outcome::Failure), None);
    }
    pool.finish(
        late_success,
        Outcome::Success {
            latency: Some(TENTH),
        },
    );
    let state = EndpointState::of(&pool.tables, new_row);
    assert_eq!(
        state.reading(),
        Reading {
            health: 1.0,
            latency_seconds: None,
            pending: 0
        }
    );
    assert_eq!(state.ejected_until(pool.now), None);
}

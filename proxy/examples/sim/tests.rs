//! Behaviours of the balancer that only show over time: short runs with a pinned seed.

use std::time::Duration;

use weir::balance::{HealthPolicy, Scoring};

use crate::policy::weir::Weir;
use crate::policy::{Name as PolicyName, Pool};
use crate::record::Record;
use crate::run::{Ejection, Run};
use crate::scenario::{Name, Scenario};
use crate::world::World;

const SEED: u64 = 7;

/// A scenario cut short. Its rate and its endpoints stay.
fn short(name: Name, seconds: u64) -> Scenario {
    Scenario::of(name).lasting(Duration::from_secs(seconds))
}

fn play(policy: PolicyName, ejection: Ejection, scenario: &Scenario) -> Record {
    Run { policy, ejection }.play(scenario, SEED)
}

/// What the watched endpoints got in a phase, 1.0 being a fair share.
fn share_of_fair(scenario: &Scenario, record: &Record, phase: usize) -> f64 {
    record.phases[phase].tally.watched_share() / scenario.fair_share(phase)
}

#[test]
fn equal_endpoints_share_evenly() {
    let scenario = short(Name::Equal, 5);
    let record = play(PolicyName::Seed, Ejection::On, &scenario);
    let even = record.phases[0].tally.requests / 10;
    for picks in &record.phases[0].picks {
        assert!(picks.abs_diff(even) < even / 10, "{picks}, even is {even}");
    }
}

#[test]
fn seed_mode_leaves_a_slow_endpoint_a_tenth_of_its_fair_share_and_returns_to_it() {
    let scenario = short(Name::Slow, 10);
    let record = play(PolicyName::Seed, Ejection::On, &scenario);
    let healthy = share_of_fair(&scenario, &record, 0);
    assert!((0.9..1.1).contains(&healthy), "{healthy}");
    // The worst of ten keeps 1/10 of its share, and has more until its first slow answer.
    let slow = share_of_fair(&scenario, &record, 1);
    assert!((0.08..0.15).contains(&slow), "{slow}");
    let recovered = share_of_fair(&scenario, &record, 2);
    assert!(recovered > 0.8, "{recovered}");
}

#[test]
fn adaptive_mode_keeps_the_tail_short_and_returns_to_half_a_fair_share_within_two_seconds() {
    let scenario = short(Name::Slow, 15);
    let record = play(PolicyName::Adaptive, Ejection::On, &scenario);
    let tail = |phase: usize| record.phases[phase].tally.latencies.quantile(0.999);
    let [healthy, slow] = [0, 1].map(|phase| tail(phase).expect("many requests"));
    assert!(slow < healthy.mul_f64(1.5), "{slow:?}, healthy {healthy:?}");
    let after = record.half_share_after(&scenario).expect("it returns");
    assert!(after <= Duration::from_secs(2), "{after:?}");
}

#[test]
fn adaptive_mode_avoids_a_failing_endpoint_without_ejection() {
    let scenario = short(Name::Failing, 12);
    let record = play(PolicyName::Adaptive, Ejection::Off, &scenario);
    let rate = record.phases[1].tally.error_rate();
    assert!(rate < 0.003, "{rate}");
    let recovered = share_of_fair(&scenario, &record, 2);
    assert!(recovered > 0.8, "{recovered}");
}

#[test]
fn adaptive_mode_shares_evenly_at_low_load_as_chance_allows() {
    let scenario = short(Name::Many, 3);
    let record = play(PolicyName::Adaptive, Ejection::On, &scenario);
    let picks = record.phases[1].picks.iter().map(|picks| *picks as f64);
    let mean = picks.clone().sum::<f64>() / picks.len() as f64;
    let variance = picks.map(|picks| (picks - mean).powi(2)).sum::<f64>() / 1600.0;
    // 1 if each endpoint were picked independently. Over 10,000 picks each, 2 makes a max/min of 1.10.
    assert!(variance / mean < 2.0, "{variance} of {mean}");
}

#[test]
fn ejection_keeps_nearly_all_requests_away_from_an_endpoint_that_fails() {
    let scenario = short(Name::Failing, 12);
    let rate = |ejection| {
        let record = play(PolicyName::Seed, ejection, &scenario);
        record.phases[1].tally.error_rate()
    };
    let ejecting = rate(Ejection::On);
    assert!(ejecting < 0.001, "{ejecting}");
    let scoring = rate(Ejection::Off);
    assert!((0.005..0.015).contains(&scoring), "{scoring}");
}

#[test]
fn every_lease_of_a_run_is_finished_once() {
    let scenario = short(Name::Failing, 6);
    let pool = Pool {
        endpoints: scenario.endpoints.len(),
        members: scenario.members,
        health: HealthPolicy::default(),
        seed: SEED,
    };
    let weir = Weir::new(pool, Scoring::Adaptive);
    let leases = weir.leases();
    let record = World::new(&scenario, vec![Box::new(weir)], SEED).run();
    let mut picked = 0;
    for counts in leases() {
        assert_eq!(counts.pending, 0);
        let finished = counts.succeeded + counts.failed + counts.neutral;
        assert_eq!(counts.picked, finished);
        picked += counts.picked;
    }
    let requests: u64 = record.phases.iter().map(|phase| phase.tally.requests).sum();
    assert_eq!(picked, requests);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = short(Name::Halves, 2);
    let picks = || {
        let record = play(PolicyName::Seed, Ejection::On, &scenario);
        record.phases[0].picks.clone()
    };
    assert_eq!(picks(), picks());
}

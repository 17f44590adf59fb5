//! News and timers of endpoints that are gone: whatever comes late, it never touches who has the row now.

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    /// The row goes to another endpoint, which knows nothing.
    Replace,
    /// An attempt at the endpoint of so many generations ago, 0 the current one, ends like this.
    Finish {
        age: usize,
        fails: bool,
    },
    /// A worker that has the snapshot of then looks who may return.
    Readmit {
        age: usize,
    },
    Wait {
        millis: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let age = 0..4_usize;
    prop_oneof![
        1 => Just(Step::Replace),
        3 => (age.clone(), any::<bool>()).prop_map(|(age, fails)| Step::Finish { age, fails }),
        2 => age.prop_map(|age| Step::Readmit { age }),
        1 => (0_u64..5000).prop_map(|millis| Step::Wait { millis }),
    ]
}

/// What must be known of the endpoint that has the row, by its own attempts alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    health: f64,
    times_ejected: u32,
    ejected_until: Option<Moment>,
}

const FRESH: Known = Known {
    health: 1.0,
    times_ejected: 0,
    ejected_until: None,
};
const RESTORED: f64 = 0.1;
const BASE: Duration = seconds(3);

impl Known {
    fn pass(&mut self, now: Moment) {
        if self.ejected_until.is_some_and(|until| until <= now) {
            self.ejected_until = None;
            self.health = RESTORED;
        }
    }

    fn finish(&mut self, fails: bool, now: Moment) {
        self.pass(now);
        let sample = f64::from(u8::from(!fails));
        self.health = ewma::next(self.health, sample);
        if !fails {
            self.times_ejected = 0;
        } else if self.ejected_until.is_none() {
            self.times_ejected += 1;
            self.ejected_until = Some(now + BASE * self.times_ejected);
        }
    }
}

proptest! {
    #[test]
    fn whatever_comes_late_leaves_the_endpoint_that_has_the_row_alone(
        steps in prop::collection::vec(step(), 0..80),
    ) {
        // Any failure ejects, and who returns starts low: both would show on somebody else.
        let policy = HealthPolicy {
            eviction: Some(Eviction {
                restore_health: Percent::new(10),
                ..Eviction::default()
            }),
        };
        let mut pool = Pool::of_weights(&[1]).with_policy(policy);
        let address = pool.backend.endpoints()[0].address;
        let tables = pool.tables.clone();
        let mut rows = vec![pool.backend.endpoints()[0].row];
        let mut known = FRESH;
        for step in steps {
            let last = rows[rows.len() - 1];
            let aged = |age: usize| rows[rows.len() - 1 - age.min(rows.len() - 1)];
            match step {
                Step::Replace => {
                    let next = EndpointRow {
                        generation: last.generation + 1,
                        ..last
                    };
                    EndpointState::of(&tables, next).reset();
                    rows.push(next);
                    known = FRESH;
                }
                Step::Finish { age, fails } => {
                    let row = aged(age);
                    let endpoint = Endpoint {
                        row,
                        ..pool.backend.endpoints()[0].clone()
                    };
                    let lease = pool.workers[0].lease_of(&pool.backend, &endpoint);
                    prop_assert_eq!(lease.address(), address);
                    let outcome = match fails {
                        true => Outcome::Failure,
                        false => Outcome::Success { latency: None },
                    };
                    let verdict = pool.workers[0].finish(lease, outcome, pool.now);
                    if row == last {
                        known.finish(fails, pool.now);
                    } else {
                        prop_assert_eq!(verdict, Some(Verdict::TooLate));
                    }
                }
                Step::Readmit { age } => {
                    let row = aged(age);
                    let state = EndpointState::of(&tables, row);
                    state.readmit_if_due(Some(RESTORED), pool.now);
                    if row == last {
                        known.pass(pool.now);
                    }
                }
                Step::Wait { millis } => pool.advance(Duration::from_millis(millis)),
            }
            let state = EndpointState::of(&tables, rows[rows.len() - 1]);
            let until = known.ejected_until.filter(|until| *until > pool.now);
            prop_assert_eq!(state.ejected_until(pool.now), until);
            prop_assert_eq!(state.reading().health, known.health);
        }
    }
}

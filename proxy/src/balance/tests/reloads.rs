//! Configurations that follow each other quickly: whoever stays keeps what was learned, and no two endpoints ever have
//! the same row at a time.

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

const CAPACITY: usize = 12;

#[derive(Clone, Debug)]
enum Step {
    /// The endpoints from now on, by number.
    Load(Vec<u16>),
    /// Workers have left the snapshots of before: so many of those that are gone give back their rows.
    Retire(usize),
    /// A request of one of the endpoints begins, or ends with a failure.
    Lease(usize),
    Fail(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => prop::collection::btree_set(0_u16..20, 0..8)
            .prop_map(|numbers| Step::Load(numbers.into_iter().collect())),
        1 => (0_usize..6).prop_map(Step::Retire),
        2 => any::<usize>().prop_map(Step::Lease),
        2 => any::<usize>().prop_map(Step::Fail),
    ]
}

/// What must be true of an endpoint, kept by the test.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Known {
    row: EndpointRow,
    failures: u64,
}

fn admit(rows: &mut EndpointRows, number: u16) -> Result<EndpointRow, TablesFull> {
    let address = SocketAddr::from(([10, 0, 0, 1], 1 + number));
    rows.admit(&address.to_string().into(), address)
}

proptest! {
    #[test]
    fn endpoints_that_stay_keep_their_rows_and_statistics_and_share_them_with_nobody(
        steps in prop::collection::vec(step(), 0..60),
    ) {
        let tables = SharedTables::anonymous(Sizes {
            capacity: CAPACITY,
            workers: 1,
            cpus: 1,
            flows: 1,
        });
        let mut rows = EndpointRows::new(tables.clone());
        let mut known: HashMap<u16, Known> = HashMap::new();
        let mut departed = Vec::new();
        let mut in_flight: Vec<EndpointRow> = Vec::new();
        for step in steps {
            match step {
                Step::Load(numbers) => {
                    for number in &numbers {
                        let Ok(row) = admit(&mut rows, *number) else {
                            // As many as there is room for: those that are gone may still have their rows.
                            prop_assert!(known.len() + departed.len() + in_flight.len() > 0);
                            continue;
                        };
                        let fresh = Known { row, failures: 0 };
                        prop_assert_eq!(known.entry(*number).or_insert(fresh).row, row);
                    }
                    known.retain(|number, _| numbers.contains(number));
                    let stays = |row: EndpointRow| known.values().any(|one| one.row == row);
                    departed.extend(rows.dismiss(stays));
                }
                Step::Retire(count) => {
                    let count = count.min(departed.len());
                    rows.retire(departed.drain(..count));
                }
                Step::Lease(which) => {
                    if let Some(one) = known.values().nth(which % known.len().max(1)) {
                        load::on_pick(&tables, 0, one.row.index);
                        in_flight.push(one.row);
                    }
                }
                Step::Fail(which) if !in_flight.is_empty() => {
                    let row = in_flight.swap_remove(which % in_flight.len());
                    let state = EndpointState::of(&tables, row);
                    prop_assert!(state.is_current(), "with a request in flight a row is not given away");
                    state.record_failure();
                    load::on_finish(&tables, 0, row.index, Outcome::Failure);
                    for one in known.values_mut().filter(|one| one.row == row) {
                        one.failures += 1;
                    }
                }
                Step::Fail(_) => {}
            }
            let mut indices: Vec<u32> = known.values().map(|one| one.row.index).collect();
            indices.sort_unstable();
            prop_assert!(indices.windows(2).all(|pair| pair[0] != pair[1]), "{indices:?}");
            for one in known.values() {
                prop_assert!(EndpointState::of(&tables, one.row).is_current());
                let failed = load::counts(&tables, one.row.index).failed;
                prop_assert_eq!(failed, one.failures);
            }
        }
    }
}

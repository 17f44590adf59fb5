//! Who is affected when the endpoints of a backend change: nobody but those who must be.

use proptest::prelude::*;
use weir_rendezvous::{AffinityKey, Candidate, Candidates, EndpointHash};

/// Endpoints with distinct keys; few weights or many.
fn endpoints() -> impl Strategy<Value = Vec<(String, u16)>> {
    let weight = prop_oneof![0_u16..4, any::<u16>()];
    prop::collection::btree_map("[a-z]{1,6}", weight, 1..40)
        .prop_map(|map| map.into_iter().collect())
}

fn candidates(endpoints: &[(String, u16)]) -> Candidates {
    let mut candidates = Candidates::default();
    let all = endpoints.iter().enumerate();
    candidates.rebuild(all.map(|(place, (key, weight))| Candidate {
        place,
        weight: *weight,
        hash: EndpointHash::of(key),
    }));
    candidates
}

fn keys() -> impl Iterator<Item = AffinityKey> {
    (0..50).map(|client| AffinityKey::of(format!("c{client}").as_bytes()))
}

/// The winner of every key, by its own key.
fn winners(endpoints: &[(String, u16)]) -> Vec<Option<&str>> {
    let candidates = candidates(endpoints);
    let winner = |key| candidates.best(key, |_| true);
    keys()
        .map(|key| winner(key).map(|place| &*endpoints[place].0))
        .collect()
}

proptest! {
    #[test]
    fn the_order_of_endpoints_does_not_matter(
        (endpoints, shuffled) in endpoints()
            .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
    ) {
        prop_assert_eq!(winners(&endpoints), winners(&shuffled));
    }

    #[test]
    fn removing_an_endpoint_moves_only_its_own_keys(
        endpoints in endpoints(),
        removed in any::<prop::sample::Index>(),
    ) {
        let mut fewer = endpoints.clone();
        let (gone, _) = fewer.remove(removed.index(endpoints.len()));
        for (before, after) in winners(&endpoints).into_iter().zip(winners(&fewer)) {
            prop_assert!(before == Some(gone.as_str()) || before == after);
        }
    }

    #[test]
    fn adding_an_endpoint_moves_keys_only_to_it(
        endpoints in endpoints(),
        weight in 0_u16..,
    ) {
        let mut more = endpoints.clone();
        // No other key has a capital letter.
        more.push(("New".to_owned(), weight));
        for (before, after) in winners(&endpoints).into_iter().zip(winners(&more)) {
            prop_assert!(after == Some("New") || before == after);
        }
    }

    #[test]
    fn more_weight_moves_keys_only_to_who_has_it(
        endpoints in endpoints(),
        changed in any::<prop::sample::Index>(),
        more in 1_u16..1000,
    ) {
        let mut heavier = endpoints.clone();
        let (key, weight) = &mut heavier[changed.index(endpoints.len())];
        *weight = weight.saturating_add(more);
        let key = key.clone();
        for (before, after) in winners(&endpoints).into_iter().zip(winners(&heavier)) {
            prop_assert!(after == Some(&*key) || before == after);
        }
    }

    #[test]
    fn the_next_best_wins_where_the_best_is_not_wanted(endpoints in endpoints()) {
        let all = candidates(&endpoints);
        for key in keys() {
            let Some(best) = all.best(key, |_| true) else {
                continue;
            };
            let mut without = endpoints.clone();
            without[best].1 = 0;
            let next = all.best(key, |place| place != best);
            prop_assert_eq!(next, candidates(&without).best(key, |_| true));
        }
    }
}

//! Who wins, as every replica must see it: fixed winners, and short cuts against the formula. Runs on other processors
//! too, so it needs nothing but the crate itself.

use weir_rendezvous::{AffinityKey, Candidate, Candidates, EndpointHash, value};

fn candidates<K: AsRef<str>>(endpoints: &[(K, u16)]) -> Candidates {
    let mut candidates = Candidates::default();
    let all = endpoints.iter().enumerate();
    candidates.rebuild(all.map(|(place, (key, weight))| Candidate {
        place,
        weight: *weight,
        hash: EndpointHash::of(key.as_ref()),
    }));
    candidates
}

fn winner<K: AsRef<str>>(text: &str, endpoints: &[(K, u16)]) -> Option<usize> {
    candidates(endpoints).best(AffinityKey::of(text.as_bytes()), |_| true)
}

/// Without blocks, bars or bounds: what the formula says of those wanted.
fn by_formula(
    key: AffinityKey,
    endpoints: &[(String, u16)],
    is_wanted: impl Fn(usize) -> bool,
) -> Option<usize> {
    let values = endpoints.iter().enumerate().map(|(place, (name, weight))| {
        let value = value(key, EndpointHash::of(name), *weight);
        (place, value)
    });
    let viable = values.filter(|(place, value)| *value > 0.0 && is_wanted(*place));
    let best = viable.max_by(|one, next| one.1.total_cmp(&next.1));
    best.map(|(place, _)| place)
}

#[test]
fn weights_decide_between_the_same_endpoints() {
    let equal = [("endpoint-a", 1), ("endpoint-b", 1), ("endpoint-c", 1)];
    let heavy = [("endpoint-a", 3), ("endpoint-b", 1), ("endpoint-c", 1)];
    assert_eq!(winner("client-a", &equal), Some(1));
    assert_eq!(winner("client-a", &heavy), Some(0));
    assert_eq!(winner("session-a", &equal), Some(0));
    assert_eq!(winner("session-a", &heavy), Some(0));
}

#[test]
fn a_drained_endpoint_never_wins() {
    assert_eq!(
        winner("client-a", &[("endpoint-a", 1), ("endpoint-b", 0)]),
        Some(0)
    );
    assert_eq!(winner("client-a", &[("endpoint-b", 0)]), None);
    assert_eq!(winner::<&str>("client-a", &[]), None);
}

#[test]
fn winners_are_the_same_on_every_machine() {
    let keys: Vec<String> = (0..100).map(|n| format!("10.0.0.{n}:8080")).collect();
    let mut digests = [0_u64; 3];
    for (digest, weights) in digests.iter_mut().zip([1, 5, 60_000]) {
        let weighted: Vec<(&str, u16)> = keys
            .iter()
            .zip(0_u64..)
            .map(|(key, n)| (key.as_str(), 1 + (n * 7919 % weights) as u16))
            .collect();
        let candidates = candidates(&weighted);
        for client in 0..20_000 {
            let key = AffinityKey::of(format!("client-{client}").as_bytes());
            let place = candidates.best(key, |_| true).expect("nobody is drained");
            *digest = (*digest ^ place as u64)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
    }
    let known = [
        0x0998_71c7_784b_e541,
        0x897e_f2e1_f85f_b27e,
        0x8bf0_e66d_00fc_d7e2,
    ];
    assert_eq!(digests, known, "{digests:#x?}");
}

#[test]
fn shares_follow_the_weights() {
    const CLIENTS: usize = 40_000;
    let weights = [1_u16, 2, 3, 4, 10];
    let endpoints: Vec<(&str, u16)> = ["a", "b", "c", "d", "e"].into_iter().zip(weights).collect();
    let candidates = candidates(&endpoints);
    let mut wins = [0_usize; 5];
    for client in 0..CLIENTS {
        let key = AffinityKey::of(client.to_string().as_bytes());
        wins[candidates.best(key, |_| true).expect("nobody is drained")] += 1;
    }
    for (weight, wins) in weights.into_iter().zip(wins) {
        let share = f64::from(weight) / 20.0;
        let sigma = (CLIENTS as f64 * share * (1.0 - share)).sqrt();
        let off = wins as f64 - CLIENTS as f64 * share;
        assert!(off.abs() <= 3.0 * sigma, "weight {weight}: {wins} wins");
    }
}

/// A stream of numbers without a crate: Knuth's linear congruence, its upper half.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        ((self.0 >> 32) * limit) >> 32
    }
}

#[test]
fn short_cuts_never_change_the_winner() {
    for seed in 0_u64..120 {
        let mut numbers = Numbers(seed);
        let (size, heaviest) = (
            1 + numbers.below(300),
            [1, 2, 4, 100, 65_536][numbers.below(5) as usize],
        );
        let endpoints: Vec<(String, u16)> = (0..size)
            .map(|place| (format!("{seed}-{place}"), numbers.below(heaviest) as u16))
            .map(|(key, weight)| (key, if heaviest == 1 { 7 } else { weight }))
            .collect();
        let candidates = candidates(&endpoints);
        // Now all are wanted, now few: then the bar is too high, or everybody above it is unwanted.
        let wanted = [1, 1, 2, 20, 1000][numbers.below(5) as usize];
        let is_wanted = |place: usize| place.is_multiple_of(wanted);
        for client in 0..50_u32 {
            let key = AffinityKey::of(&client.to_le_bytes());
            assert_eq!(
                candidates.best(key, is_wanted),
                by_formula(key, &endpoints, is_wanted),
                "seed {seed}, client {client}"
            );
        }
    }
}

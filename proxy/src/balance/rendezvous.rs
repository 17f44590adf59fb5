//! Weighted rendezvous hashing: the same value goes to the same endpoint, on every replica and without a table between
//! them. Whoever joins takes over only what it now wins, whoever leaves gives up only what it had.
//!
//! ```text
//! v = A ^ E;  v = (v ^ v>>30) * bf58476d1ce4e5b9;  v = (v ^ v>>27) * 94d049bb133111eb;  mix = v ^ v>>31
//! u = ((mix >> 11) + 0.5) / 2^53        value = weight / -ln u        the highest value wins
//! ```
//!
//! A hashes the value, E the endpoint's key; the mixer is SplitMix64's. Among endpoints of one weight the highest mix
//! has the highest value, so that a logarithm is taken only where weights differ, and only for those who can still win.

use std::array;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::endpoint::Weight;
use super::logarithm::Fraction;

/// What one request is bound by: a hash of the value its affinity expression gave. The value itself is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AffinityKey(u64);

impl AffinityKey {
    const SEED: u64 = 0x9e37_79b1_85eb_ca87;

    pub fn of(value: &[u8]) -> Self {
        Self(xxh3_64_with_seed(value, Self::SEED))
    }
}

/// A hash after its part in the mixer's first step, which is the same for the hashes apart as for their sum.
#[derive(Clone, Copy, Debug)]
struct Prepared(u64);

impl Prepared {
    const fn of(hash: u64) -> Self {
        Self(hash ^ (hash >> 30))
    }

    /// The mix but for its last step, which leaves the upper 31 bits alone.
    #[inline]
    fn stir(self, other: Self) -> u64 {
        let v = (self.0 ^ other.0).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb)
    }

    /// Without a decision on the way, so that the processor stirs several at a time.
    #[inline]
    fn any_reaches(self, block: &Block, floor: u64) -> bool {
        let stirred = block.map(|hash| self.stir(hash));
        stirred.into_iter().any(|stirred| stirred >= floor)
    }
}

const BLOCK: usize = 8;
type Block = [Prepared; BLOCK];

const fn finish(stirred: u64) -> u64 {
    stirred ^ (stirred >> 31)
}

/// Hash of an endpoint's key, computed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointHash(u64);

impl EndpointHash {
    const SEED: u64 = 0xc2b2_ae3d_27d4_eb4f;

    pub fn of(key: &str) -> Self {
        Self(xxh3_64_with_seed(key.as_bytes(), Self::SEED))
    }
}

/// A multiple of the average number of pending exchanges, 1.0 or more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BoundedLoad(f64);

impl BoundedLoad {
    /// `None` below 1.0: not everybody can stay below the average.
    pub fn new(factor: f64) -> Option<Self> {
        (factor.is_finite() && factor >= 1.0).then_some(Self(factor))
    }

    /// As many exchanges may be pending on an endpoint for another one to go there.
    pub fn limit(self, pending: impl Iterator<Item = u64>) -> f64 {
        let (sum, count) = pending.fold((0, 0_u64), |(sum, count), one| (sum + one, count + 1));
        self.0 * sum as f64 / count.max(1) as f64
    }
}

/// Endpoints among which values choose, the heaviest first.
#[derive(Debug, Default)]
pub struct Rendezvous {
    /// The last block is filled up.
    blocks: Vec<Block>,
    weights: Vec<f64>,
    places: Vec<usize>,
    /// Worklist of the build, kept so that rebuilding need not allocate.
    sorted: Vec<Candidate>,
}

/// One endpoint with a share, and its place among its backend's.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub place: usize,
    pub weight: Weight,
    pub hash: EndpointHash,
}

impl Rendezvous {
    /// Takes these candidates in the place of all earlier ones. Drained ones are left out.
    pub fn rebuild(&mut self, candidates: impl Iterator<Item = Candidate>) {
        self.sorted.clear();
        self.sorted
            .extend(candidates.filter(|candidate| !candidate.weight.is_drained()));
        self.sorted
            .sort_unstable_by_key(|one| (std::cmp::Reverse(one.weight), one.place));
        let sorted = self.sorted.iter();
        let hashes = |block: &[Candidate]| -> Block {
            array::from_fn(|at| Prepared::of(block.get(at).map_or(0, |one| one.hash.0)))
        };
        self.blocks.clear();
        self.blocks.extend(self.sorted.chunks(BLOCK).map(hashes));
        self.weights.clear();
        self.weights
            .extend(sorted.clone().map(|one| f64::from(one.weight.share())));
        self.places.clear();
        self.places.extend(sorted.map(|one| one.place));
    }

    /// The place of the candidate with the highest value among those wanted.
    pub fn best(&self, key: AffinityKey, is_wanted: impl Fn(usize) -> bool) -> Option<usize> {
        let key = Prepared::of(key.0);
        let mut leader: Option<Leader> = None;
        let mut bar = Bar::NONE;
        for (number, block) in self.blocks.iter().enumerate() {
            let first = number * BLOCK;
            if let Some(leader) = &mut leader {
                bar.raise(leader, self.weights[first]);
            }
            if !key.any_reaches(block, bar.floor) {
                continue;
            }
            for (place, (at, hash)) in self.places[first..].iter().zip((first..).zip(block)) {
                let stirred = key.stir(*hash);
                if stirred < bar.floor || !is_wanted(*place) {
                    continue;
                }
                let mut challenger = Leader::new(at, finish(stirred), self.weights[at]);
                if leader.is_none_or(|leader| challenger.beats(leader)) {
                    bar = Bar::set_by(&mut challenger, self.weights[at]);
                    leader = Some(challenger);
                }
            }
        }
        leader.map(|leader| self.places[leader.at])
    }
}

// Kept apart: inlined, the compiler takes it for cheap and computes it before it is asked for.
#[cold]
#[inline(never)]
fn value(mix: u64, weight: f64) -> f64 {
    weight / Fraction::of_mix(mix).negative_ln()
}

/// Whoever has the highest value so far, or challenges for it.
#[derive(Clone, Copy, Debug)]
struct Leader {
    at: usize,
    mix: u64,
    weight: f64,
    /// Computed when weights differ.
    value: Option<f64>,
}

impl Leader {
    fn new(at: usize, mix: u64, weight: f64) -> Self {
        Self {
            at,
            mix,
            weight,
            value: None,
        }
    }

    fn value(&mut self) -> f64 {
        *self
            .value
            .get_or_insert_with(|| value(self.mix, self.weight))
    }

    /// Of equal values, which only neighbouring fractions have, the higher mix wins, as it does where all weights are 1.
    fn beats(&mut self, mut other: Self) -> bool {
        if self.weight == other.weight {
            return self.mix > other.mix;
        }
        let (mine, others) = (self.value(), other.value());
        mine > others || (mine == others && self.mix > other.mix)
    }
}

/// What a stirred hash must reach to be looked at closely. It spares logarithms, and never a winner.
#[derive(Clone, Copy, Debug)]
struct Bar {
    floor: u64,
    /// For endpoints of this weight and all lesser ones, which need even more.
    weight: f64,
}

impl Bar {
    const NONE: Self = Self {
        floor: 0,
        weight: f64::INFINITY,
    };

    fn set_by(leader: &mut Leader, weight: f64) -> Self {
        let mix = if weight == leader.weight {
            leader.mix
        } else {
            // 1 - u < -ln u, which must be below weight / value. The slack covers the rounding of u, which is below
            // 2^-52, and that of this line. Negative numbers become 0.
            const SLACK: f64 = 1e-12;
            let least = 1.0 - weight / leader.value() - SLACK;
            (least * (1_u128 << 64) as f64) as u64
        };
        Self {
            // The mixer's last step leaves the upper 31 bits alone.
            floor: mix >> 33 << 33,
            weight,
        }
    }

    /// Weights have come down to this: higher, if that is worth the computing.
    fn raise(&mut self, leader: &mut Leader, weight: f64) {
        const WORTH: f64 = 0.9;
        if weight < self.weight * WORTH {
            *self = Self::set_by(leader, weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pool(endpoints: &[(&str, u16)]) -> Rendezvous {
        let mut rendezvous = Rendezvous::default();
        let candidates = endpoints
            .iter()
            .enumerate()
            .map(|(place, (key, weight))| Candidate {
                place,
                weight: Weight::new(*weight),
                hash: EndpointHash::of(key),
            });
        rendezvous.rebuild(candidates);
        rendezvous
    }

    fn winner(text: &str, endpoints: &[(&str, u16)]) -> Option<usize> {
        pool(endpoints).best(AffinityKey::of(text.as_bytes()), |_| true)
    }

    fn mix(key: AffinityKey, endpoint: EndpointHash) -> u64 {
        finish(Prepared::of(key.0).stir(Prepared::of(endpoint.0)))
    }

    /// Without blocks, bars or order: what the formula says.
    fn by_formula(text: &str, endpoints: &[(&str, u16)]) -> Option<usize> {
        let key = AffinityKey::of(text.as_bytes());
        let scored = endpoints.iter().enumerate().map(|(place, (name, weight))| {
            let mix = mix(key, EndpointHash::of(name));
            (value(mix, f64::from(*weight)), mix, place)
        });
        let viable = scored.filter(|(value, _, _)| *value > 0.0);
        let best = viable.max_by(|one, next| one.0.total_cmp(&next.0).then(one.1.cmp(&next.1)));
        best.map(|(_, _, place)| place)
    }

    #[test]
    fn values_and_keys_hash_as_other_replicas_hash_them() {
        for (text, hash) in [
            ("client-a", 0x4c2b_a262_c3a9_0564),
            ("session-a", 0x147d_ce47_e6da_318b),
            ("192.0.2.10", 0xfa28_31ca_c29e_79d6),
        ] {
            assert_eq!(
                AffinityKey::of(text.as_bytes()),
                AffinityKey(hash),
                "{text}"
            );
        }
        for (key, hash) in [
            ("endpoint-a", 0xb765_e0a1_5763_5ab5),
            ("endpoint-b", 0x88dc_be0a_6a81_d5b3),
            ("wl-a", 0x56f2_6ded_776e_1a5b),
        ] {
            assert_eq!(EndpointHash::of(key), EndpointHash(hash), "{key}");
        }
    }

    #[test]
    fn values_are_the_known_ones_to_the_last_bit() {
        let mix_with = |endpoint| mix(AffinityKey::of(b"client-a"), EndpointHash::of(endpoint));
        assert_eq!(mix_with("endpoint-a"), 0xb20a_0707_fb34_c978);
        for (endpoint, expected) in [
            ("endpoint-a", 2.753_502_112_201_619_2),
            ("endpoint-b", 7.137_595_180_692_105),
            ("endpoint-c", 0.880_081_161_899_758_3),
        ] {
            assert_eq!(value(mix_with(endpoint), 1.0), expected, "{endpoint}");
        }
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
        assert_eq!(winner("client-a", &[]), None);
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
            let pool = pool(&weighted);
            for client in 0..20_000 {
                let key = AffinityKey::of(format!("client-{client}").as_bytes());
                let place = pool.best(key, |_| true).expect("nobody is drained");
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
        let keys = ["a", "b", "c", "d", "e"];
        let endpoints: Vec<(&str, u16)> = keys.into_iter().zip(weights).collect();
        let pool = pool(&endpoints);
        let mut wins = [0_usize; 5];
        for client in 0..CLIENTS {
            let key = AffinityKey::of(client.to_string().as_bytes());
            wins[pool.best(key, |_| true).expect("nobody is drained")] += 1;
        }
        for (weight, wins) in weights.into_iter().zip(wins) {
            let share = f64::from(weight) / 20.0;
            let sigma = (CLIENTS as f64 * share * (1.0 - share)).sqrt();
            let off = wins as f64 - CLIENTS as f64 * share;
            assert!(off.abs() <= 3.0 * sigma, "weight {weight}: {wins} wins");
        }
    }

    /// Endpoints with distinct keys; few weights or many.
    fn endpoints() -> impl Strategy<Value = Vec<(String, u16)>> {
        let weight = prop_oneof![0_u16..4, any::<u16>()];
        prop::collection::btree_map("[a-z]{1,6}", weight, 1..40)
            .prop_map(|map| map.into_iter().collect())
    }

    fn borrowed(endpoints: &[(String, u16)]) -> Vec<(&str, u16)> {
        endpoints
            .iter()
            .map(|(key, weight)| (key.as_str(), *weight))
            .collect()
    }

    proptest! {
        #[test]
        fn short_cuts_never_change_the_winner(endpoints in endpoints(), text in "[a-z0-9]{0,12}") {
            let endpoints = borrowed(&endpoints);
            prop_assert_eq!(winner(&text, &endpoints), by_formula(&text, &endpoints));
        }

        #[test]
        fn the_order_of_endpoints_does_not_matter(
            (endpoints, shuffled) in endpoints()
                .prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            text in "[a-z0-9]{1,12}",
        ) {
            let key_of = |all: &[(String, u16)]| {
                winner(&text, &borrowed(all)).map(|place| all[place].0.clone())
            };
            prop_assert_eq!(key_of(&endpoints), key_of(&shuffled));
        }

        #[test]
        fn removing_an_endpoint_moves_only_its_own_keys(
            endpoints in endpoints(),
            removed in any::<prop::sample::Index>(),
        ) {
            let removed = removed.index(endpoints.len());
            let mut fewer = endpoints.clone();
            let (gone, _) = fewer.remove(removed);
            let (all, fewer) = (borrowed(&endpoints), borrowed(&fewer));
            let (pool, smaller) = (pool(&all), pool(&fewer));
            for client in 0..200 {
                let key = AffinityKey::of(format!("c{client}").as_bytes());
                let before = pool.best(key, |_| true).map(|place| all[place].0);
                let after = smaller.best(key, |_| true).map(|place| fewer[place].0);
                // Read backwards, this is what an endpoint that is added takes over.
                prop_assert!(before == Some(gone.as_str()) || before == after);
            }
        }

        #[test]
        fn the_next_best_wins_where_the_best_is_not_wanted(endpoints in endpoints(), text in "[a-z]{1,8}") {
            let all = borrowed(&endpoints);
            let pool = pool(&all);
            let key = AffinityKey::of(text.as_bytes());
            if let Some(best) = pool.best(key, |_| true) {
                let mut without = all.clone();
                without[best].1 = 0;
                let next = pool.best(key, |place| place != best);
                prop_assert_eq!(next, winner(&text, &without));
            }
        }
    }
}

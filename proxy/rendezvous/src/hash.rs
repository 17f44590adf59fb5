//! The hashes of values and endpoints, and how the two are mixed into one number for each pair.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::logarithm::Fraction;

/// What one request is bound by: a hash of the value its affinity expression gave. The value itself is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AffinityKey(u64);

impl AffinityKey {
    const SEED: u64 = 0x9e37_79b1_85eb_ca87;

    pub fn of(value: &[u8]) -> Self {
        Self(xxh3_64_with_seed(value, Self::SEED))
    }

    /// The hash, for whoever compares notes with another replica.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// Hash of an endpoint's key, computed once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndpointHash(u64);

impl EndpointHash {
    const SEED: u64 = 0xc2b2_ae3d_27d4_eb4f;

    pub fn of(key: &str) -> Self {
        Self(xxh3_64_with_seed(key.as_bytes(), Self::SEED))
    }

    /// The hash, for whoever compares notes with another replica.
    pub const fn bits(self) -> u64 {
        self.0
    }
}

/// A hash after its part in the mixer's first step, which is the same for two hashes apart as for their sum.
#[derive(Clone, Copy, Debug)]
pub struct Prepared(u64);

impl From<AffinityKey> for Prepared {
    fn from(key: AffinityKey) -> Self {
        Self::of(key.0)
    }
}

impl From<EndpointHash> for Prepared {
    fn from(endpoint: EndpointHash) -> Self {
        Self::of(endpoint.0)
    }
}

impl Prepared {
    /// Nobody's.
    pub const NONE: Self = Self(0);

    const fn of(hash: u64) -> Self {
        Self(hash ^ (hash >> 30))
    }

    #[inline]
    pub fn stir(self, other: Self) -> Stirred {
        let v = (self.0 ^ other.0).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Stirred((v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb))
    }
}

/// The mix but for its last step, which leaves the upper 31 bits alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stirred(u64);

impl Stirred {
    pub const fn below_highest(distance: u64) -> Self {
        Self(!distance)
    }

    /// No more than this, and no more than the stirred hash of any mix that has the same upper bits.
    pub const fn aligned(self) -> Self {
        Self(self.0 >> 33 << 33)
    }

    pub const fn finish(self) -> Mix {
        Mix(self.0 ^ (self.0 >> 31))
    }
}

/// One number for a key and an endpoint: as good as random, and among endpoints of one weight the highest wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mix(u64);

impl Mix {
    pub fn of(key: AffinityKey, endpoint: EndpointHash) -> Self {
        Prepared::from(key).stir(endpoint.into()).finish()
    }

    /// What the stirred hash of every mix from this one on comes up to.
    pub const fn floor(self) -> Stirred {
        Stirred(self.0).aligned()
    }

    // Kept apart: inlined, the compiler takes it for cheap and computes it before it is asked for.
    #[cold]
    #[inline(never)]
    pub fn value(self, weight: u16) -> f64 {
        f64::from(weight) / Fraction::of_mix(self.0).negative_ln()
    }

    /// What `-ln u` lies between, for much less than it costs: with `x = 1 - u`, which is small where winners are,
    /// `x + x²/2 < -ln u < x + x²/2 + 2x³/3`, the latter up to 1/2.
    #[inline]
    pub fn negative_ln_bounds(self) -> (f64, f64) {
        const UNIT: f64 = 1.0 / (1_u64 << 53) as f64;
        // Covers the handful of roundings here and in the value, of at most 2^-53 each.
        const ROUNDING: f64 = 1e-14;
        // By way of a signed number the processor converts in one step. The rounding of u is at most one unit.
        let x = (!self.0 >> 11) as i64 as f64 * UNIT;
        let square = x * x;
        let sum = x + square / 2.0;
        let least = (sum - UNIT) * (1.0 - ROUNDING);
        if x > 0.5 {
            return (least, f64::INFINITY);
        }
        let most = (sum + 2.0 / 3.0 * x * square + 4.0 * UNIT) * (1.0 + ROUNDING);
        (least, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_keys_hash_as_other_replicas_hash_them() {
        for (text, hash) in [
            ("client-a", 0x4c2b_a262_c3a9_0564),
            ("session-a", 0x147d_ce47_e6da_318b),
            ("192.0.2.10", 0xfa28_31ca_c29e_79d6),
        ] {
            assert_eq!(AffinityKey::of(text.as_bytes()).bits(), hash, "{text}");
        }
        for (key, hash) in [
            ("endpoint-a", 0xb765_e0a1_5763_5ab5),
            ("endpoint-b", 0x88dc_be0a_6a81_d5b3),
            ("wl-a", 0x56f2_6ded_776e_1a5b),
        ] {
            assert_eq!(EndpointHash::of(key).bits(), hash, "{key}");
        }
    }

    #[test]
    fn values_are_the_known_ones_to_the_last_bit() {
        let mix_with = |endpoint| Mix::of(AffinityKey::of(b"client-a"), EndpointHash::of(endpoint));
        assert_eq!(mix_with("endpoint-a"), Mix(0xb20a_0707_fb34_c978));
        for (endpoint, expected) in [
            ("endpoint-a", 2.753_502_112_201_619_2),
            ("endpoint-b", 7.137_595_180_692_105),
            ("endpoint-c", 0.880_081_161_899_758_3),
        ] {
            assert_eq!(mix_with(endpoint).value(1), expected, "{endpoint}");
        }
    }

    #[test]
    fn a_logarithm_lies_within_its_bounds() {
        let mut mix = 0_u64;
        for step in 0..100_000_u64 {
            mix = mix
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(step | 1);
            // From all of the range to very close to 1.
            let mix = Mix(!(mix >> (step % 60)));
            let (least, most) = mix.negative_ln_bounds();
            let negative_ln = Fraction::of_mix(mix.0).negative_ln();
            assert!(
                least < negative_ln && negative_ln < most,
                "{mix:x?}: {least} {negative_ln} {most}"
            );
        }
    }

    #[test]
    fn a_floor_is_reached_by_every_mix_from_it_on() {
        for stirred in [0, 1, 1 << 33, u64::MAX >> 1, u64::MAX - 1, u64::MAX] {
            let stirred = Stirred(stirred);
            assert!(stirred >= stirred.finish().floor());
            assert!(stirred >= stirred.aligned());
        }
    }
}

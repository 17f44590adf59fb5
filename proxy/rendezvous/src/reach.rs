//! How far from the highest mix somebody is looked for: fixed-point numbers, so that it costs one multiplication for a
//! block of endpoints. All roundings are upwards, for whoever is within reach must be found.

use crate::hash::Stirred;

/// A weight over the bar, as a part of 2^29: at most 4, since nobody's weight is more than that of all.
#[derive(Clone, Copy, Debug)]
pub struct Share(i64);

impl Share {
    pub const NONE: Self = Self(0);
    const ONE: f64 = (1_u64 << 29) as f64;

    pub fn of(share: f64) -> Self {
        Self((share * Self::ONE) as i64 + 2)
    }
}

/// What a share is multiplied by to be a distance of mixes, as a part of 2^34. 1 where the bar is at its usual height, less
/// for a higher bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reach(i64);

impl Reach {
    const ONE: i64 = 1 << 34;
    /// Somebody is above this bar but for one key in 55.
    pub const USUAL: Self = Self(Self::ONE);
    /// Somebody always is above this one, unless nobody there is wanted.
    pub const LONG: Self = Self(Self::ONE << 4);
    pub const ENDLESS: Self = Self(i64::MAX);

    #[inline]
    pub fn of(reach: f64) -> Self {
        Self(((reach * Self::ONE as f64) as i64).saturating_add(2))
    }

    #[inline]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE as f64
    }

    /// What the stirred hash of everybody of this share within reach comes up to.
    #[inline(always)]
    pub fn floor(self, share: Share) -> Stirred {
        // In units of 2^-63. Covers the 33 bits in which a stirred hash differs from its mix, and the rounding of u, which
        // is at most 2^-53.
        const SLACK: i64 = 1 << 33;
        let distance = self.0.saturating_mul(share.0).saturating_add(SLACK);
        Stirred::below_highest((distance as u64) << 1 | 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::{AffinityKey, EndpointHash, Mix, Prepared};

    #[test]
    fn whoever_offers_the_value_that_was_reached_for_is_within_reach() {
        let mut met = 0;
        for client in 0..20_000_u32 {
            let key = AffinityKey::of(&client.to_le_bytes());
            let endpoint = EndpointHash::of("endpoint-a");
            let stirred = Prepared::from(key).stir(endpoint.into());
            let (_, most) = stirred.finish().negative_ln_bounds();
            for (weight, bar) in [(1_u16, 0.3), (7, 2.0), (65_535, 3e6), (1, 1e5)] {
                let share = f64::from(weight) / bar;
                let value = Mix::of(key, endpoint).value(weight);
                // A bar as high as its value, and one as high as its bounds say that the value is at least.
                for reach in [bar / value, most / share] {
                    let floor = Reach::of(reach).floor(Share::of(share));
                    assert!(stirred >= floor, "client {client}, weight {weight}");
                    met += usize::from(floor > Stirred::below_highest(u64::MAX));
                }
            }
        }
        assert!(met > 10_000, "reaches that leave anybody out: {met}");
    }

    #[test]
    fn nobody_is_out_of_an_endless_reach_and_a_longer_one_has_a_lower_floor() {
        let share = Share::of(0.004);
        let lowest = Stirred::below_highest(u64::MAX);
        assert_eq!(Reach::ENDLESS.floor(Share::of(1e-9)), lowest);
        assert!(Reach::LONG.floor(share) < Reach::USUAL.floor(share));
        assert!(Reach::USUAL.floor(share) < Reach::of(0.5).floor(share));
    }
}

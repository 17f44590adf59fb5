//! The one logarithm of the balancer, the same to the last bit on every build and processor: whole numbers throughout,
//! no libm, no table, one rounding at the end.
//!
//! ```text
//! u = x * 2^-e, x within [sqrt(1/2), sqrt(2))        -ln u = e * ln 2 - 2 * atanh(s), s = (x - 1) / (x + 1)
//! atanh(s) = s * (1 + s²/3 + s⁴/5 + ... + s²²/23)     |s| < 0.1716, so what is left out is below 2^-65 of it
//! ```
//!
//! The quotient s is cut after 61 significant bits and the bracket after 63, so that the result before rounding is within
//! 2^-59 of the true value, and after it within 0.51 units in the last place. With e = 0 the two terms do not cancel:
//! u near 1, where the winners of large pools are, keeps its full precision.

/// A number strictly between 0 and 1, in units of 2^-54: all that a hash can make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Fraction(u64);

impl Fraction {
    const ONE: u64 = 1 << 54;
    /// 1 - 2^-53.
    const LARGEST: u64 = Self::ONE - 2;

    /// `((mix >> 11) + 0.5) / 2^53` as 64-bit floats have it, at most 1 - 2^-53: from 2^52 on the sum has no half left,
    /// and goes to the even neighbour.
    pub fn of_mix(mix: u64) -> Self {
        let sum = (mix >> 11) as f64 + 0.5;
        // Twice such a sum is a whole number below 2^55.
        Self(((sum * 2.0) as u64).min(Self::LARGEST))
    }

    /// `-ln` of it, above 0.
    pub fn negative_ln(self) -> f64 {
        // In units of 2^-63, from 1/2 to 1. The units of 2^-54 leave the lowest bits empty: halving loses nothing.
        let zeros = self.0.leading_zeros();
        let half = (self.0 << zeros) >> 1;
        let halvings = u128::from(zeros - Self::ONE.leading_zeros() - 1);
        const WHOLE: u64 = 1 << 63;
        const SQRT_HALF: u64 = 0x5a82_7999_fcef_3242;
        let total = if half >= SQRT_HALF {
            halvings * LN_2 + twice_atanh(WHOLE - half, WHOLE + half)
        } else {
            // Twice as large, with one halving more.
            (halvings + 1) * LN_2 - twice_atanh(half - WHOLE / 2, half + WHOLE / 2)
        };
        total as f64 * UNIT
    }
}

/// ln 2 in units of 2^-120.
const LN_2: u128 = 0x00b1_7217_f7d1_cf79_abc9_e3b3_9803_f2f7;
const UNIT: f64 = 1.0 / (1_u128 << 120) as f64;

/// `2 * atanh(part / whole)` in units of 2^-120, for a quotient below 0.1716.
fn twice_atanh(part: u64, whole: u64) -> u128 {
    if part == 0 {
        return 0;
    }
    // With the part shifted to the top the quotient has 61 bits or more, whatever its size.
    let shift = part.leading_zeros();
    let quotient = ((u128::from(part << shift) << 62) / u128::from(whole)) as u64;
    // Below 0.1716 the shift is 2 or more.
    let s = quotient >> (shift - 2);
    let product = u128::from(quotient) * u128::from(series(high_half(s, s)));
    product >> (shift + 4)
}

/// `1 + y/3 + y²/5 + ... + y¹¹/23` in units of 2^-63, for y in units of 2^-64.
fn series(y: u64) -> u64 {
    const UNIT: u64 = 1 << 63;
    const DIVISORS: [u64; 12] = [23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1];
    DIVISORS
        .iter()
        .fold(0, |sum, divisor| high_half(sum, y) + UNIT / divisor)
}

fn high_half(one: u64, other: u64) -> u64 {
    ((u128::from(one) * u128::from(other)) >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A mix, `-ln u` of its fraction rounded to the nearest float, and what that rounding left out. From mpmath with 400
    /// bits.
    const REFERENCE: [(u64, f64, f64); 48] = [
        (0x0000000000000000, 37.42994775023705, -1.190e-15),
        (0x0000000000000800, 36.33133546156894, -3.542e-15),
        (0x0000000000001000, 35.820509837802945, 1.604e-15),
        (0xffffffffffffffff, 1.1102230246251565e-16, 6.163e-33),
        (0xfffffffffffff7ff, 2.2204460492503136e-16, -2.465e-32),
        (0xffffffffffffefff, 2.2204460492503136e-16, -2.465e-32),
        (0xffffffffffffe7ff, 4.440892098500627e-16, 2.919e-47),
        (0x8000000000000000, std::f64::consts::LN_2, 2.319e-17),
        (0x7fffffffffffffff, 0.6931471805599454, 2.319e-17),
        (0x4000000000000000, 1.3862943611198904, 4.638e-17),
        (0xb504f333f9de6484, 0.34657359027997275, -1.078e-17),
        (0xb504f333f9de7000, 0.3465735902799724, 8.273e-18),
        (0xb504f333f9de5000, 0.34657359027997303, 2.569e-17),
        (0x5a827999fcef3242, 1.0397207708399179, 2.194e-17),
        (0xb20a0707fb34c978, 0.3631738634115045, 1.816e-17),
        (0x1fffffffffffffff, 2.079441541679836, 1.806e-16),
        (0x007fffffffffffff, 6.238324625039536, 9.769e-17),
        (0x00007fffffffffff, 11.783502069526346, 2.832e-16),
        (0x00000003ffffffff, 20.794415476403007, -8.586e-16),
        (0x00000000007fffff, 28.419156480721444, 5.992e-16),
        (0x0000000000003fff, 34.72189754913484, -7.482e-16),
        (0xf46f695fb1827ff9, 0.04622719471170175, -1.306e-18),
        (0xff369c301f5051a5, 0.003077697116425402, 2.449e-20),
        (0xfff1ebab3bf3bc60, 0.00021485795616669486, 1.200e-20),
        (0xffffd94a9c4e186b, 2.3072121814925934e-06, 9.987e-23),
        (0xfffff53741828bd7, 6.427860327084368e-07, -4.152e-23),
        (0xfffffff2691a5205, 3.164038591694914e-09, -5.353e-26),
        (0xfffffffffe603039, 1.4772627565673244e-12, 2.547e-29),
        (0xfffffffffffac2dc, 1.8651746813702803e-14, 3.944e-31),
        (0xffffffffffffc60d, 8.881784197001256e-16, 2.335e-46),
        (0x06e82a012b5c5cd1, 3.612657844443677, 6.175e-17),
        (0x6820212c69599354, 0.8995804826629831, 5.480e-18),
        (0x1333bc1cfe6c2b03, 2.5901583624842934, 2.640e-17),
        (0x20050ed31a6e72b9, 2.078824311712294, 5.638e-19),
        (0x7972a36d51b31a6c, 0.7456928526070776, 7.336e-18),
        (0x94a67f00f335c357, 0.5435803694897875, -2.795e-17),
        (0x6977a41b730bed9c, 0.8867760387334555, -5.654e-18),
        (0x332726d0356a4152, 1.6103575540383726, 7.858e-17),
        (0xa0187b4d51209e8f, 0.46940611129826165, 5.954e-18),
        (0xae6ac4a9e89c5bc7, 0.38372809748110026, -1.214e-18),
        (0x542861cd55e7d67e, 1.112484521640229, 7.517e-17),
        (0x17bcc74d6d683cf8, 2.3781249022471633, 2.953e-18),
        (0x8491cabea0afe356, 0.6580704091154914, 4.372e-17),
        (0xd775f593ce3ad2b2, 0.1723985539910831, 5.444e-18),
        (0x67a9b05c7dfb27e8, 0.904033664317552, -5.267e-18),
        (0x34d2ea1614daf467, 1.5782140005038452, -6.885e-17),
        (0x3e1dcfb592bde31c, 1.4161665849540874, -7.381e-17),
        (0x33aa391808fc2081, 1.600398158399087, -1.046e-16),
    ];

    #[test]
    fn logarithms_are_within_a_little_more_than_half_a_unit_in_the_last_place() {
        for (mix, nearest, rest) in REFERENCE {
            let got = Fraction::of_mix(mix).negative_ln();
            let unit = nearest.next_up() - nearest;
            let off = ((got - nearest) - rest).abs() / unit;
            assert!(off <= 0.51, "{mix:#x}: {got:e} is off by {off} units");
        }
    }

    #[test]
    fn logarithms_are_the_same_bits_on_every_machine() {
        // Every machine that runs this test compares with the same number.
        let mut mix = 0_u64;
        let mut digest = 0_u64;
        for step in 0..100_000_u64 {
            mix = mix
                .wrapping_mul(0x5851_f42d_4c95_7f2d)
                .wrapping_add(step | 1);
            // Every other one close to 1, where winners are.
            let mix = if step % 2 == 0 {
                mix
            } else {
                !(mix >> (step % 48))
            };
            let bits = Fraction::of_mix(mix).negative_ln().to_bits();
            digest = (digest ^ bits)
                .wrapping_mul(0x0100_0000_01b3)
                .rotate_left(23);
        }
        assert_eq!(digest, 0xb25c_c6a3_063c_7baf, "{digest:#x}");
    }

    #[test]
    fn a_larger_fraction_never_has_a_larger_logarithm() {
        let mut previous = f64::INFINITY;
        for step in 0..=200_000_u64 {
            let mix = step.wrapping_mul(u64::MAX / 200_000);
            let value = Fraction::of_mix(mix).negative_ln();
            assert!(0.0 < value && value <= previous, "{mix:#x}");
            previous = value;
        }
    }

    #[test]
    fn the_fraction_is_rounded_as_floats_are_and_stays_below_one() {
        assert_eq!(Fraction::of_mix(0), Fraction(1));
        assert_eq!(Fraction::of_mix((1 << 11) - 1), Fraction(1));
        assert_eq!(Fraction::of_mix(1 << 11), Fraction(3));
        let half = 1_u64 << 63;
        assert_eq!(Fraction::of_mix(half), Fraction(1 << 53));
        assert_eq!(Fraction::of_mix(half | 1 << 11), Fraction((1 << 53) + 4));
        assert_eq!(Fraction::of_mix(u64::MAX), Fraction((1 << 54) - 2));
    }
}

//! Power of two choices. With replacement, of n endpoints the one of rank r (1 is the worst) gets (2r - 1) / n² of the
//! picks. The worst is drawn too, now and then, and can show that it has recovered.

use rand::Rng;

use super::score::Score;

/// The better draw; of two equal ones the second.
#[inline]
pub fn better_of_two<T: Copy + PartialEq>(
    [first, second]: [T; 2],
    score: impl Fn(T) -> Score,
) -> T {
    if first != second && score(first) > score(second) {
        first
    } else {
        second
    }
}

/// A number below `limit`, each as likely as the next up to one part in 2⁶⁴ / `limit` (Lemire 2019, without rejection).
#[inline]
pub fn below(limit: usize, random: &mut impl Rng) -> usize {
    split(random.next_u64(), limit).0
}

/// Makes a number below `limit` of evenly distributed bits; what is left is evenly distributed again, in steps of
/// `limit`.
#[inline]
pub fn split(bits: u64, limit: usize) -> (usize, u64) {
    let wide = u128::from(bits) * limit as u128;
    ((wide >> 64) as usize, wide as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::score::Reading;

    fn winner(draws: [usize; 2], healths: [f64; 3]) -> usize {
        better_of_two(draws, |place| {
            Score::of(Reading {
                health: healths[place],
                latency_seconds: None,
                pending: 0,
            })
        })
    }

    #[test]
    fn the_higher_score_wins_in_either_order() {
        assert_eq!(winner([0, 1], [0.9, 0.8, 1.0]), 0);
        assert_eq!(winner([1, 0], [0.9, 0.8, 1.0]), 0);
    }

    #[test]
    fn of_equal_scores_the_second_draw_wins() {
        assert_eq!(winner([0, 1], [1.0, 1.0, 1.0]), 1);
        assert_eq!(winner([1, 0], [1.0, 1.0, 1.0]), 0);
    }

    #[test]
    fn an_endpoint_drawn_twice_is_picked_however_bad_it_is() {
        assert_eq!(winner([1, 1], [1.0, 0.0, 1.0]), 1);
    }
}

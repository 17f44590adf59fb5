//! Power of two choices, with replacement: of n endpoints the one of rank r (1 is the worst) gets (2r - 1) / n² of the
//! picks. The worst is drawn too, now and then, and can show that it has recovered.

use rand::Rng;

use super::score::Score;

/// Draws twice and returns the better draw; of two equal ones the second.
pub fn better_of_two(mut draw: impl FnMut() -> usize, score: impl Fn(usize) -> Score) -> usize {
    let first = draw();
    let second = draw();
    if first != second && score(first) > score(second) {
        first
    } else {
        second
    }
}

/// A number below `limit`, each as likely as the next up to one part in 2⁶⁴ / `limit` (Lemire 2019, without rejection).
pub fn below(limit: usize, random: &mut impl Rng) -> usize {
    let wide = u128::from(random.next_u64()) * limit as u128;
    (wide >> 64) as usize
}

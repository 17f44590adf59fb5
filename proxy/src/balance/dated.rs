//! A value and when it was true, in one word: both change in one step, whoever else changes them at the same time.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use crate::moment::Moment;

/// Some figure of an endpoint, never 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dated {
    pub value: f32,
    at: Tick,
}

/// Monotonic time in units of 2²⁰ ns, about a millisecond. It wraps every 52 days: what is older than 26 days looks
/// fresh, until it is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tick(u32);

/// How fast what is known loses its weight.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fading {
    /// A sixteenth of a tick's part of the time constant.
    sixteenth: f32,
}

impl Fading {
    /// To 1/e in this time.
    pub const fn over(constant: Duration) -> Self {
        let ticks = constant.as_nanos() as f32 / (1_u64 << Tick::SHIFT) as f32;
        Self {
            sixteenth: 1.0 / (16.0 * ticks),
        }
    }

    /// What is left at an age: 1 when fresh, 0 in the end.
    ///
    /// `(1 - x/16)^16` for `e^-x`: whole steps of multiplication, so that all processors agree to the last bit, and
    /// below it by 0.018 at most.
    #[inline]
    pub fn weight(self, dated: Dated, now: Tick) -> f32 {
        let root = (1.0 - dated.at.ticks_until(now) * self.sixteenth).max(0.0);
        let second = root * root;
        let fourth = second * second;
        let eighth = fourth * fourth;
        eighth * eighth
    }
}

impl Dated {
    #[inline]
    pub fn new(value: f32, now: Tick) -> Self {
        Self { value, at: now }
    }

    #[inline]
    fn from_word(word: u64) -> Option<Self> {
        let (upper, lower) = ((word >> 32) as u32, word as u32);
        let value = f32::from_bits(upper);
        (upper != 0 && value.is_finite()).then_some(Self {
            value,
            at: Tick(lower),
        })
    }

    fn word(self) -> u64 {
        u64::from(self.value.to_bits()) << 32 | u64::from(self.at.0)
    }
}

impl Tick {
    const SHIFT: u32 = 20;

    #[inline]
    pub fn of(now: Moment) -> Self {
        Self((now.as_nanos() >> Self::SHIFT) as u32)
    }

    /// Zero if that is later: another worker's clock may have been read a moment after ours.
    #[inline]
    fn ticks_until(self, later: Self) -> f32 {
        let ticks = later.0.wrapping_sub(self.0) as i32;
        ticks.max(0) as f32
    }
}

#[inline]
pub fn read(cell: &AtomicU64) -> Option<Dated> {
    Dated::from_word(cell.load(Relaxed))
}

/// Makes a new value of the old one.
pub fn update(cell: &AtomicU64, next: impl Fn(Option<Dated>) -> Dated) {
    let mut old = cell.load(Relaxed);
    loop {
        let new = next(Dated::from_word(old)).word();
        match cell.compare_exchange_weak(old, new, Relaxed, Relaxed) {
            Ok(_) => return,
            Err(changed) => old = changed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FADING: Fading = Fading::over(Duration::from_secs(1));

    fn at(seconds: f64) -> Tick {
        Tick::of(Moment::default() + Duration::from_secs_f64(seconds))
    }

    #[test]
    fn weight_falls_like_an_exponential() {
        let dated = Dated::new(1.0, at(5.0));
        for (age, expected) in [
            (0.0, 1.0),
            (0.5, 0.6065),
            (1.0, 0.3679),
            (3.0, 0.0498),
            (9.0, 0.0001),
        ] {
            let got = FADING.weight(dated, at(5.0 + age));
            assert!((got - expected).abs() < 0.018, "{got} after {age} s");
        }
        assert_eq!(FADING.weight(dated, at(5.0 + 16.1)), 0.0);
    }

    #[test]
    fn what_another_worker_wrote_a_moment_later_is_fresh() {
        let dated = Dated::new(1.0, at(5.1));
        assert_eq!(FADING.weight(dated, at(5.0)), 1.0);
    }

    #[test]
    fn time_may_wrap() {
        let end = (1_u64 << 32 << Tick::SHIFT) as f64 / 1e9;
        let before = Dated::new(1.0, at(end - 0.5));
        assert!((FADING.weight(before, at(end + 0.5)) - 0.3679).abs() < 0.018);
    }

    #[test]
    fn a_cell_holds_nothing_until_it_is_written() {
        let cell = AtomicU64::new(0);
        assert_eq!(read(&cell), None);
        let first = Dated::new(0.005, at(3.0));
        update(&cell, |old| {
            assert_eq!(old, None);
            first
        });
        assert_eq!(read(&cell), Some(first));
        // What only damaged memory could hold is nothing too.
        assert_eq!(read(&AtomicU64::new(u64::MAX)), None);
    }
}

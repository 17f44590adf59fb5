//! Requests that are sent a second time, to a backend whose responses nobody gets.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::Filters;

/// Who gets a copy of requests, and of how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    /// Its place.
    pub backend: usize,
    pub fraction: Fraction,
    /// What is done to the copies: that of the rule or of the share that asks for them. They hold no mirrors.
    pub filters: Option<Arc<Filters>>,
}

/// A part of all requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fraction {
    numerator: u32,
    denominator: NonZeroU32,
}

impl Fraction {
    pub const ALL: Self = Self {
        numerator: 1,
        denominator: NonZeroU32::MIN,
    };

    /// `None` if it is more than all.
    pub fn new(numerator: u32, denominator: NonZeroU32) -> Option<Self> {
        (numerator <= denominator.get()).then_some(Self {
            numerator,
            denominator,
        })
    }

    /// Whether a request is one of them. `below` draws a number below its argument, and is not asked where there is no
    /// choice.
    pub fn draw(self, below: impl FnOnce(u64) -> u64) -> bool {
        match self.numerator {
            0 => false,
            all if all == self.denominator.get() => true,
            part => below(u64::from(self.denominator.get())) < u64::from(part),
        }
    }

    /// In hundredths.
    pub fn percent(self) -> f64 {
        f64::from(self.numerator) / f64::from(self.denominator.get()) * 100.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_is_that_part_of_all_draws() {
        let four = NonZeroU32::new(4).expect("not zero");
        for part in 1..4 {
            let fraction = Fraction::new(part, four).expect("not more than all");
            let drawn = (0..4).filter(|number| fraction.draw(|_| *number)).count();
            assert_eq!(drawn, part as usize);
        }
        let undrawn = |_| unreachable!("there is no choice");
        assert_eq!(
            Fraction::new(0, four).map(|none| none.draw(undrawn)),
            Some(false)
        );
        assert_eq!(
            Fraction::new(4, four).map(|all| all.draw(undrawn)),
            Some(true)
        );
        assert!(Fraction::ALL.draw(undrawn));
        assert_eq!(Fraction::new(5, four), None);
    }
}

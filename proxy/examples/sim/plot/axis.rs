//! From values to places, and the round values that are worth a mark.

/// How values lie along an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scale {
    Linear,
    /// Equal ratios take equal lengths: for values above 0.
    Logarithmic,
}

/// A range of values.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
}

impl Axis {
    /// From 0 to a little above the highest.
    pub fn from_zero(highest: f64) -> Self {
        Self {
            scale: Scale::Linear,
            low: 0.0,
            high: if highest > 0.0 { highest * 1.05 } else { 1.0 },
        }
    }

    /// Exactly this range.
    pub fn spanning(low: f64, high: f64) -> Self {
        Self {
            scale: Scale::Linear,
            low,
            high,
        }
    }

    /// Around all of these values, which are above 0.
    pub fn logarithmic(values: impl Iterator<Item = f64>) -> Self {
        let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if high <= 0.0 {
            return Self {
                scale: Scale::Logarithmic,
                low: 1.0,
                high: 10.0,
            };
        }
        Self {
            scale: Scale::Logarithmic,
            low: low / 1.25,
            high: (high * 1.25).max(low * 3.0),
        }
    }

    /// 0 at the low end, 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Logarithmic => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values within the range.
    pub fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.linear_ticks(),
            Scale::Logarithmic => self.logarithmic_ticks(),
        }
    }

    fn linear_ticks(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 5.0;
        let power = 10.0_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
        let step = steps.into_iter().find(|step| *step >= rough);
        let step = step.unwrap_or(power);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|tick| tick as f64 * step).collect()
    }

    fn logarithmic_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let digits: &[f64] = match decades {
            _ if decades > 4.0 => &[1.0],
            _ if decades > 1.5 => &[1.0, 3.0],
            _ => &[1.0, 2.0, 3.0, 5.0, 7.0],
        };
        let first = self.low.log10().floor() as i32;
        let last = self.high.log10().ceil() as i32;
        let ticks = (first..=last)
            .flat_map(|power| digits.iter().map(move |digit| digit * 10.0_f64.powi(power)));
        ticks
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_round_and_within_the_range() {
        assert_eq!(
            Axis::spanning(0.0, 50.0).ticks(),
            [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]
        );
        let axis = Axis::logarithmic([4.0, 40.0].into_iter());
        assert_eq!(axis.ticks(), [5.0, 7.0, 10.0, 20.0, 30.0, 50.0]);
    }

    #[test]
    fn equal_ratios_take_equal_lengths_on_a_logarithmic_axis() {
        let axis = Axis::logarithmic([1.0, 1000.0].into_iter());
        let step = axis.place(10.0) - axis.place(1.0);
        assert!((axis.place(1000.0) - axis.place(100.0) - step).abs() < 1e-9);
    }
}

//! Draws by weight in constant time: Walker's alias method, built after Vose (1991). Whole numbers throughout, so the
//! shares are exact.

use rand::Rng;

use super::p2c::below;

/// A column for every candidate: a draw picks a column, then either its own candidate or the alias that fills it up.
#[derive(Debug, Default)]
pub struct AliasTable {
    /// Out of `total`: below it a draw goes to the column's own candidate.
    cuts: Vec<u64>,
    aliases: Vec<usize>,
    total: u64,
    /// Worklists of the build, kept so that rebuilding need not allocate.
    short: Vec<usize>,
    long: Vec<usize>,
}

impl AliasTable {
    /// Builds the table for these weights, of which at least one is above 0.
    pub fn rebuild(&mut self, weights: impl Iterator<Item = u16>) {
        self.cuts.clear();
        self.cuts.extend(weights.map(u64::from));
        self.total = self.cuts.iter().sum();
        let columns = self.cuts.len();
        self.aliases.clear();
        self.aliases.extend(0..columns);

        // Scaled by the number of columns, the weights fill every column to `total` on average.
        self.short.clear();
        self.long.clear();
        for (column, cut) in self.cuts.iter_mut().enumerate() {
            *cut *= columns as u64;
            if *cut < self.total {
                self.short.push(column);
            } else {
                self.long.push(column);
            }
        }
        while let (Some(short), Some(long)) = (self.short.pop(), self.long.last().copied()) {
            self.aliases[short] = long;
            self.cuts[long] -= self.total - self.cuts[short];
            if self.cuts[long] < self.total {
                self.long.pop();
                self.short.push(long);
            }
        }
    }

    /// The place of a candidate, drawn by its weight.
    pub fn draw(&self, random: &mut impl Rng) -> usize {
        let column = below(self.cuts.len(), random);
        if (below(self.total as usize, random) as u64) < self.cuts[column] {
            column
        } else {
            self.aliases[column]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How much of all columns goes to each candidate: the exact distribution of draws.
    fn areas(table: &AliasTable) -> Vec<u64> {
        let mut areas = vec![0; table.cuts.len()];
        for (column, cut) in table.cuts.iter().enumerate() {
            let own = (*cut).min(table.total);
            areas[column] += own;
            areas[table.aliases[column]] += table.total - own;
        }
        areas
    }

    proptest! {
        #[test]
        fn every_candidate_is_drawn_exactly_by_its_weight(
            weights in prop::collection::vec(0_u16.., 1..200)
                .prop_filter("some weight", |weights| weights.iter().any(|weight| *weight > 0))
        ) {
            let mut table = AliasTable::default();
            table.rebuild([9, 1].into_iter());
            table.rebuild(weights.iter().copied());
            let expected: Vec<u64> = weights
                .iter()
                .map(|weight| u64::from(*weight) * weights.len() as u64)
                .collect();
            prop_assert_eq!(areas(&table), expected);
        }
    }
}

//! Draws by weight in constant time: Walker's alias method, built after Vose (1991). Whole numbers throughout, so the
//! shares are exact.

use std::hint::select_unpredictable;

use rand::Rng;

use super::p2c::split;

/// A column for every candidate: a draw picks a column, then either its own candidate or the alias that fills it up.
#[derive(Debug, Default)]
pub struct AliasTable {
    columns: Vec<Column>,
    total: u64,
    /// Worklists of the build, kept so that rebuilding need not allocate.
    short: Vec<usize>,
    long: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Column {
    /// Out of `total`: below it a draw goes to the column's own candidate.
    cut: u64,
    alias: usize,
}

impl AliasTable {
    /// Builds the table for these weights, of which at least one is above 0.
    pub fn rebuild(&mut self, weights: impl Iterator<Item = u32>) {
        self.columns.clear();
        let weights = weights.enumerate();
        self.columns.extend(weights.map(|(place, weight)| Column {
            cut: weight.into(),
            alias: place,
        }));
        self.total = self.columns.iter().map(|column| column.cut).sum();

        // Scaled by the number of columns, the weights fill every column to `total` on average.
        let count = self.columns.len() as u64;
        self.short.clear();
        self.long.clear();
        for (place, column) in self.columns.iter_mut().enumerate() {
            column.cut *= count;
            if column.cut < self.total {
                self.short.push(place);
            } else {
                self.long.push(place);
            }
        }
        while let (Some(short), Some(long)) = (self.short.pop(), self.long.last().copied()) {
            self.columns[short].alias = long;
            self.columns[long].cut -= self.total - self.columns[short].cut;
            if self.columns[long].cut < self.total {
                self.long.pop();
                self.short.push(long);
            }
        }
    }

    /// The place of a candidate, drawn by its weight.
    #[inline]
    pub fn draw(&self, random: &mut impl Rng) -> usize {
        // One number for both draws: what is left of it after the first has more than enough bits for the second.
        let (place, rest) = split(random.next_u64(), self.columns.len());
        let Column { cut, alias } = self.columns[place];
        let (level, _) = split(rest, self.total as usize);
        // As good as a coin toss to the processor: choosing costs less than guessing.
        select_unpredictable((level as u64) < cut, place, alias)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How much of all columns goes to each candidate: the exact distribution of draws.
    fn areas(table: &AliasTable) -> Vec<u64> {
        let mut areas = vec![0; table.columns.len()];
        for (place, column) in table.columns.iter().enumerate() {
            let own = column.cut.min(table.total);
            areas[place] += own;
            areas[column.alias] += table.total - own;
        }
        areas
    }

    proptest! {
        #[test]
        fn every_candidate_is_drawn_exactly_by_its_weight(
            weights in prop::collection::vec(0_u32..6_553_600, 1..200)
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

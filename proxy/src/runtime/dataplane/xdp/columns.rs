//! Draws by weight in constant time, for the kernel: Walker's alias method, built after Vose (1991), cuts in 2^-32. A share
//! is off by less than that.

/// One candidate's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// In 2^-32: a number up to and including it stays with the column's own candidate.
    pub cut: u32,
    /// The candidate that has the rest of the column.
    pub alias: u32,
}

/// A column for each of these weights, which are above 0.
pub fn columns(weights: &[u16]) -> Vec<Column> {
    let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
    let count = weights.len() as u64;
    // Scaled by the number of columns, the weights fill every column to `total` on average.
    let mut filled: Vec<u64> = weights.iter().map(|one| u64::from(*one) * count).collect();
    let mut alias: Vec<u32> = (0..weights.len() as u32).collect();
    let (mut short, mut long): (Vec<usize>, Vec<usize>) =
        (0..weights.len()).partition(|place| filled[*place] < total);
    while let (Some(poor), Some(rich)) = (short.pop(), long.last().copied()) {
        alias[poor] = rich as u32;
        filled[rich] -= total - filled[poor];
        if filled[rich] < total {
            long.pop();
            short.push(rich);
        }
    }
    let cut = |filled: u64| {
        let numbers = (u128::from(filled) << 32) / u128::from(total.max(1));
        u32::try_from(numbers.saturating_sub(1)).unwrap_or(u32::MAX)
    };
    let columns = filled.iter().zip(alias);
    columns
        .map(|(filled, alias)| Column {
            cut: cut(*filled),
            alias,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// How many of all numbers of 32 bits, in all columns, go to each candidate.
    fn shares(columns: &[Column]) -> Vec<u64> {
        let mut shares = vec![0; columns.len()];
        for (place, column) in columns.iter().enumerate() {
            let own = u64::from(column.cut) + 1;
            shares[place] += own;
            shares[column.alias as usize] += (1 << 32) - own;
        }
        shares
    }

    #[test]
    fn equal_weights_need_no_alias() {
        let column = |alias| Column {
            cut: u32::MAX,
            alias,
        };
        assert_eq!(columns(&[7, 7, 7]), [0, 1, 2].map(column));
        assert_eq!(columns(&[]), []);
    }

    proptest! {
        #[test]
        fn every_candidate_has_its_share_up_to_one_number_a_column(
            weights in prop::collection::vec(1_u16.., 1..64)
        ) {
            let total: u64 = weights.iter().map(|weight| u64::from(*weight)).sum();
            let count = weights.len() as u128;
            for (weight, share) in weights.iter().zip(shares(&columns(&weights))) {
                let exact = ((u128::from(*weight) * count) << 32) / u128::from(total);
                prop_assert!(exact.abs_diff(u128::from(share)) <= count + 1);
            }
        }
    }
}

//! Bodies that need not be kept to be checked: byte `n` of every body is known, and no shift, loss or repetition of a
//! piece goes unseen, because the period is a prime far above any buffer's size.

use std::sync::LazyLock;

const PERIOD: usize = 1_000_003;

/// Enough for a whole block from any place of the period.
static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let period: Vec<u8> = std::iter::repeat_with(|| {
        // xorshift64: any full-period generator would do.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
    .take(PERIOD)
    .collect();
    [&period[..], &period[..BLOCK]].concat()
});

/// Longest piece [`at`] gives.
pub const BLOCK: usize = 256 * 1024;

/// Bytes of the body from `offset` on, at most [`BLOCK`].
pub fn at(offset: u64, length: usize) -> &'static [u8] {
    let start = usize::try_from(offset % PERIOD as u64).expect("below the period");
    &BYTES[start..start + length.min(BLOCK)]
}

/// Whether `bytes` are those of the body from `offset` on.
pub fn is_at(offset: u64, bytes: &[u8]) -> bool {
    let mut offset = offset;
    bytes.chunks(BLOCK).all(|piece| {
        let right = at(offset, piece.len()) == piece;
        offset += piece.len() as u64;
        right
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shifted_piece_is_not_the_pattern() {
        let piece = at(999_000, BLOCK);
        assert!(is_at(999_000, piece));
        assert!(is_at(999_000 + PERIOD as u64, piece));
        assert!(!is_at(999_001, piece));
        assert!(!is_at(0, piece));
    }
}

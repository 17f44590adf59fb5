//! How much an expression can cost, counted in bytes touched on the largest request there can be, and how large its value
//! can become.

/// Bytes an evaluation may touch on the largest request: some milliseconds.
pub const MAX_COST: u64 = 32 << 20;
/// The largest head, and with it any part of it.
pub const HEAD: u64 = 64 << 10;
/// Fields of a head.
pub const FIELDS: u64 = 128;
/// Bytes that compiling a pattern is worth.
pub const PATTERN: u64 = 1 << 20;

/// The most an expression can cost, and the most its value can hold.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bound {
    pub cost: u64,
    /// Bytes, with those of all elements.
    pub size: u64,
    /// Elements.
    pub count: u64,
}

impl Bound {
    pub const fn of_size(size: u64) -> Self {
        Self {
            cost: 1,
            size,
            count: size,
        }
    }

    pub fn and(self, other: Self) -> Self {
        Self {
            cost: self.cost.saturating_add(other.cost),
            size: self.size.saturating_add(other.size),
            count: self.count.saturating_add(other.count),
        }
    }
}

//! How much an expression can cost, counted in bytes touched on the largest request there can be, and how large its value
//! can become.

/// Bytes an evaluation may touch on the largest request: some milliseconds.
pub const MAX_COST: u64 = 32 << 20;
/// The largest head, and with it any part of it.
pub const HEAD: u64 = 64 << 10;
/// Fields of a head.
pub const FIELDS: u64 = 128;
/// Bytes that compiling a pattern is worth.
const PATTERN: u64 = 1 << 20;

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

    /// Of a function with the bounds of what it is called on and with.
    pub fn of_call(function: &str, parts: &[Self]) -> Self {
        let sum = parts
            .iter()
            .fold(Self::default(), |sum, part| sum.and(*part));
        let size = match function {
            "replace" | "join" => {
                let sizes = parts.iter().map(|part| part.size.max(1));
                sizes.fold(1, u64::saturating_mul)
            }
            // Numbers are written out: of 8 bytes one gets up to 309 digits, and asks for another 100.
            "format" => sum.size.saturating_mul(64).saturating_add(512),
            "quote" => sum.size.saturating_mul(2).saturating_add(2),
            _ => sum.size,
        };
        let pattern = if function == "matches" { PATTERN } else { 0 };
        Self {
            cost: sum.cost.saturating_add(size).saturating_add(pattern),
            size,
            count: sum.count.min(size),
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

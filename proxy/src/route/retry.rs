//! When a request is tried again, and how often.

use std::time::Duration;

/// What a rule says of further attempts at its requests. The default asks for what can do no harm: a request that has
/// reached nobody, because no connection to its endpoint came to stand, goes to another endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retry {
    /// Tries after the first one. 0: none.
    pub attempts: u8,
    pub on: RetryOn,
    /// Shortest wait before the first further try; it doubles with every other. Unset: none after a failed connection,
    /// else [`DEFAULT_BACKOFF`](Self::DEFAULT_BACKOFF).
    pub backoff: Option<Duration>,
}

/// What a request is tried again after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryOn {
    /// No connection, as long as there is an endpoint that has not been tried.
    NoConnection,
    /// No connection, no response, or a response with one of these statuses.
    Failure(StatusCodes),
}

impl Retry {
    /// Tries after the first one where nothing is said of their number.
    pub const DEFAULT_ATTEMPTS: u8 = 2;

    pub const DEFAULT_BACKOFF: Duration = Duration::from_millis(25);

    pub const OFF: Self = Self {
        attempts: 0,
        on: RetryOn::NoConnection,
        backoff: None,
    };

    /// Whether requests may be tried again that have reached an endpoint.
    pub fn is_budgeted(&self) -> bool {
        self.attempts > 0 && matches!(self.on, RetryOn::Failure(_))
    }
}

impl Default for Retry {
    fn default() -> Self {
        Self {
            attempts: Self::DEFAULT_ATTEMPTS,
            ..Self::OFF
        }
    }
}

/// How many requests of a backend may be tried again after they had reached an endpoint: retries must not multiply the
/// load of one that fails because it has too much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryBudget {
    /// Of a hundred requests.
    pub percent: u8,
    /// More of them in every second, on each worker.
    pub floor: u8,
}

impl Default for RetryBudget {
    fn default() -> Self {
        Self {
            percent: 20,
            floor: 5,
        }
    }
}

/// A set of statuses from 400 to 599.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusCodes([u64; 4]);

impl StatusCodes {
    const FIRST: u16 = 400;

    /// Adds a status. False if it is not one from 400 to 599.
    #[must_use]
    pub fn insert(&mut self, code: u16) -> bool {
        if !(400..600).contains(&code) {
            return false;
        }
        let bit = usize::from(code - Self::FIRST);
        self.0[bit / 64] |= 1 << (bit % 64);
        true
    }

    pub fn contains(&self, code: u16) -> bool {
        let bit = usize::from(code.wrapping_sub(Self::FIRST));
        self.0
            .get(bit / 64)
            .is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_statuses_put_in_and_no_others() {
        let mut codes = StatusCodes::default();
        assert!(codes.is_empty());
        for code in [400, 429, 503, 599] {
            assert!(codes.insert(code), "{code}");
        }
        for code in [0, 399, 600, u16::MAX] {
            assert!(!codes.insert(code), "{code}");
        }
        let has: Vec<u16> = (0..=u16::MAX)
            .filter(|code| codes.contains(*code))
            .collect();
        assert_eq!(has, [400, 429, 503, 599]);
    }
}

//! When a flood of connections is over. What its connections queued was freed, but the allocator keeps the pages between
//! the few blocks that stay: it is told to give them back once, when it has been calm for a while.

use std::time::Duration;

use crate::moment::Moment;

/// Connections that make no flood.
const FEW: u64 = 64;
/// How long it must be calm.
const CALM: Duration = Duration::from_secs(5);

/// The highest level since the last ebb, and since when it is far below.
#[derive(Debug, Default)]
pub struct Tide {
    high: u64,
    low_since: Option<Moment>,
}

impl Tide {
    /// So many connections are open. Whether a flood has gone: less than half of it has been left for a while.
    pub fn has_ebbed(&mut self, connections: u64, now: Moment) -> bool {
        self.high = self.high.max(connections);
        if self.high < FEW || connections > self.high / 2 {
            self.low_since = None;
            return false;
        }
        let since = *self.low_since.get_or_insert(now);
        let is_over = now.since(since) >= CALM;
        if is_over {
            *self = Self {
                high: connections,
                low_since: None,
            };
        }
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The seconds at which a flood is over, at one level a second.
    fn ebbs(levels: &[(u64, usize)]) -> Vec<usize> {
        let mut tide = Tide::default();
        let levels = levels
            .iter()
            .flat_map(|(level, seconds)| std::iter::repeat_n(*level, *seconds));
        levels
            .enumerate()
            .filter(|(second, level)| {
                let now = Moment::from_nanos(*second as u64 * 1_000_000_000);
                tide.has_ebbed(*level, now)
            })
            .map(|(second, _)| second)
            .collect()
    }

    #[test]
    fn a_flood_is_over_once_it_has_been_calm() {
        assert_eq!(ebbs(&[(10, 5), (300, 10), (20, 60)]), [20]);
        assert_eq!(ebbs(&[(300, 10), (20, 20), (90, 5), (0, 20)]), [15, 40]);
    }

    #[test]
    fn neither_few_connections_nor_a_dent_are_a_flood() {
        assert_eq!(ebbs(&[(63, 10), (0, 60)]), [0; 0]);
        assert_eq!(ebbs(&[(300, 10), (160, 60)]), [0; 0]);
        assert_eq!(
            ebbs(&[(300, 5), (20, 4), (300, 5), (20, 4), (300, 9)]),
            [0; 0]
        );
    }
}

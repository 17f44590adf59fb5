//! How many connections the limit of open descriptors allows.

/// Descriptors that come and go beside connections: admin clients, files read, sockets that check endpoints.
const RESERVED: u64 = 64;
/// Clients that are told of a shortage at one time, at most.
const MAX_SHED: u64 = 256;

/// Connections of one worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Clients served.
    pub downstreams: usize,
    /// Clients beyond those, taken in to be told so.
    pub shed: usize,
    /// To endpoints, idle ones included.
    pub upstreams: usize,
}

impl Budget {
    /// `in_use` descriptors are open already, of `limit`.
    ///
    /// Two fifths are for clients and two for endpoints, so that each client can have an endpoint. The last is for
    /// connections that are being closed while others take their place, and for clients that are turned away.
    pub fn of(limit: u64, in_use: u64, workers: usize) -> Self {
        let free = limit.saturating_sub(in_use);
        // Of few descriptors a part: a proxy that serves little is better than one that serves nothing.
        let reserved = RESERVED.min(free / 4);
        let each = (free - reserved) / workers.max(1) as u64;
        let served = (each * 2 / 5).max(1);
        let shed = (each / 10).clamp(1, MAX_SHED);
        let count = |count: u64| usize::try_from(count).unwrap_or(usize::MAX);
        Self {
            downstreams: count(served),
            shed: count(shed),
            upstreams: count(served),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn total(budget: Budget) -> usize {
        budget.downstreams + budget.shed + budget.upstreams
    }

    #[test]
    fn all_connections_together_leave_descriptors_for_the_rest() {
        for limit in [64, 100, 256, 1024, 4096, 1 << 20] {
            for workers in [1, 2, 8] {
                let in_use = 20 + 2 * workers as u64;
                let budget = Budget::of(limit, in_use, workers);
                let left = limit - in_use;
                assert!(budget.downstreams >= 1 && budget.shed >= 1);
                if left as usize >= 8 * workers {
                    let all = (total(budget) * workers) as u64;
                    assert!(all < left, "{budget:?} of {limit} for {workers}");
                }
            }
        }
    }

    #[test]
    fn plenty_of_descriptors_are_used_but_for_a_fifth_and_the_reserve() {
        let budget = Budget::of(100_064, 0, 2);
        let expected = Budget {
            downstreams: 20_000,
            shed: 256,
            upstreams: 20_000,
        };
        assert_eq!(budget, expected);
    }

    #[test]
    fn with_nothing_left_one_of_each_is_tried() {
        let least = Budget {
            downstreams: 1,
            shed: 1,
            upstreams: 1,
        };
        assert_eq!(Budget::of(10, 20, 4), least);
    }
}

//! Idle connections to endpoints. The one used last is taken first: its peer is the least likely to have closed it, and
//! connections too many for the load grow old and go. Where descriptors are short, the one idle for longest goes first,
//! whichever endpoint it leads to. Every operation takes the same time however many there are.

use super::chain::{Chain, Ends};
use crate::seam::ConnId;

/// Idle connections kept to one endpoint by one worker.
const MAX_IDLE: usize = 512;

/// One worker's idle connections, by row of the endpoint tables.
#[derive(Debug, Default)]
pub struct Pool {
    /// By the index of the connection; `None` if it is not idle.
    kept: Vec<Option<Kept>>,
    /// Through those of one endpoint.
    of_endpoint: Chain,
    endpoints: Vec<Idle>,
    /// Through all of them.
    of_all: Chain,
    all: Ends,
}

#[derive(Clone, Copy, Debug)]
struct Kept {
    conn: ConnId,
    endpoint: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Idle {
    ends: Ends,
    count: usize,
}

impl Pool {
    /// Keeps an idle connection. `false` if enough are kept: close it.
    #[must_use]
    pub fn put(&mut self, endpoint: u32, conn: ConnId) -> bool {
        let place = endpoint as usize;
        if self.endpoints.len() <= place {
            self.endpoints.resize_with(place + 1, Idle::default);
        }
        let idle = &mut self.endpoints[place];
        if idle.count >= MAX_IDLE {
            return false;
        }
        idle.count += 1;
        self.of_endpoint.push_newest(&mut idle.ends, conn.index);
        self.of_all.push_newest(&mut self.all, conn.index);
        let index = conn.index as usize;
        if self.kept.len() <= index {
            self.kept.resize(index + 1, None);
        }
        self.kept[index] = Some(Kept { conn, endpoint });
        true
    }

    /// The connection to this endpoint that was used last.
    pub fn take(&mut self, endpoint: u32) -> Option<ConnId> {
        let newest = self.endpoints.get(endpoint as usize)?.ends.newest()?;
        self.unlink(newest)
    }

    /// The connection that has been idle for longest.
    pub fn take_oldest(&mut self) -> Option<ConnId> {
        let oldest = self.all.oldest()?;
        self.unlink(oldest)
    }

    /// Forgets a connection that died while idle.
    pub fn remove(&mut self, conn: ConnId) {
        let kept = self.kept.get(conn.index as usize).copied().flatten();
        if kept.is_some_and(|kept| kept.conn == conn) {
            self.unlink(conn.index);
        }
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    fn unlink(&mut self, index: u32) -> Option<ConnId> {
        let Kept { conn, endpoint } = self.kept.get_mut(index as usize)?.take()?;
        let idle = &mut self.endpoints[endpoint as usize];
        idle.count -= 1;
        self.of_endpoint.remove(&mut idle.ends, index);
        self.of_all.remove(&mut self.all, index);
        Some(conn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn conn(index: u32) -> ConnId {
        ConnId {
            index,
            generation: 0,
        }
    }

    #[test]
    fn the_connection_used_last_is_taken_first() {
        let mut pool = Pool::default();
        assert!(pool.put(3, conn(1)) && pool.put(3, conn(2)) && pool.put(0, conn(9)));
        pool.remove(conn(7));
        assert_eq!(pool.take(3), Some(conn(2)));
        pool.remove(conn(1));
        assert_eq!(pool.take(3), None);
        assert_eq!(pool.take(77), None);
        assert_eq!(pool.take_oldest(), Some(conn(9)));
        assert_eq!(pool.take_oldest(), None);
    }

    #[test]
    fn the_connection_idle_for_longest_goes_first_whichever_its_endpoint() {
        let mut pool = Pool::default();
        for (endpoint, index) in [(3, 1), (0, 2), (3, 4), (1, 0)] {
            assert!(pool.put(endpoint, conn(index)));
        }
        assert_eq!(pool.take(3), Some(conn(4)));
        assert!(pool.put(3, conn(4)));
        let order: Vec<u32> = std::iter::from_fn(|| pool.take_oldest())
            .map(|conn| conn.index)
            .collect();
        assert_eq!(order, [1, 2, 0, 4]);
        assert!(pool.put(0, conn(2)));
        assert_eq!(pool.take(0), Some(conn(2)));
    }

    #[test]
    fn an_older_connection_of_the_same_index_is_not_the_one_kept() {
        let mut pool = Pool::default();
        assert!(pool.put(0, conn(5)));
        pool.remove(ConnId {
            index: 5,
            generation: 7,
        });
        assert_eq!(pool.take(0), Some(conn(5)));
    }

    #[test]
    fn more_than_enough_idle_connections_are_not_kept() {
        let mut pool = Pool::default();
        assert!((0..MAX_IDLE as u32).all(|index| pool.put(0, conn(index))));
        assert!(!pool.put(0, conn(9999)));
        pool.clear();
        assert!(pool.put(0, conn(9999)));
    }
}

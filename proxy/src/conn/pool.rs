//! Idle connections to endpoints. The one used last is taken first: its peer is the least likely to have closed it, and
//! connections too many for the load grow old and go.

use crate::seam::ConnId;

/// Idle connections kept to one endpoint by one worker.
const MAX_IDLE: usize = 512;

/// One worker's idle connections, by row of the endpoint tables.
#[derive(Debug, Default)]
pub struct Pool {
    idle: Vec<Vec<ConnId>>,
}

impl Pool {
    /// Keeps an idle connection. `false` if enough are kept: close it.
    #[must_use]
    pub fn put(&mut self, endpoint: u32, conn: ConnId) -> bool {
        let endpoint = endpoint as usize;
        if self.idle.len() <= endpoint {
            self.idle.resize_with(endpoint + 1, Vec::new);
        }
        let idle = &mut self.idle[endpoint];
        let has_room = idle.len() < MAX_IDLE;
        if has_room {
            idle.push(conn);
        }
        has_room
    }

    pub fn take(&mut self, endpoint: u32) -> Option<ConnId> {
        self.idle.get_mut(endpoint as usize)?.pop()
    }

    /// Forgets a connection that died while idle.
    pub fn remove(&mut self, endpoint: u32, conn: ConnId) {
        if let Some(idle) = self.idle.get_mut(endpoint as usize) {
            idle.retain(|kept| *kept != conn);
        }
    }

    /// Takes all of them.
    pub fn drain(&mut self) -> impl Iterator<Item = ConnId> {
        self.idle.iter_mut().flat_map(|idle| idle.drain(..))
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
        pool.remove(3, conn(7));
        assert_eq!(pool.take(3), Some(conn(2)));
        pool.remove(3, conn(1));
        assert_eq!(pool.take(3), None);
        assert_eq!(pool.take(77), None);
        assert_eq!(pool.drain().collect::<Vec<_>>(), [conn(9)]);
    }

    #[test]
    fn more_than_enough_idle_connections_are_not_kept() {
        let mut pool = Pool::default();
        assert!((0..MAX_IDLE as u32).all(|index| pool.put(0, conn(index))));
        assert!(!pool.put(0, conn(9999)));
    }
}

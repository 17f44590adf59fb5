//! Looks through the connections of L4 services, a part at a time: forgets those that nobody uses, and sets right what the
//! programs count as open. They count an end when they see one; a connection whose ends fell silent, or that made room in
//! the table, has none.

use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_common::{Connection, ConnectionKey, Progress, SEEN_SHIFT, TCP};

use super::super::syscall::{Batch, HashTable, Place};
use crate::balance::shared::SharedTables;
use crate::moment::Moment;

/// Elements read by one system call, and how many calls there are at a time: some milliseconds.
const BATCH: usize = 1024;
const BATCHES: usize = 16;

/// An endpoint that has not accepted after so long never will: Linux gives up its own SYN-ACKs after a minute, its
/// clients most of theirs.
const UNACCEPTED: Duration = Duration::from_secs(60);
/// Both ends may send their last again (TIME_WAIT of Linux).
const CLOSED: Duration = Duration::from_secs(60);
/// Of what goes by datagrams nothing tells the end (as conntrack for streams of them).
const DATAGRAMS: Duration = Duration::from_secs(120);

pub struct Sweep {
    connections: HashTable<ConnectionKey, Connection>,
    batch: Batch<ConnectionKey, Connection>,
    place: Place,
    tally: Tally,
}

impl Sweep {
    pub fn over(connections: HashTable<ConnectionKey, Connection>) -> Self {
        Self {
            connections,
            batch: Batch::with_room_for(BATCH),
            place: Place::Start,
            tally: Tally::default(),
        }
    }

    /// Looks at the next part. `idle` is how long a connection both ends agree on is kept without a packet.
    ///
    /// # Errors
    /// What the kernel says; the next call begins anew.
    pub fn go_on(&mut self, tables: &SharedTables, now: Moment, idle: Duration) -> io::Result<()> {
        let limits = Limits {
            now: seconds(now.as_nanos()),
            idle,
        };
        for _ in 0..BATCHES {
            let walked = self.walk(tables, &limits);
            if walked.is_err() || self.place == Place::End {
                self.place = Place::Start;
                return walked;
            }
        }
        Ok(())
    }

    fn walk(&mut self, tables: &SharedTables, limits: &Limits) -> io::Result<()> {
        if self.place == Place::Start {
            self.tally.begin(tables);
        }
        let connections = &self.connections;
        connections.some_at(&mut self.place, &mut self.batch)?;
        for (key, connection) in self.batch.found() {
            let partner = connection.answer_key(key.protocol);
            let is_unused = limits.are_over(key, connection)
                && connections
                    .find(&partner)?
                    .is_none_or(|other| limits.are_over(&partner, &other));
            if is_unused {
                connections.remove(key)?;
                connections.remove(&partner)?;
            } else if key.protocol == TCP {
                self.tally.see(connection);
            }
        }
        if self.place == Place::End {
            self.tally.settle(tables);
        }
        Ok(())
    }
}

struct Limits {
    /// As [`Connection::seen`].
    now: u64,
    idle: Duration,
}

impl Limits {
    /// Whether packets of this direction have been missing for long enough.
    fn are_over(&self, key: &ConnectionKey, connection: &Connection) -> bool {
        let is = |progress| connection.progress & progress != 0;
        let limit = match key.protocol {
            TCP if is(Progress::CLOSED) => CLOSED,
            TCP if !is(Progress::ACCEPTED) => UNACCEPTED,
            TCP => self.idle,
            _ => DATAGRAMS,
        };
        let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        self.now.saturating_sub(u64::from(connection.seen)) > seconds(limit)
    }
}

/// Nearly seconds: in the unit of [`Connection::seen`].
fn seconds(ns: u64) -> u64 {
    ns >> SEEN_SHIFT
}

/// What stands, against what is counted as open. Connections come and go during a walk; what is counted as open before
/// it and has not ended after it, but has not been met by it either, is gone.
#[derive(Default)]
struct Tally {
    /// By row of the endpoint.
    endpoints: Vec<Standing>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    generation: u64,
    /// As counted when the walk began.
    opened: u64,
    /// Met by the walk.
    met: u64,
}

impl Tally {
    fn begin(&mut self, tables: &SharedTables) {
        let rows = tables.state.iter().zip(&tables.score[..]);
        self.endpoints.clear();
        self.endpoints.extend(rows.map(|(state, score)| Standing {
            generation: state.generation.load(Relaxed),
            opened: score.opened.load(Relaxed),
            met: 0,
        }));
    }

    /// An element of a connection of TCP.
    fn see(&mut self, connection: &Connection) {
        let is_counted = connection.progress & Progress::TO_ENDPOINT != 0
            && connection.progress & Progress::CLOSED == 0;
        if let Some(endpoint) = self.endpoints.get_mut(connection.endpoint as usize)
            && is_counted
            && endpoint.generation == connection.generation
        {
            endpoint.met += 1;
        }
    }

    fn settle(&self, tables: &SharedTables) {
        let rows = tables.state.iter().zip(&tables.score[..]);
        for (endpoint, (state, score)) in self.endpoints.iter().zip(rows) {
            let closed = score.closed.load(Relaxed);
            let gone = endpoint.opened.saturating_sub(closed + endpoint.met);
            if gone > 0 && state.generation.load(Relaxed) == endpoint.generation {
                // If one ends in this moment, the next walk finds the same.
                let _ = score
                    .closed
                    .compare_exchange(closed, closed + gone, Relaxed, Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::shared::Sizes;

    fn tables(opened: u64, closed: u64) -> SharedTables {
        let sizes = Sizes {
            capacity: 2,
            workers: 1,
            cpus: 1,
            flows: 1,
        };
        let tables = SharedTables::anonymous(sizes);
        tables.state[1].generation.store(5, Relaxed);
        tables.score[1].opened.store(opened, Relaxed);
        tables.score[1].closed.store(closed, Relaxed);
        tables
    }

    fn to_endpoint(progress: u32, generation: u64) -> Connection {
        Connection {
            endpoint: 1,
            generation,
            progress: Progress::TO_ENDPOINT | progress,
            ..Connection::default()
        }
    }

    fn closed(tables: &SharedTables) -> u64 {
        tables.score[1].closed.load(Relaxed)
    }

    #[test]
    fn what_is_counted_as_open_and_not_met_has_ended() {
        let tables = tables(10, 4);
        let mut tally = Tally::default();
        tally.begin(&tables);
        tally.see(&to_endpoint(0, 5));
        tally.see(&to_endpoint(Progress::ACCEPTED, 5));
        // None of these stands for an open connection of this endpoint.
        tally.see(&to_endpoint(Progress::CLOSED, 5));
        tally.see(&to_endpoint(0, 4));
        tally.see(&Connection {
            progress: 0,
            ..to_endpoint(0, 5)
        });
        tally.settle(&tables);
        assert_eq!(closed(&tables), 8);
    }

    #[test]
    fn connections_that_come_and_go_during_a_walk_are_left_alone() {
        let tables = tables(2, 0);
        let mut tally = Tally::default();
        tally.begin(&tables);
        // One is met, the other ends before it is; three come where the walk has been.
        tally.see(&to_endpoint(0, 5));
        tables.score[1].closed.store(1, Relaxed);
        tables.score[1].opened.store(5, Relaxed);
        tally.settle(&tables);
        assert_eq!(closed(&tables), 1);
    }

    #[test]
    fn a_row_given_to_another_endpoint_meanwhile_is_left_alone() {
        let tables = tables(2, 0);
        let mut tally = Tally::default();
        tally.begin(&tables);
        tables.state[1].generation.store(6, Relaxed);
        tally.settle(&tables);
        assert_eq!(closed(&tables), 0);
    }
}

//! What a worker tells of itself, once in every turn of its loop, so that the kernel can give new connections to whoever
//! has time for them: plain stores to a row of its own.
//!
//! A worker that waits cannot be told from one that is held up by its silence alone. So it promises when it will speak
//! again, and keeps its sleep short while there is something to do; who is late is held up, whatever by.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_common::{WorkerCells, WorkerSteeredCells};

use crate::balance::shared::SharedTables;
use crate::moment::Moment;

/// A busy worker speaks at least this often: so much of a delay goes unnoticed.
const SHORTEST_SLEEP: Duration = Duration::from_millis(10);
/// An idle one at least this often: after a second of silence nobody counts on it.
const LONGEST_SLEEP: Duration = Duration::from_millis(800);
/// Turns the lag is an average of.
const LAG_MEMORY: u64 = 8;

/// One turn of a worker's loop, from waking up to going to sleep again.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    pub began: Moment,
    pub ended: Moment,
    /// Whether anything had happened.
    pub had_news: bool,
    /// Connections held at its end.
    pub connections: usize,
    pub is_accepting: bool,
}

/// The row of one worker.
pub struct Pulse {
    tables: SharedTables,
    worker: usize,
    /// Whether somebody counts on hearing from it.
    is_steered: bool,
    lag_ns: u64,
    sleep: Duration,
}

impl Pulse {
    pub fn new(tables: SharedTables, worker: usize, is_steered: bool) -> Self {
        Self {
            tables,
            worker,
            is_steered,
            lag_ns: 0,
            sleep: SHORTEST_SLEEP,
        }
    }

    /// Tells of the turn that ends, and how long the worker may sleep of the time it wants to.
    pub fn beat(&mut self, turn: &Turn, timeout: Option<Duration>) -> Option<Duration> {
        let timeout = self.shorten(turn.had_news, timeout);
        let lag = u64::try_from(turn.ended.since(turn.began).as_nanos()).unwrap_or(u64::MAX);
        self.lag_ns = self.lag_ns - self.lag_ns / LAG_MEMORY + lag / LAG_MEMORY;
        let (row, seen) = (self.row(), self.steered().connections.load(Relaxed));
        let due = timeout.map_or(u64::MAX, |timeout| (turn.ended + timeout).as_nanos());
        row.steered_seen.store(seen, Relaxed);
        row.connections.store(turn.connections as u64, Relaxed);
        row.loop_lag_ns.store(self.lag_ns, Relaxed);
        row.accepting.store(u64::from(turn.is_accepting), Relaxed);
        row.due_ns.store(due, Relaxed);
        row.heartbeat_ns.store(turn.ended.as_nanos(), Relaxed);
        timeout
    }

    /// While there is something to do the next sleep is short; then each is twice as long as the one before.
    fn shorten(&mut self, had_news: bool, timeout: Option<Duration>) -> Option<Duration> {
        if !self.is_steered {
            return timeout;
        }
        self.sleep = match had_news {
            true => SHORTEST_SLEEP,
            false => (self.sleep * 2).min(LONGEST_SLEEP),
        };
        Some(timeout.map_or(self.sleep, |timeout| timeout.min(self.sleep)))
    }

    fn row(&self) -> &WorkerCells {
        &self.tables.worker[self.worker]
    }

    fn steered(&self) -> &WorkerSteeredCells {
        &self.tables.steered[self.worker]
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.row().accepting.store(0, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::shared::Sizes;

    const START: Moment = Moment::from_nanos(1_000_000_000);

    fn pulse(is_steered: bool) -> Pulse {
        let sizes = Sizes {
            capacity: 1,
            workers: 2,
            cpus: 1,
            flows: 1,
        };
        Pulse::new(SharedTables::anonymous(sizes), 1, is_steered)
    }

    fn turn(lasted: Duration, had_news: bool) -> Turn {
        Turn {
            began: START,
            ended: START + lasted,
            had_news,
            connections: 7,
            is_accepting: true,
        }
    }

    #[test]
    fn an_idle_worker_speaks_less_and_less_often_and_a_busy_one_at_once() {
        let mut pulse = pulse(true);
        let mut sleeps = |had_news| {
            let timeout = pulse.beat(&turn(Duration::ZERO, had_news), None);
            timeout.expect("it promises to speak").as_millis()
        };
        assert_eq!(sleeps(true), 10);
        let idle: Vec<_> = (0..7).map(|_| sleeps(false)).collect();
        assert_eq!(idle, [20, 40, 80, 160, 320, 640, 800]);
        assert_eq!(sleeps(true), 10);
    }

    #[test]
    fn what_it_promises_is_when_it_will_wake() {
        let mut pulse = pulse(true);
        let turn = turn(Duration::from_millis(1), true);
        let early = Duration::from_millis(3);
        assert_eq!(pulse.beat(&turn, Some(early)), Some(early));
        let row = pulse.row().read();
        assert_eq!(row.heartbeat_ns, turn.ended.as_nanos());
        assert_eq!(row.due_ns, (turn.ended + early).as_nanos());
        assert_eq!((row.connections, row.accepting), (7, 1));
    }

    #[test]
    fn nobody_is_woken_for_a_kernel_that_does_not_look() {
        let mut pulse = pulse(false);
        assert_eq!(pulse.beat(&turn(Duration::ZERO, false), None), None);
        let later = Duration::from_secs(60);
        assert_eq!(
            pulse.beat(&turn(Duration::ZERO, true), Some(later)),
            Some(later)
        );
    }

    #[test]
    fn the_lag_follows_the_length_of_turns() {
        let mut pulse = pulse(true);
        for _ in 0..100 {
            pulse.beat(&turn(Duration::from_millis(4), true), None);
        }
        let lag = Duration::from_nanos(pulse.row().read().loop_lag_ns);
        assert!(
            lag.abs_diff(Duration::from_millis(4)) < Duration::from_micros(1),
            "{lag:?}"
        );
    }

    #[test]
    fn who_has_ended_accepts_nothing() {
        let mut pulse = pulse(true);
        let tables = pulse.tables.clone();
        pulse.beat(&turn(Duration::ZERO, true), None);
        drop(pulse);
        assert_eq!(tables.worker[1].read().accepting, 0);
    }

    #[test]
    fn connections_it_was_given_count_as_seen_from_its_next_turn_on() {
        let mut pulse = pulse(true);
        pulse.steered().connections.store(5, Relaxed);
        assert_eq!(pulse.row().read().steered_seen, 0);
        pulse.beat(&turn(Duration::ZERO, true), None);
        assert_eq!(pulse.row().read().steered_seen, 5);
    }
}

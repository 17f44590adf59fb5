//! From a worker to the log's thread: a ring of records made in advance, with one writer and one reader.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::Duration;

use rtrb::{Consumer, Producer, RingBuffer};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::access_log::{Record, Sink};
use crate::metrics::WorkerCounters;

/// Records one worker can be ahead of the log's thread.
pub const CAPACITY: usize = 1024;

/// The worker's end.
pub struct RingSink {
    records: Producer<Record>,
    bell: Arc<Bell>,
    counters: Arc<WorkerCounters>,
}

/// The end of the log's thread.
pub struct Records(Consumer<Record>);

pub fn new(bell: &Arc<Bell>, counters: &Arc<WorkerCounters>) -> (RingSink, Records) {
    let (producer, consumer) = RingBuffer::new(CAPACITY);
    let sink = RingSink {
        records: producer,
        bell: bell.clone(),
        counters: counters.clone(),
    };
    (sink, Records(consumer))
}

impl Sink for RingSink {
    fn put(&mut self, record: &Record) {
        if self.records.push(record.clone()).is_err() {
            self.counters.access_log_dropped.increment();
        }
        if self.records.slots() < CAPACITY * 3 / 4 {
            self.bell.ring();
        }
    }
}

impl Records {
    pub fn next(&mut self) -> Option<Record> {
        self.0.pop().ok()
    }
}

/// Wakes the log's thread before its time, when a ring fills.
#[derive(Default)]
pub struct Bell {
    notify: Notify,
    is_rung: AtomicBool,
    is_last: AtomicBool,
}

impl Bell {
    /// Costs a look unless nobody has rung since the thread was woken last.
    fn ring(&self) {
        if !self.is_rung.load(Relaxed) && !self.is_rung.swap(true, AcqRel) {
            self.notify.notify_one();
        }
    }

    pub fn ring_for_the_last_time(&self) {
        self.is_last.store(true, Release);
        self.notify.notify_one();
    }

    pub fn is_last(&self) -> bool {
        self.is_last.load(Acquire)
    }

    /// Until it rings, at most this long.
    pub async fn wait(&self, length: Duration) {
        // In time or not, the rings are looked at.
        let _ = timeout(length, self.notify.notified()).await;
        self.is_rung.store(false, Release);
    }
}

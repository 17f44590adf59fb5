//! Writes the access log, on one thread of its own. Workers hand records over through rings; a log that is slow, stalled
//! or broken costs lines, which are counted, and never a worker's time.

mod file;
mod ring;
#[cfg(test)]
mod tests;

pub use file::{LogError, LogTarget};
pub use ring::RingSink;

use std::sync::Arc;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::clock;
use crate::access_log::{WallClock, write_line};
use crate::metrics::{LogCounters, WorkerCounters};
use file::{LogFile, Opened};
use ring::{Bell, Records};

/// How long a record waits at most before its line is written.
const LATENCY: Duration = Duration::from_millis(100);
/// Lines written at one time, in bytes, about.
const BATCH: usize = 64 * 1024;
/// How long the end of the proxy waits for the last lines.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The running thread.
pub struct AccessLog {
    bell: Arc<Bell>,
    /// Closed when the thread ends.
    ended: mpsc::Receiver<()>,
    pub counters: Arc<LogCounters>,
}

impl AccessLog {
    /// Opens the log and starts its thread; gives a sink to each worker.
    pub fn start(
        target: LogTarget,
        workers: &[Arc<WorkerCounters>],
    ) -> Result<(Self, Vec<RingSink>), LogError> {
        let counters = Arc::new(LogCounters::default());
        let opened = Opened::new(target)?;
        let bell = Arc::new(Bell::default());
        let rings = workers.iter().map(|worker| ring::new(&bell, worker));
        let (sinks, records): (Vec<RingSink>, Vec<Records>) = rings.unzip();
        let (ending, ended) = mpsc::channel();
        let (its_bell, its_counters) = (bell.clone(), counters.clone());
        thread::Builder::new()
            .name("weir-access-log".into())
            .spawn(move || {
                // Dropped when the thread ends, however it does.
                let _ending: mpsc::Sender<()> = ending;
                let writer = Writer {
                    bell: its_bell,
                    records,
                    file: LogFile::new(opened, its_counters),
                };
                tokio_uring::builder().entries(8).start(writer.run());
            })
            .map_err(LogError::Thread)?;
        let log = Self {
            bell,
            ended,
            counters,
        };
        Ok((log, sinks))
    }

    /// Writes what is left, but waits no longer than that takes with a log that works.
    pub fn finish(self) {
        self.bell.ring_for_the_last_time();
        if self.ended.recv_timeout(LAST_LINES) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::warn!("the access log takes no lines: the last ones are lost");
        }
    }
}

struct Writer {
    bell: Arc<Bell>,
    records: Vec<Records>,
    file: LogFile,
}

impl Writer {
    async fn run(mut self) {
        let mut lines = Vec::new();
        loop {
            // Asked before the rings are emptied: what comes after is not missed.
            let is_last = self.bell.is_last();
            let count = self.gather(&mut lines);
            if count > 0 {
                lines = self.file.write(lines, count).await;
            } else if is_last {
                return;
            } else {
                self.bell.wait(LATENCY).await;
            }
        }
    }

    /// Turns records into lines, of every worker in turn. Tells how many.
    fn gather(&mut self, lines: &mut Vec<u8>) -> u64 {
        lines.clear();
        let clock = wall_clock();
        let mut count = 0;
        for records in &mut self.records {
            while lines.len() < BATCH
                && let Some(record) = records.next()
            {
                write_line(lines, &record, clock);
                count += 1;
            }
        }
        // The next batch begins with another worker: none can keep the others waiting.
        if lines.len() >= BATCH {
            self.records.rotate_left(1);
        }
        count
    }
}

fn wall_clock() -> WallClock {
    // A clock before 1970 is wrong anyhow.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH);
    WallClock {
        moment: clock::now(),
        since_epoch: since_epoch.unwrap_or_default(),
    }
}

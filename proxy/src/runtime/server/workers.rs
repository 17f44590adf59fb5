//! The workers as the control plane sees them: threads it starts, gives orders to, and hears the end of.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tokio::sync::mpsc;

use super::ServerError;
use super::listeners::ByWorker;
use crate::balance::Books;
use crate::front::Front;
use crate::metrics::WorkerCounters;
use crate::moment::Moment;
use crate::runtime::dataplane::Flows;
use crate::runtime::mailbox::{Mailbox, Newcomers, Order, WorkerHandle, mailbox};
use crate::runtime::pulse::{Pulse, Turn};
use crate::runtime::ring::Gauges;
use crate::runtime::worker::{MeasureFlows, Observe, Worker};
use crate::seam::{FlowSlot, Peer};
use crate::snapshot::{ListenerId, Snapshot};

/// Bytes, of which only those are resident that were ever used. Expressions as nested as they may be take half of it in
/// a debug build.
const STACK: usize = 8 << 20;

/// All workers, running.
pub struct Workers {
    running: Vec<Running>,
    ended: mpsc::UnboundedSender<Result<(), ServerError>>,
    endings: mpsc::UnboundedReceiver<Result<(), ServerError>>,
}

struct Running {
    handle: WorkerHandle,
    thread: JoinHandle<()>,
}

/// What one worker works with.
pub struct Equipment {
    pub core: Front,
    pub flows: Flows,
    pub counters: Arc<WorkerCounters>,
    pub pulse: Pulse,
    /// The only one it runs on.
    pub cpu: Option<usize>,
}

impl Workers {
    pub fn none() -> Self {
        let (ended, endings) = mpsc::unbounded_channel();
        Self {
            running: Vec::new(),
            ended,
            endings,
        }
    }

    /// Starts one more.
    pub fn start(&mut self, equipment: Equipment) -> Result<(), ServerError> {
        let system = |source| ServerError::System {
            what: "a worker's thread",
            source,
        };
        let worker = self.running.len();
        let (handle, mailbox) = mailbox().map_err(system)?;
        let ended = self.ended.clone();
        let thread = thread::Builder::new()
            .name(format!("weir-worker-{worker}"))
            .stack_size(STACK)
            .spawn(move || {
                // Nobody listens any more once the server has given up.
                let _ = ended.send(ending(worker, || equipment.work(worker, mailbox)));
            })
            .map_err(system)?;
        self.running.push(Running { handle, thread });
        Ok(())
    }

    /// Each worker accepts from its socket of each of these listeners.
    pub fn listen(&self, listeners: Vec<ByWorker>) {
        for ByWorker { id, place, sockets } in listeners {
            tracing::info!("listening on {place}");
            for (worker, socket) in self.running.iter().zip(sockets) {
                worker.handle.order(Order::Listen(id, socket));
            }
        }
    }

    pub fn unlisten(&self, leaving: Vec<(ListenerId, Newcomers)>) {
        for (id, newcomers) in leaving {
            self.order(|| Order::Unlisten(id, newcomers));
        }
    }

    /// Stops accepting; newcomers may be treated differently at the sockets of different workers.
    pub fn leave(&self, leaving: Vec<(ListenerId, Vec<Newcomers>)>) {
        for (id, newcomers) in leaving {
            for (worker, newcomers) in self.running.iter().zip(newcomers) {
                worker.handle.order(Order::Unlisten(id, newcomers));
            }
        }
    }

    /// Has all workers count their leases there, and waits until they do. Says whether all of them run.
    pub async fn count(&self, books: Books) -> bool {
        let workers = self.running.len();
        let (done, mut all_done) = mpsc::channel(workers.max(1));
        self.order(|| Order::Count(books, done.clone()));
        drop(done);
        for _ in 0..workers {
            // Orders of a worker that has ended are dropped.
            if all_done.recv().await.is_none() {
                return false;
            }
        }
        true
    }

    pub fn replace(&self, snapshot: &Arc<Snapshot>) {
        self.order(|| Order::Replace(snapshot.clone()));
    }

    pub fn drain(&self) {
        self.order(|| Order::Drain);
    }

    /// Revision of the oldest snapshot any worker may still ask.
    pub fn oldest_snapshot(&self) -> u64 {
        let oldest = self.running.iter();
        oldest
            .map(|worker| worker.handle.oldest_snapshot())
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The next worker to end, and how it did.
    pub async fn next_ending(&mut self) -> Result<(), ServerError> {
        // We hold a sender ourselves, so there always is a next one to wait for.
        self.endings.recv().await.unwrap_or(Ok(()))
    }

    /// Waits until all have ended.
    pub async fn join(mut self) {
        for _ in 0..self.running.len() {
            let _ = self.next_ending().await;
        }
        for worker in self.running {
            let _ = worker.thread.join();
        }
    }

    fn order(&self, order: impl Fn() -> Order) {
        for worker in &self.running {
            worker.handle.order(order());
        }
    }
}

impl Equipment {
    fn work(self, worker: usize, mailbox: Mailbox) -> Result<(), ServerError> {
        if let Some(cpu) = self.cpu
            && let Err(error) = pin(cpu)
        {
            tracing::warn!(worker, cpu, %error, "the worker is not pinned to its CPU");
            self.counters.unpinned.set(1);
        }
        let observer = Published {
            counters: self.counters,
            pulse: self.pulse,
            due: None,
        };
        Worker::new(self.core, self.flows, observer, mailbox)
            .map_err(|source| ServerError::Ring { worker, source })?
            .run()
            .map_err(|source| ServerError::Worker { worker, source })
    }
}

/// How a worker's work ends. A panic is an end like any other: unheard of, its clients would wait for ever.
fn ending(
    worker: usize,
    work: impl FnOnce() -> Result<(), ServerError>,
) -> Result<(), ServerError> {
    // Nothing of what the worker had is looked at again.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(ServerError::Panic { worker }))
}

/// Publishes what a worker holds, for people and for the kernel.
struct Published {
    counters: Arc<WorkerCounters>,
    pulse: Pulse,
    /// When it means to wake up at the latest.
    due: Option<Moment>,
}

impl Observe for Published {
    fn on_turn(
        &mut self,
        turn: &Turn,
        gauges: Gauges,
        timeout: Option<Duration>,
    ) -> Option<Duration> {
        let counters = &self.counters;
        counters.ring_connections.set(gauges.connections as u64);
        counters.ring_buffers.set(gauges.buffers_held as u64);
        counters
            .buffers_exhausted
            .raise_to(gauges.buffers_exhausted);
        counters.ring_overflows.raise_to(gauges.overflows);
        counters.turns.add(turn.ended.since(turn.began));
        if let Some(due) = self.due.filter(|due| *due <= turn.began) {
            counters.wakes_late.add(turn.began.since(due));
        }
        let timeout = self.pulse.beat(turn, timeout);
        self.due = timeout.map(|timeout| turn.ended + timeout);
        timeout
    }

    fn on_accept_failed(&mut self) {
        self.counters.accept_failed.increment();
    }
}

impl MeasureFlows for Flows {
    fn register(&mut self, local: SocketAddr, peer: Peer) -> Option<FlowSlot> {
        Flows::register(self, local, peer)
    }

    fn release(&mut self, slot: FlowSlot) {
        Flows::release(self, slot);
    }
}

pub fn allowed_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    (0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect()
}

/// Keeps the calling thread on this CPU.
fn pin(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_panics_has_ended_with_an_error() {
        let ended = ending(3, || panic!("as a fault of ours would have it"));
        assert!(matches!(ended, Err(ServerError::Panic { worker: 3 })));
        assert!(ending(3, || Ok(())).is_ok());
    }
}

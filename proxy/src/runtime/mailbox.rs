//! How other threads reach a worker: orders one way, in order, and an acknowledgement the other way. A worker looks into
//! its mailbox only when it was woken, so that a turn without news costs nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::mpsc::{Receiver, Sender, channel};

use tokio::sync::mpsc;

use super::ring::{Listener, Waker};
use crate::balance::Books;
use crate::snapshot::{ListenerId, Snapshot};

/// What a worker is to do.
pub enum Order {
    /// Accept from this listener.
    Listen(ListenerId, Listener),
    /// Accept what is on its way to this listener, then close it.
    Unlisten(ListenerId, Newcomers),
    /// Serve from this snapshot.
    Replace(Arc<Snapshot>),
    /// Count leases there, and say when that is done.
    Count(Books, mpsc::Sender<()>),
    /// Stop accepting, finish what runs, then end.
    Drain,
}

/// What becomes of clients that begin to connect while a listener closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newcomers {
    /// A kernel program refuses them, or gives them to other sockets.
    Refused,
    /// Another process accepts them, from this very socket.
    Elsewhere,
    /// Nobody does: their attempts are to be dropped. They try again after a second, and meet who listens there by then.
    Dropped,
}

/// The outside of a mailbox.
#[derive(Clone)]
pub struct WorkerHandle {
    waker: Waker,
    orders: Sender<Order>,
    oldest_snapshot: Arc<AtomicU64>,
}

/// The worker's side.
pub struct Mailbox {
    pub waker: Waker,
    orders: Receiver<Order>,
    oldest_snapshot: Arc<AtomicU64>,
    acknowledged: u64,
}

/// A mailbox and how it is reached.
pub fn mailbox() -> io::Result<(WorkerHandle, Mailbox)> {
    let waker = Waker::new()?;
    let (sender, orders) = channel();
    let oldest_snapshot = Arc::new(AtomicU64::new(0));
    let handle = WorkerHandle {
        waker: waker.clone(),
        orders: sender,
        oldest_snapshot: oldest_snapshot.clone(),
    };
    let mailbox = Mailbox {
        waker,
        orders,
        oldest_snapshot,
        acknowledged: 0,
    };
    Ok((handle, mailbox))
}

impl WorkerHandle {
    pub fn order(&self, order: Order) {
        // Nobody receives it once the worker has ended, which is told elsewhere.
        let _ = self.orders.send(order);
        self.waker.wake();
    }

    /// Revision of the oldest snapshot the worker may still ask; 0 before its first turn.
    pub fn oldest_snapshot(&self) -> u64 {
        self.oldest_snapshot.load(Acquire)
    }
}

impl Mailbox {
    pub fn next_order(&self) -> Option<Order> {
        self.orders.try_recv().ok()
    }

    /// Tells that no snapshot before this revision will be asked again.
    pub fn acknowledge(&mut self, oldest_snapshot: u64) {
        if oldest_snapshot != self.acknowledged {
            self.acknowledged = oldest_snapshot;
            self.oldest_snapshot.store(oldest_snapshot, Release);
        }
    }
}

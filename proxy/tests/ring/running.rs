//! A worker on a thread of its own, and what it tells about itself.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use weir::runtime::mailbox::{Order, WorkerHandle, mailbox};
use weir::runtime::pulse::Turn;
use weir::runtime::ring::{Gauges, Listener};
use weir::runtime::worker::{Observe, Unmeasured, Worker};
use weir::seam::Core;
use weir::snapshot::ListenerId;

use crate::PATIENCE;

/// What the worker said last.
#[derive(Clone, Copy, Debug, Default)]
pub struct Said {
    pub gauges: Gauges,
    /// The most buffers it ever held at the end of a turn.
    pub most_buffers: usize,
    pub accepts_failed: u64,
}

#[derive(Clone, Default)]
struct Observer(Arc<Mutex<Said>>);

impl Observe for Observer {
    fn on_turn(
        &mut self,
        _turn: &Turn,
        gauges: Gauges,
        timeout: Option<Duration>,
    ) -> Option<Duration> {
        let mut said = self.0.lock().expect("nobody panics with it");
        said.gauges = gauges;
        said.most_buffers = said.most_buffers.max(gauges.buffers_held);
        timeout
    }

    fn on_accept_failed(&mut self) {
        self.0.lock().expect("nobody panics with it").accepts_failed += 1;
    }
}

pub struct Running {
    pub address: SocketAddr,
    handle: WorkerHandle,
    observer: Observer,
    thread: Option<JoinHandle<io::Result<()>>>,
    ended: mpsc::Receiver<()>,
}

impl Running {
    pub fn start(core: impl Core + Send + 'static) -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let listener = Listener::bind(loopback).expect("loopback");
        let address = listener.address();
        let (handle, mailbox) = mailbox().expect("an eventfd");
        handle.order(Order::Listen(ListenerId(0), listener));
        let observer = Observer::default();
        let (ending, ended) = mpsc::channel();
        let its_observer = observer.clone();
        let thread = thread::spawn(move || {
            // Dropped when the worker ends, however it does.
            let _ending: mpsc::Sender<()> = ending;
            let worker = Worker::new(core, Unmeasured, its_observer, mailbox);
            worker.map_err(io::Error::other)?.run()
        });
        Self {
            address,
            handle,
            observer,
            thread: Some(thread),
            ended,
        }
    }

    pub fn said(&self) -> Said {
        *self.observer.0.lock().expect("nobody panics with it")
    }

    /// Waits until the worker says what is hoped for.
    pub fn wait_until(&self, hoped: impl Fn(&Said) -> bool) -> Said {
        let start = Instant::now();
        loop {
            let said = self.said();
            if hoped(&said) {
                return said;
            }
            assert!(start.elapsed() < PATIENCE, "still {said:?}");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Waits until the worker holds nothing.
    pub fn wait_until_idle(&self) -> Said {
        self.wait_until(|said| said.gauges.connections == 0 && said.gauges.buffers_held == 0)
    }

    pub fn begin_drain(&self) {
        self.handle.order(Order::Drain);
    }

    /// Whether the worker has ended by itself within this time.
    pub fn ends_within(&self, length: Duration) -> bool {
        !matches!(
            self.ended.recv_timeout(length),
            Err(mpsc::RecvTimeoutError::Timeout)
        )
    }

    /// Drains the worker; it must end, and hold nothing.
    pub fn drain(mut self) -> Said {
        self.begin_drain();
        assert!(self.ends_within(PATIENCE), "not drained: {:?}", self.said());
        let thread = self.thread.take().expect("joined once");
        let ending = thread.join().expect("the worker does not panic");
        ending.expect("the ring goes on to the end");
        let said = self.said();
        assert_eq!(said.gauges.connections, 0);
        assert_eq!(said.gauges.buffers_held, 0);
        said
    }
}

//! Endpoints that do what a script says, well or badly. A script is a function called for each request whose head has
//! come; it answers through the [`Exchange`] and says what becomes of the connection. [`scripts`] has those most
//! scenarios do with.

mod exchange;
pub mod scripts;

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::message::Wire;
use crate::process::Place;

pub use exchange::Exchange;

/// A running endpoint. Dropping it closes its listener and its connections.
pub struct Endpoint {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// What an endpoint does with a request whose head has come.
pub type Script = Box<dyn Fn(&mut Exchange<'_>) -> io::Result<Next> + Send + Sync>;

/// What becomes of the connection after a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Wait for the next request.
    Keep,
    Close,
    Reset,
}

/// What an endpoint saw and did.
#[derive(Debug, Default)]
pub struct Seen {
    pub connections: AtomicU64,
    /// Heads received.
    pub requests: AtomicU64,
    /// Nanoseconds from the last request byte read to the first response byte written, summed: the truth that
    /// measurements are held against.
    first_byte_ns: AtomicU64,
    first_bytes: AtomicU64,
}

struct Shared {
    seen: Seen,
    stopping: AtomicBool,
    /// Open connections, to be shut when the endpoint stops.
    streams: Mutex<Vec<TcpStream>>,
    listener: TcpListener,
}

impl Seen {
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// Mean time to the first byte of a response; nothing before the first.
    pub fn first_byte(&self) -> Option<Duration> {
        let sum = self.first_byte_ns.load(Ordering::Relaxed);
        let mean = sum.checked_div(self.first_bytes.load(Ordering::Relaxed))?;
        Some(Duration::from_nanos(mean))
    }
}

impl Endpoint {
    /// Listens at `address` in `place`; port 0 takes a free one.
    pub fn start(place: &Place, address: (IpAddr, u16), script: Script) -> io::Result<Self> {
        let listener = place.run(|| TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            seen: Seen::default(),
            stopping: AtomicBool::new(false),
            streams: Mutex::default(),
            listener,
        });
        let accepting = shared.clone();
        let script = Arc::new(script);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = accepting.listener.accept() {
                if accepting.stopping.load(Ordering::Relaxed) {
                    return;
                }
                let shared = accepting.clone();
                let script = script.clone();
                std::thread::spawn(move || shared.serve(stream, &script));
            }
        });
        Ok(Self { address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn seen(&self) -> &Seen {
        &self.shared.seen
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // Shutting a listening socket wakes the thread in accept; both only fail for sockets that are gone already.
        let _ = socket2::SockRef::from(&self.shared.listener).shutdown(std::net::Shutdown::Both);
        for stream in self.shared.streams().drain(..) {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Shared {
    fn streams(&self) -> std::sync::MutexGuard<'_, Vec<TcpStream>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Errors end the connection: to the proxy under test they are all the same.
    fn serve(&self, stream: TcpStream, script: &Script) {
        // What an endpoint takes is to be its script's delay, not its wait for a processor of a busy machine. Only root
        // may ask for that; others measure less well.
        let _ = rustix::process::setpriority_process(None, -20);
        let Ok(twin) = stream.try_clone() else { return };
        self.seen.connections.fetch_add(1, Ordering::Relaxed);
        let id = twin.peer_addr().ok();
        self.streams().push(twin);
        let _ = stream.set_nodelay(true);
        let mut wire = Wire::new(stream);
        let ended = loop {
            match self.serve_one(&mut wire, script) {
                Ok(Next::Keep) => {}
                Ok(end) => break end,
                Err(_) => break Next::Close,
            }
        };
        self.streams().retain(|open| open.peer_addr().ok() != id);
        if ended == Next::Reset {
            let _ = wire.reset();
        }
    }

    fn serve_one(&self, wire: &mut Wire, script: &Script) -> io::Result<Next> {
        let Some(head) = wire.read_head()? else {
            return Ok(Next::Close);
        };
        self.seen.requests.fetch_add(1, Ordering::Relaxed);
        let mut exchange = Exchange {
            head,
            wire,
            seen: &self.seen,
            stopping: &self.stopping,
            received: Some(Instant::now()),
            body_read: false,
        };
        script(&mut exchange)
    }
}

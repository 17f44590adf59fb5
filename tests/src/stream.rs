//! Servers and clients of plain TCP: what passes through Weir without being HTTP.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::pattern;
use crate::process::Place;

/// How long a peer waits for bytes or for room to send.
const PATIENCE: Duration = Duration::from_secs(20);

/// What a server does with a connection. An error ends it.
pub type Handler = dyn Fn(TcpStream) -> io::Result<()> + Send + Sync;

/// A listener whose connections are each served on a thread of their own. Dropping it closes the listener; connections
/// go on.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    listener: TcpListener,
    is_stopping: AtomicBool,
    connections: AtomicU64,
}

impl Server {
    pub fn start(
        place: &Place,
        address: (IpAddr, u16),
        handler: impl Fn(TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> io::Result<Self> {
        let listener = place.run(|| TcpListener::bind(address))?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            listener,
            is_stopping: AtomicBool::new(false),
            connections: AtomicU64::new(0),
        });
        let accepting = shared.clone();
        let handler: Arc<Handler> = Arc::new(handler);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = accepting.listener.accept() {
                if accepting.is_stopping.load(Ordering::Relaxed) {
                    return;
                }
                accepting.connections.fetch_add(1, Ordering::Relaxed);
                let handler = handler.clone();
                // To the proxy under test all errors are the same: the connection is closed.
                std::thread::spawn(move || handler(stream));
            }
        });
        Ok(Self { address, shared })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How many there have been.
    pub fn connections(&self) -> u64 {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Relaxed);
        // Wakes the thread in accept; fails only for a socket that is gone already.
        let _ = socket2::SockRef::from(&self.shared.listener).shutdown(Shutdown::Both);
    }
}

/// Sends back what comes, and ends when the client has.
pub fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut block = vec![0; 64 * 1024];
    loop {
        match stream.read(&mut block)? {
            0 => return stream.shutdown(Shutdown::Write),
            count => stream.write_all(&block[..count])?,
        }
    }
}

/// Breaks off at once.
pub fn reset(stream: TcpStream) -> io::Result<()> {
    socket2::SockRef::from(&stream).set_linger(Some(Duration::ZERO))
}

/// A client at `place`.
pub fn connect(place: &Place, to: SocketAddr) -> io::Result<TcpStream> {
    place.run(|| {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(stream)
    })
}

/// Sends the [`pattern`] from `offset` on, `length` bytes of it.
pub fn send(mut stream: &TcpStream, offset: u64, length: u64) -> io::Result<()> {
    let mut sent = 0;
    while sent < length {
        let left = usize::try_from(length - sent).unwrap_or(usize::MAX);
        let piece = pattern::at(offset + sent, left.min(pattern::BLOCK));
        stream.write_all(piece)?;
        sent += piece.len() as u64;
    }
    Ok(())
}

/// Reads to the end; how many bytes came, if all are those of the [`pattern`] from `offset` on.
pub fn receive(mut stream: &TcpStream, offset: u64) -> io::Result<u64> {
    let mut block = vec![0; 64 * 1024];
    let mut received = 0;
    loop {
        let count = stream.read(&mut block)?;
        if count == 0 {
            return Ok(received);
        }
        if !pattern::is_at(offset + received, &block[..count]) {
            let place = offset + received;
            return Err(io::Error::other(format!("a wrong byte after {place}")));
        }
        received += count as u64;
    }
}

/// Sends and receives at once, ending our side when all is sent; how many bytes came back.
pub fn exchange(stream: &TcpStream, offset: u64, length: u64) -> io::Result<u64> {
    std::thread::scope(|scope| {
        let sending = scope.spawn(|| {
            send(stream, offset, length)?;
            stream.shutdown(Shutdown::Write)
        });
        let received = receive(stream, offset);
        match sending.join() {
            Ok(sent) => sent.and(received),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

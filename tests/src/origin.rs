//! An endpoint that costs next to nothing: one thread, one epoll, ready-made responses. `GET /b...` is answered with a
//! large body, everything else with a small one. For measurements, where the endpoint must not be what is measured.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::{AsFd, OwnedFd};
use rustix::time::Timespec;

use crate::process::Place;

/// Bytes of the large body.
pub const LARGE: usize = 100 * 1024;

/// Bytes of the small body.
pub const SMALL: usize = 128;

/// Endpoints served by one thread. Dropping them ends it.
pub struct Origin {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Origin {
    /// Serves at these addresses, from `place`; port 0 takes a free one.
    pub fn start(place: &Place, addresses: &[SocketAddr]) -> io::Result<Self> {
        let listeners = place.run(|| {
            addresses
                .iter()
                .map(TcpListener::bind)
                .collect::<io::Result<Vec<_>>>()
        })?;
        let addresses = listeners
            .iter()
            .map(TcpListener::local_addr)
            .collect::<io::Result<_>>()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = place.spawn(move || Server::new(listeners)?.serve(&stopped));
        Ok(Self {
            addresses,
            stop,
            thread: Some(thread),
        })
    }

    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

impl Drop for Origin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        if let Some(Ok(Err(error))) = ended {
            eprintln!("the endpoints ended early: {error}");
        }
    }
}

struct Server {
    epoll: OwnedFd,
    listeners: Vec<TcpListener>,
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    small: Vec<u8>,
    large: Vec<u8>,
}

struct Connection {
    stream: TcpStream,
    /// A request that has not come whole.
    request: Vec<u8>,
    /// What is left to send of a large response.
    unsent: usize,
}

impl Server {
    fn new(listeners: Vec<TcpListener>) -> io::Result<Self> {
        let mut server = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            listeners: Vec::new(),
            connections: Vec::new(),
            free: Vec::new(),
            small: response(SMALL),
            large: response(LARGE),
        };
        for (index, listener) in listeners.iter().enumerate() {
            listener.set_nonblocking(true)?;
            server.watch(listener, index, EventFlags::IN)?;
        }
        server.listeners = listeners;
        Ok(server)
    }

    fn watch(&self, socket: impl AsFd, token: usize, flags: EventFlags) -> io::Result<()> {
        let data = EventData::new_u64(token as u64);
        Ok(epoll::add(&self.epoll, socket, data, flags)?)
    }

    fn serve(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        let mut scratch = vec![0; 64 * 1024];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        while !stop.load(Ordering::Relaxed) {
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                Some(&timeout),
            ) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let token = usize::try_from(event.data.u64()).expect("a token we gave");
                match token.checked_sub(self.listeners.len()) {
                    None => self.accept(token)?,
                    Some(index) => {
                        self.turn(index, &mut scratch);
                        // The peer's end may have come with its last request, on one edge.
                        let end = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
                        if { event.flags }.intersects(end) {
                            self.drop_connection(index);
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: usize) -> io::Result<()> {
        loop {
            let stream = match self.listeners[listener].accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            let index = self.free.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            // Edge-triggered: one registration serves requests and room to send, without another system call.
            let flags = EventFlags::IN | EventFlags::OUT | EventFlags::RDHUP | EventFlags::ET;
            self.watch(&stream, self.listeners.len() + index, flags)?;
            self.connections[index] = Some(Connection {
                stream,
                request: Vec::new(),
                unsent: 0,
            });
        }
    }

    /// Does all that can be done on a connection now; an error or its end drops it.
    fn turn(&mut self, index: usize, scratch: &mut [u8]) {
        let Some(connection) = &mut self.connections[index] else {
            return;
        };
        if connection.turn(&self.small, &self.large, scratch).is_err() {
            self.drop_connection(index);
        }
    }

    fn drop_connection(&mut self, index: usize) {
        if self.connections[index].take().is_some() {
            self.free.push(index);
        }
    }
}

impl Connection {
    fn turn(&mut self, small: &[u8], large: &[u8], scratch: &mut [u8]) -> io::Result<()> {
        if self.unsent > 0 {
            self.send(large)?;
        }
        while self.unsent == 0 {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let piece = &scratch[..count];
            let is_large = if self.request.is_empty() && piece.ends_with(b"\r\n\r\n") {
                piece.get(5) == Some(&b'b')
            } else {
                self.request.extend_from_slice(piece);
                if !self.request.ends_with(b"\r\n\r\n") {
                    continue;
                }
                let is_large = self.request.get(5) == Some(&b'b');
                self.request.clear();
                is_large
            };
            let response = if is_large { large } else { small };
            self.unsent = response.len();
            self.send(response)?;
            // Nobody sends a second request before the first is answered, so a short read was all there is: the next
            // edge tells of more.
            if count < scratch.len() {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends what the socket takes of the unsent end of `response`.
    fn send(&mut self, response: &[u8]) -> io::Result<()> {
        while self.unsent > 0 {
            match self.stream.write(&response[response.len() - self.unsent..]) {
                Ok(count) => self.unsent -= count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn response(body: usize) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nserver: origin\r\ncontent-type: text/plain\r\ncontent-length: {body}\r\n\r\n"
    );
    [head.as_bytes(), &vec![b'x'; body]].concat()
}

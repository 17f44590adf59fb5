//! Servers of plain TCP that cost little: one thread, one epoll, every connection gets back what it sends, until its client
//! ends. For measurements, where the endpoint must not be what is measured.

use std::collections::HashMap;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::fd::OwnedFd;
use rustix::time::Timespec;

use crate::process::Place;

/// Running servers. Dropping them ends them.
pub struct Echoes {
    served: Arc<Served>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

/// What a server does with what it reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Sends it back.
    Same,
    /// Nothing: it is only counted.
    Nothing,
}

/// What all servers did so far.
#[derive(Debug, Default)]
pub struct Served {
    pub connections: AtomicU64,
    pub bytes: AtomicU64,
}

impl Echoes {
    /// Listens at each address in its place; the thread that serves all of them runs in `place`.
    pub fn start(
        place: &Place,
        listening: &[(Place, SocketAddr)],
        reply: Reply,
    ) -> io::Result<Self> {
        let bind = |(place, address): &(Place, SocketAddr)| {
            let listener = place.run(|| TcpListener::bind(address))?;
            listener.set_nonblocking(true)?;
            Ok(listener)
        };
        let listeners = listening.iter().map(bind).collect::<io::Result<Vec<_>>>()?;
        let (served, stop) = (Arc::<Served>::default(), Arc::<AtomicBool>::default());
        let (counted, stopped) = (served.clone(), stop.clone());
        let thread = place.spawn(move || {
            let mut server = Server {
                epoll: epoll::create(CreateFlags::CLOEXEC)?,
                listeners: HashMap::new(),
                streams: HashMap::new(),
                reply,
                served: counted,
            };
            for listener in listeners {
                server.watch(listener.as_raw_fd(), &listener)?;
                server.listeners.insert(listener.as_raw_fd(), listener);
            }
            server.serve(&stopped)
        });
        Ok(Self {
            served,
            stop,
            thread: Some(thread),
        })
    }

    pub fn served(&self) -> &Served {
        &self.served
    }
}

impl Drop for Echoes {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(Ok(Err(error))) = self.thread.take().map(JoinHandle::join) {
            eprintln!("the servers ended early: {error}");
        }
    }
}

struct Server {
    epoll: OwnedFd,
    /// By descriptor, as the streams.
    listeners: HashMap<i32, TcpListener>,
    streams: HashMap<i32, TcpStream>,
    reply: Reply,
    served: Arc<Served>,
}

impl Server {
    fn watch(&self, number: i32, socket: impl rustix::fd::AsFd) -> io::Result<()> {
        let data = EventData::new_u64(number.unsigned_abs().into());
        Ok(epoll::add(&self.epoll, socket, data, EventFlags::IN)?)
    }

    fn serve(&mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Vec::with_capacity(256);
        let mut block = vec![0; 256 * 1024];
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        while !stop.load(Ordering::Relaxed) {
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            match epoll::wait(&self.epoll, room, Some(&timeout)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                let number = i32::try_from(event.data.u64()).expect("a descriptor we gave");
                if self.listeners.contains_key(&number) {
                    self.accept(number)?;
                } else if !self.answer(number, &mut block) {
                    self.streams.remove(&number);
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self, listener: i32) -> io::Result<()> {
        // Who is gone before being accepted is none of the others' business.
        while let Ok((stream, _)) = self.listeners[&listener].accept() {
            stream.set_nonblocking(true)?;
            stream.set_nodelay(true)?;
            self.watch(stream.as_raw_fd(), &stream)?;
            self.streams.insert(stream.as_raw_fd(), stream);
            self.served.connections.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Says whether the connection goes on. Answers are small enough for any send buffer.
    fn answer(&mut self, number: i32, block: &mut [u8]) -> bool {
        let Some(stream) = self.streams.get_mut(&number) else {
            return false;
        };
        match stream.read(block) {
            Ok(0) => false,
            Ok(length) => {
                let length64 = length as u64;
                self.served.bytes.fetch_add(length64, Ordering::Relaxed);
                self.reply == Reply::Nothing || stream.write_all(&block[..length]).is_ok()
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        }
    }
}

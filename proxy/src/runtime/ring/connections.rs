//! All connections of one worker and its listeners: verbs in, completions out.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::time::Duration;

use io_uring::{opcode, types};
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::acceptor::Acceptor;
use super::buffers::{BufferPool, Slice};
use super::completions::Completion;
use super::connection::{Connection, Spare};
use super::key::{GENERATION_MASK, OpKey, OpKind};
use super::listener::{Listener, peer_of};
use super::probe::RingError;
use super::submission::{QueueSizes, RawCompletion, Submission};
use super::wake::Waker;
use crate::seam::{ConnId, ConnectFault};
use crate::snapshot::ListenerId;

/// Received pieces up to this size are copied.
const COPY_UP_TO: usize = 1024;

/// Resources in use: back at their start values when no connection is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    pub connections: usize,
    pub buffers_held: usize,
    /// Receives that found no buffer, ever.
    pub buffers_exhausted: u64,
    /// Turns that brought more completions than fit their queue, ever: those left wait for the next.
    pub overflows: u64,
}

/// The ring of one worker. Created on the worker's own thread.
pub struct Connections {
    pub(super) slots: Vec<Option<Connection>>,
    pub(super) open: usize,
    pub(super) dirty: Vec<u32>,
    starved: Vec<u32>,
    pub(super) acceptors: HashMap<ListenerId, Acceptor>,
    /// Clients that may be accepted without asking.
    room: usize,
    /// Those of this turn; the first `taken` were handed out.
    pub(super) completions: Vec<RawCompletion>,
    pub(super) taken: usize,
    /// Completions of what never reached the kernel.
    pub(super) immediate: VecDeque<Completion>,
    pub(super) spare: Spare,
    pub(super) buffers_exhausted: u64,
    waker: Waker,
    woken: Box<[u8; 8]>,
    /// Dropped before the buffers it knows of; not at all while operations are in flight.
    ring: ManuallyDrop<Submission>,
    pub(super) buffers: BufferPool,
}

impl Connections {
    pub fn new(waker: Waker) -> Result<Self, RingError> {
        Self::with_queues(waker, QueueSizes::default())
    }

    /// The same with queues of these sizes.
    pub fn with_queues(waker: Waker, sizes: QueueSizes) -> Result<Self, RingError> {
        let ring = Submission::new(sizes)?;
        let buffers = BufferPool::register(&ring.uring).map_err(RingError::Setup)?;
        let mut connections = Self {
            slots: Vec::new(),
            open: 0,
            dirty: Vec::new(),
            starved: Vec::new(),
            acceptors: HashMap::new(),
            room: usize::MAX,
            completions: Vec::new(),
            taken: 0,
            immediate: VecDeque::new(),
            spare: Spare::default(),
            buffers_exhausted: 0,
            waker,
            woken: Box::new([0; 8]),
            ring: ManuallyDrop::new(ring),
            buffers,
        };
        connections.listen_for_wake();
        Ok(connections)
    }

    /// Accepts from `listener` from now on. No two listeners have the same number.
    pub fn listen(&mut self, id: ListenerId, listener: Listener) {
        self.acceptors.insert(id, Acceptor::new(listener));
    }

    /// Goes on after [`Completion::AcceptFailed`].
    pub fn resume_accepting(&mut self, id: ListenerId) {
        if let Some(acceptor) = self.acceptors.get_mut(&id) {
            acceptor.is_resting = false;
        }
    }

    /// Accepts no more clients than this before it is told again.
    pub fn set_room(&mut self, room: usize) {
        self.room = room;
    }

    /// Has the kernel take no new attempts to connect to this listener: those under way still come in.
    pub fn turn_away(&mut self, id: ListenerId) {
        let acceptor = self.acceptors.get(&id);
        if let Some(Err(error)) = acceptor.map(|acceptor| acceptor.listener.turn_away()) {
            tracing::warn!(%error, "connections made while a listener closes may be reset");
        }
    }

    /// Accepts what the kernel has queued for this listener, then closes it.
    pub fn unlisten(&mut self, id: ListenerId) {
        if let Some(acceptor) = self.acceptors.get_mut(&id) {
            acceptor.is_closing = true;
        }
    }

    /// Accepts no more from this listener, whose socket another process has, too: what is queued is left to it.
    pub fn leave(&mut self, id: ListenerId) {
        if let Some(acceptor) = self.acceptors.get_mut(&id) {
            acceptor.is_closing = true;
            acceptor.is_shared = true;
        }
    }

    /// Those that are not about to be closed.
    pub fn open_listeners(&self) -> Vec<ListenerId> {
        let open = self.acceptors.iter().filter(|(_, it)| !it.is_closing);
        open.map(|(id, _)| *id).collect()
    }

    /// Whether clients may still come in.
    pub fn is_listening(&self) -> bool {
        !(self.acceptors.is_empty() && self.immediate.is_empty())
    }

    pub fn adopt(&mut self, conn: ConnId, socket: OwnedFd) {
        self.put(Connection::accepted(conn, socket));
    }

    /// Starts to connect. If no socket can be made, the connection fails and is closed like any other.
    pub fn connect(&mut self, conn: ConnId, to: SocketAddr) {
        match upstream_socket(to) {
            Ok(socket) => {
                let connection = Connection::connecting(conn, socket, to, &mut self.ring);
                self.put(connection);
            }
            Err(error) => {
                tracing::warn!(%to, %error, "no socket for an upstream connection");
                let fault = ConnectFault::Host;
                self.immediate
                    .push_back(Completion::ConnectFailed { conn, fault });
                self.immediate.push_back(Completion::Closed { conn });
            }
        }
    }

    pub fn local_address(&self, conn: ConnId) -> Option<SocketAddr> {
        let socket = self.slot(conn)?.socket()?;
        SockRef::from(socket).local_addr().ok()?.as_socket()
    }

    pub fn queue_copy(&mut self, conn: ConnId, bytes: &[u8]) {
        let Some(connection) = open(&mut self.slots, conn) else {
            return;
        };
        connection.queue_copy(bytes, &mut self.spare);
        mark(connection, &mut self.dirty);
    }

    /// Queues a part of received bytes.
    pub fn queue_received(&mut self, conn: ConnId, bytes: &Slice, range: Range<usize>) {
        // Cheaper than another piece to send, and the buffer is free at once.
        if range.len() <= COPY_UP_TO || self.buffers.is_scarce() {
            return self.queue_copy(conn, &bytes[range]);
        }
        let Some(connection) = open(&mut self.slots, conn) else {
            return;
        };
        connection.queue_received(bytes.part(range), &mut self.spare);
        mark(connection, &mut self.dirty);
    }

    pub fn pause(&mut self, conn: ConnId) {
        self.change(conn, |connection| connection.want_receive(false));
    }

    pub fn resume(&mut self, conn: ConnId) {
        self.change(conn, |connection| connection.want_receive(true));
    }

    pub fn shutdown(&mut self, conn: ConnId) {
        self.change(conn, Connection::shutdown);
    }

    pub fn close(&mut self, conn: ConnId) {
        self.change(conn, Connection::close);
    }

    pub fn abort(&mut self, conn: ConnId) {
        self.change(conn, Connection::abort);
    }

    pub fn gauges(&self) -> Gauges {
        Gauges {
            connections: self.open,
            buffers_held: usize::from(self.buffers.held()),
            buffers_exhausted: self.buffers_exhausted,
            overflows: self.ring.overflows(),
        }
    }

    /// Submits everything wanted and waits for completions, at most `timeout`.
    pub fn turn(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        self.starved_try_again();
        self.settle_dirty();
        self.settle_acceptors();
        let has_closed = self.close_acceptors();
        let has_news = has_closed || !self.immediate.is_empty();
        let timeout = if has_news {
            Some(Duration::ZERO)
        } else {
            timeout
        };
        self.ring.enter(timeout)?;
        self.completions.drain(..self.taken);
        self.taken = 0;
        self.ring.take_completions(&mut self.completions);
        Ok(())
    }

    fn settle_dirty(&mut self) {
        let mut dirty = std::mem::take(&mut self.dirty);
        for index in dirty.drain(..) {
            let Some(Some(connection)) = self.slots.get_mut(index as usize) else {
                continue;
            };
            connection.is_dirty = false;
            connection.settle(&mut self.ring, &self.buffers, &mut self.spare);
            if connection.is_starved() {
                self.starved.push(index);
            }
        }
        // Settling marks nothing, so the emptied list and its memory serve the next turn.
        self.dirty = dirty;
    }

    fn settle_acceptors(&mut self) {
        // Each listener may have one client at its door when the last place is taken.
        let share = self.room.div_ceil(self.acceptors.len().max(1));
        for (id, acceptor) in &mut self.acceptors {
            acceptor.settle(*id, share, &mut self.ring);
        }
    }

    /// Takes what is queued for listeners nothing is in flight on any more, and closes them. Says whether there was one.
    fn close_acceptors(&mut self) -> bool {
        let (before, room) = (self.acceptors.len(), self.room);
        let immediate = &mut self.immediate;
        self.acceptors.retain(|id, acceptor| {
            let is_closed = acceptor.is_closed();
            if is_closed && !acceptor.is_shared {
                let queued = acceptor.listener.accept_queued().take(room);
                immediate.extend(queued.map(|socket| accepted(*id, socket)));
            }
            !is_closed
        });
        self.acceptors.len() < before
    }

    fn starved_try_again(&mut self) {
        if self.buffers.is_exhausted() {
            return;
        }
        for index in self.starved.drain(..) {
            if let Some(Some(connection)) = self.slots.get_mut(index as usize) {
                mark(connection, &mut self.dirty);
            }
        }
    }

    pub(super) fn listen_for_wake(&mut self) {
        let entry =
            opcode::Read::new(types::Fd(self.waker.fd()), self.woken.as_mut_ptr(), 8).build();
        // SAFETY: the eight bytes are boxed and live as long as the ring.
        unsafe { self.ring.push(entry, OpKey::new(OpKind::Wake, 0, 0)) };
    }

    fn put(&mut self, connection: Connection) {
        let index = connection.id().index as usize;
        if self.slots.len() <= index {
            self.slots.resize_with(index + 1, || None);
        }
        debug_assert!(
            self.slots[index].is_none(),
            "an index is used again only after it was closed"
        );
        let connection = self.slots[index].insert(connection);
        mark(connection, &mut self.dirty);
        self.open += 1;
    }

    fn change(&mut self, conn: ConnId, change: impl FnOnce(&mut Connection)) {
        if let Some(connection) = open(&mut self.slots, conn) {
            change(connection);
            mark(connection, &mut self.dirty);
        }
    }

    fn slot(&self, conn: ConnId) -> Option<&Connection> {
        self.slots
            .get(conn.index as usize)?
            .as_ref()
            .filter(|connection| connection.id() == conn)
    }
}

impl Drop for Connections {
    fn drop(&mut self) {
        // The read that waits for a wake may outlive the ring's descriptor by a moment.
        std::mem::forget(std::mem::take(&mut self.woken));
        if self.open == 0 {
            // SAFETY: dropped once, here, and not used again; no operation on a connection is in flight.
            unsafe { ManuallyDrop::drop(&mut self.ring) };
        } else {
            // Operations still refer to queues and buffers, and closing the ring would not wait for them: the memory
            // stays until the process ends, which is what happens next.
            std::mem::forget(self.buffers.clone());
            std::mem::forget(std::mem::take(&mut self.slots));
        }
    }
}

pub(super) fn accepted(listener: ListenerId, socket: OwnedFd) -> Completion {
    Completion::Accepted {
        listener,
        peer: peer_of(&socket),
        socket,
    }
}

fn upstream_socket(to: SocketAddr) -> io::Result<OwnedFd> {
    let socket = Socket::new(
        Domain::for_address(to),
        Type::STREAM.cloexec(),
        Some(Protocol::TCP),
    )?;
    socket.set_tcp_nodelay(true)?;
    Ok(socket.into())
}

fn open(slots: &mut [Option<Connection>], conn: ConnId) -> Option<&mut Connection> {
    slots
        .get_mut(conn.index as usize)?
        .as_mut()
        .filter(|connection| connection.id() == conn)
}

/// The connection an operation was submitted for, unless it is gone.
pub(super) fn named(slots: &mut [Option<Connection>], key: OpKey) -> Option<&mut Connection> {
    let connection = slots.get_mut(key.index as usize)?.as_mut()?;
    (connection.id().generation & GENERATION_MASK == key.generation).then_some(connection)
}

pub(super) fn mark(connection: &mut Connection, dirty: &mut Vec<u32>) {
    if !connection.is_dirty {
        connection.is_dirty = true;
        dirty.push(connection.id().index);
    }
}

//! One connection as the ring sees it: which operations are in flight and which are wanted. [`Connection::settle`]
//! compares the two and submits the difference, so the order in which wishes arrive does not matter.
//!
//! ```text
//! receive:  Off ──arm──► Armed ──cancel──► Stopping ──► Off      end of stream: ──► Over
//! closing:  no ──close──► flush ──► cancel what runs ──► nothing in flight ──► close ──► gone
//! ```

use std::net::SocketAddr;
use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

use io_uring::{opcode, types};
use socket2::{SockAddr, SockRef};

use super::buffers::{BufferPool, GROUP, Slice};
use super::key::{OpKey, OpKind};
use super::send_queue::{NextSend, SendQueue};
use super::submission::Submission;
use crate::seam::ConnId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receive {
    Off,
    Armed,
    /// Cancelled, and the last completion is still to come.
    Stopping,
    /// Nothing more will come.
    Over,
}

/// How the connection is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
enum Ending {
    No,
    /// Our side, once all is sent.
    Shutdown,
    /// Whole, once all is sent.
    Close,
    /// At once, with a reset.
    Abort,
}

/// Memory a connection can do without while idle, shared by all connections of a worker.
#[derive(Default)]
pub struct Spare {
    #[expect(
        clippy::vec_box,
        reason = "the kernel reads a queue's message header, so a queue must not move"
    )]
    pub queues: Vec<Box<SendQueue>>,
    pub blocks: Vec<Vec<u8>>,
}

const SPARE_QUEUES: usize = 256;

pub struct Connection {
    id: ConnId,
    /// Taken when the close is submitted.
    socket: Option<OwnedFd>,
    /// Where to connect to, while connecting.
    address: Option<Box<SockAddr>>,
    queue: Option<Box<SendQueue>>,
    receive: Receive,
    wants_receive: bool,
    sending: bool,
    connecting: bool,
    send_broken: bool,
    cancelled: bool,
    ending: Ending,
    /// Already among those to settle at the end of the turn.
    pub is_dirty: bool,
}

// Most connections are those of idle clients, who are many.
const _: () = assert!(size_of::<Option<Connection>>() <= 40);

impl Connection {
    pub fn accepted(id: ConnId, socket: OwnedFd) -> Self {
        Self {
            id,
            socket: Some(socket),
            address: None,
            queue: None,
            receive: Receive::Off,
            wants_receive: true,
            sending: false,
            connecting: false,
            send_broken: false,
            cancelled: false,
            ending: Ending::No,
            is_dirty: false,
        }
    }

    /// A connection that submits its connect at once.
    pub fn connecting(id: ConnId, socket: OwnedFd, to: SocketAddr, ring: &mut Submission) -> Self {
        let address = Box::new(SockAddr::from(to));
        let entry = opcode::Connect::new(
            types::Fd(socket.as_raw_fd()),
            address.as_ptr().cast(),
            address.len(),
        )
        .build();
        let mut connection = Self::accepted(id, socket);
        // SAFETY: the address is boxed and kept until the connect completes; the connection is kept until all is over.
        unsafe { ring.push(entry, connection.key(OpKind::Connect)) };
        connection.address = Some(address);
        connection.connecting = true;
        connection
    }

    pub fn id(&self) -> ConnId {
        self.id
    }

    pub fn socket(&self) -> Option<&OwnedFd> {
        self.socket.as_ref()
    }

    pub fn queue_copy(&mut self, bytes: &[u8], spare: &mut Spare) {
        if let Some(queue) = self.queue_for_more(spare) {
            queue.push_copy(bytes, &mut spare.blocks);
        }
    }

    pub fn queue_received(&mut self, slice: Slice, spare: &mut Spare) {
        if let Some(queue) = self.queue_for_more(spare) {
            queue.push_received(slice);
        }
    }

    /// `None` once no more bytes can leave.
    fn queue_for_more(&mut self, spare: &mut Spare) -> Option<&mut SendQueue> {
        if self.send_broken || self.ending > Ending::No {
            return None;
        }
        let queue = self
            .queue
            .get_or_insert_with(|| spare.queues.pop().unwrap_or_else(SendQueue::boxed));
        Some(&mut **queue)
    }

    pub fn want_receive(&mut self, wanted: bool) {
        self.wants_receive = wanted;
    }

    pub fn shutdown(&mut self) {
        self.end(Ending::Shutdown);
    }

    pub fn close(&mut self) {
        self.end(Ending::Close);
    }

    pub fn abort(&mut self) {
        self.end(Ending::Abort);
    }

    fn end(&mut self, ending: Ending) {
        if ending > self.ending {
            self.ending = ending;
        }
    }

    pub fn on_connected(&mut self) {
        self.connecting = false;
        self.address = None;
    }

    pub fn on_connect_failed(&mut self) {
        self.on_connected();
        self.send_broken = true;
        self.receive = Receive::Over;
    }

    /// The receive completed; `goes_on` says whether more will come of it.
    pub fn on_receive(&mut self, goes_on: bool) {
        if !goes_on {
            self.receive = Receive::Off;
        }
    }

    pub fn on_receive_over(&mut self) {
        self.receive = Receive::Over;
    }

    /// The send is over: bytes taken, or `None` if the socket takes no more.
    pub fn on_send(&mut self, sent: Option<usize>, spare: &mut Spare) {
        self.sending = false;
        let Some(queue) = &mut self.queue else { return };
        match sent {
            Some(sent) => queue.on_sent(sent, &mut spare.blocks),
            None => {
                self.send_broken = true;
                queue.on_sent(0, &mut spare.blocks);
                queue.clear(&mut spare.blocks);
            }
        }
        self.give_back_queue(spare);
    }

    fn give_back_queue(&mut self, spare: &mut Spare) {
        if !self.sending
            && let Some(queue) = self.queue.take_if(|queue| queue.is_empty())
            && spare.queues.len() < SPARE_QUEUES
        {
            spare.queues.push(queue);
        }
    }

    /// Whether something waits for the send that was in flight.
    pub fn waits_for_send(&self) -> bool {
        self.queue.is_some() || self.ending > Ending::No
    }

    /// Submits what is wanted and not in flight yet.
    pub fn settle(&mut self, ring: &mut Submission, buffers: &BufferPool, spare: &mut Spare) {
        let Some(fd) = self
            .socket
            .as_ref()
            .map(|socket| types::Fd(socket.as_raw_fd()))
        else {
            return;
        };
        if self.ending == Ending::Abort {
            self.drop_queue(spare);
        } else if !self.connecting && !self.sending {
            self.send_next(fd, ring);
        }
        let is_flushed = !self.sending && self.queue.is_none();
        match self.ending {
            Ending::No => {}
            Ending::Shutdown if is_flushed && !self.connecting => self.shutdown_now(),
            Ending::Shutdown => {}
            Ending::Close if is_flushed => return self.close_when_quiet(fd, ring),
            Ending::Close => self.wants_receive = false,
            Ending::Abort => return self.close_when_quiet(fd, ring),
        }
        self.settle_receive(fd, ring, buffers);
    }

    fn send_next(&mut self, fd: types::Fd, ring: &mut Submission) {
        const FLAGS: i32 = libc::MSG_NOSIGNAL | libc::MSG_WAITALL;
        let Some(next) = self.queue.as_mut().and_then(|queue| queue.next_send()) else {
            return;
        };
        let entry = match next {
            NextSend::Bytes { start, length } => {
                opcode::Send::new(fd, start, length).flags(FLAGS).build()
            }
            NextSend::Message(message) => opcode::SendMsg::new(fd, message)
                .flags(FLAGS as u32)
                .build(),
        };
        // SAFETY: the queue is boxed, keeps the pieces in flight unmoved until `on_send`, and is not dropped before.
        unsafe { ring.push(entry, self.key(OpKind::Send)) };
        self.sending = true;
    }

    fn settle_receive(&mut self, fd: types::Fd, ring: &mut Submission, buffers: &BufferPool) {
        match self.receive {
            Receive::Off if self.wants_receive && !self.connecting && !buffers.is_exhausted() => {
                let entry = opcode::RecvMulti::new(fd, GROUP).build();
                // SAFETY: a receive into the buffer group points to no memory of its own.
                unsafe { ring.push(entry, self.key(OpKind::Receive)) };
                self.receive = Receive::Armed;
            }
            Receive::Armed if !self.wants_receive => {
                ring.cancel(self.key(OpKind::Receive));
                self.receive = Receive::Stopping;
            }
            _ => {}
        }
    }

    /// Whether a receive is wanted that no buffer was left for.
    pub fn is_starved(&self) -> bool {
        self.receive == Receive::Off
            && self.wants_receive
            && !self.connecting
            && self.ending < Ending::Close
    }

    fn shutdown_now(&mut self) {
        if let Some(socket) = &self.socket {
            // Fails only if the peer is gone, which the receive tells.
            let _ = SockRef::from(socket).shutdown(std::net::Shutdown::Write);
        }
        self.send_broken = true;
    }

    fn drop_queue(&mut self, spare: &mut Spare) {
        if let Some(socket) = self.socket.as_ref().filter(|_| !self.cancelled) {
            // Makes the close send a reset; a socket that refuses closes in the ordinary way.
            let _ = SockRef::from(socket).set_linger(Some(std::time::Duration::ZERO));
        }
        if let Some(queue) = &mut self.queue {
            queue.clear(&mut spare.blocks);
        }
        self.give_back_queue(spare);
    }

    fn close_when_quiet(&mut self, fd: types::Fd, ring: &mut Submission) {
        let is_receiving = matches!(self.receive, Receive::Armed | Receive::Stopping);
        if is_receiving || self.sending || self.connecting {
            if !self.cancelled {
                ring.cancel_all(fd, self.key(OpKind::Cancel));
                self.cancelled = true;
            }
        } else if let Some(socket) = self.socket.take() {
            let entry = opcode::Close::new(types::Fd(socket.into_raw_fd())).build();
            // SAFETY: a close points to no memory; the descriptor was given up for it.
            unsafe { ring.push(entry, self.key(OpKind::Close)) };
        }
    }

    fn key(&self, kind: OpKind) -> OpKey {
        OpKey::new(kind, self.id.index, self.id.generation)
    }
}

//! Accepting from one listener. With room for many one operation accepts all there are; a burst could then take more
//! descriptors than there is room for before anybody is asked, so with room for few each client is accepted by an
//! operation of its own, and without room none is.

use io_uring::{opcode, types};

use super::key::{OpKey, OpKind};
use super::listener::{BACKLOG, Listener};
use super::submission::Submission;
use crate::snapshot::ListenerId;

/// Clients one operation may take at a time without asking.
const MANY: usize = BACKLOG as usize;
/// Operations in flight where each takes one client.
const FEW: usize = 16;

pub struct Acceptor {
    pub listener: Listener,
    in_flight: usize,
    is_multishot: bool,
    is_cancelling: bool,
    /// The host had no descriptor or memory: nothing is accepted until told to.
    pub is_resting: bool,
    /// It ends with its last operation.
    pub is_closing: bool,
    /// Another process accepts from the socket, too.
    pub is_shared: bool,
}

impl Acceptor {
    pub fn new(listener: Listener) -> Self {
        Self {
            listener,
            in_flight: 0,
            is_multishot: false,
            is_cancelling: false,
            is_resting: false,
            is_closing: false,
            is_shared: false,
        }
    }

    /// Submits what brings the operations in flight to what `room` allows.
    pub fn settle(&mut self, id: ListenerId, room: usize, ring: &mut Submission) {
        let is_at_rest = self.is_resting || self.is_closing;
        let wanted = if is_at_rest { 0 } else { room };
        if wanted >= MANY {
            if self.in_flight == 0 {
                self.arm(true, id, ring);
            }
            return;
        }
        let few = wanted.min(FEW);
        if self.is_multishot || self.in_flight > few {
            self.cancel(id, ring);
        }
        while !self.is_cancelling && self.in_flight < few {
            self.arm(false, id, ring);
        }
    }

    /// An operation completed, for the last time unless it `goes_on`.
    pub fn on_completion(&mut self, goes_on: bool) {
        if !goes_on {
            self.in_flight = self.in_flight.saturating_sub(1);
        }
        if self.in_flight == 0 {
            self.is_multishot = false;
            self.is_cancelling = false;
        }
    }

    /// Whether it was to be closed and nothing is in flight any more.
    pub fn is_closed(&self) -> bool {
        self.is_closing && self.in_flight == 0
    }

    fn arm(&mut self, is_multishot: bool, id: ListenerId, ring: &mut Submission) {
        let fd = types::Fd(self.listener.fd());
        let entry = if is_multishot {
            opcode::AcceptMulti::new(fd)
                .flags(libc::SOCK_CLOEXEC)
                .build()
        } else {
            opcode::Accept::new(fd, std::ptr::null_mut(), std::ptr::null_mut())
                .flags(libc::SOCK_CLOEXEC)
                .build()
        };
        // SAFETY: an accept that asks for no address points to no memory.
        unsafe { ring.push(entry, key(id)) };
        self.is_multishot = is_multishot;
        self.in_flight += 1;
    }

    fn cancel(&mut self, id: ListenerId, ring: &mut Submission) {
        if !self.is_cancelling {
            ring.cancel_named(key(id));
            self.is_cancelling = true;
        }
    }
}

fn key(id: ListenerId) -> OpKey {
    OpKey::new(OpKind::Accept, id.0, 0)
}

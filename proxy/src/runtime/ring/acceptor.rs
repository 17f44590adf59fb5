//! Accepting from one listener. With room for many one operation accepts all there are; a burst could then take more
//! descriptors than there is room for before anybody is asked, so with room for few each client is accepted by an
//! operation of its own, and without room none is.

use io_uring::{opcode, types};

use super::key::{OpKey, OpKind};
use super::listener::{BACKLOG, Listener};
use super::submission::Submission;

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
}

impl Acceptor {
    pub fn new(listener: Listener) -> Self {
        Self {
            listener,
            in_flight: 0,
            is_multishot: false,
            is_cancelling: false,
            is_resting: false,
        }
    }

    /// Submits what brings the operations in flight to what `room` allows; `index` is the listener's.
    pub fn settle(&mut self, index: usize, room: usize, ring: &mut Submission) {
        let wanted = if self.is_resting { 0 } else { room };
        if wanted >= MANY {
            if self.in_flight == 0 {
                self.arm(true, index, ring);
            }
            return;
        }
        let few = wanted.min(FEW);
        if self.is_multishot || self.in_flight > few {
            self.cancel(index, ring);
        }
        while !self.is_cancelling && self.in_flight < few {
            self.arm(false, index, ring);
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

    fn arm(&mut self, is_multishot: bool, index: usize, ring: &mut Submission) {
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
        unsafe { ring.push(entry, key(index)) };
        self.is_multishot = is_multishot;
        self.in_flight += 1;
    }

    fn cancel(&mut self, index: usize, ring: &mut Submission) {
        if !self.is_cancelling {
            ring.cancel_named(key(index));
            self.is_cancelling = true;
        }
    }
}

fn key(index: usize) -> OpKey {
    OpKey::new(OpKind::Accept, index as u32, 0)
}

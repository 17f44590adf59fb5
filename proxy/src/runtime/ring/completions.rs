//! From the ring's completions to what they mean for a connection.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{FromRawFd, OwnedFd};

use super::buffers::Slice;
use super::connections::{Connections, accepted, mark, named};
use super::key::OpKind;
use super::submission::RawCompletion;
use crate::seam::{ConnId, ConnectFault, End};
use crate::snapshot::ListenerId;

/// What became of an operation.
pub enum Completion {
    Accepted {
        listener: ListenerId,
        socket: OwnedFd,
        peer: SocketAddr,
    },
    /// No descriptor or no memory for a new connection: accepting goes on with [`Connections::resume_accepting`].
    AcceptFailed {
        listener: ListenerId,
        error: io::Error,
    },
    Connected {
        conn: ConnId,
    },
    ConnectFailed {
        conn: ConnId,
        fault: ConnectFault,
    },
    Received {
        conn: ConnId,
        bytes: Slice,
    },
    ReceiveEnded {
        conn: ConnId,
        end: End,
    },
    Sent {
        conn: ConnId,
        bytes: usize,
    },
    SendFailed {
        conn: ConnId,
    },
    Closed {
        conn: ConnId,
    },
    Woken,
}

impl Connections {
    /// The next completion of this turn.
    pub fn next_completion(&mut self) -> Option<Completion> {
        if let Some(completion) = self.immediate.pop_front() {
            return Some(completion);
        }
        while let Some(raw) = self.completions.get(self.taken).copied() {
            self.taken += 1;
            if let Some(completion) = self.interpret(raw) {
                return Some(completion);
            }
        }
        None
    }

    fn interpret(&mut self, raw: RawCompletion) -> Option<Completion> {
        match raw.key.kind {
            OpKind::Accept => self.on_accept(raw),
            OpKind::Receive => self.on_receive(raw),
            OpKind::Send => self.on_send(raw),
            OpKind::Connect => self.on_connect(raw),
            OpKind::Close => self.on_close(raw),
            OpKind::Cancel => None,
            OpKind::Wake => {
                self.listen_for_wake();
                Some(Completion::Woken)
            }
        }
    }

    fn on_accept(&mut self, raw: RawCompletion) -> Option<Completion> {
        let listener = ListenerId(raw.key.index);
        let acceptor = self.acceptors.get_mut(&listener);
        if raw.result < 0 {
            // Without its acceptor it belongs to a listener that is gone.
            let acceptor = acceptor?;
            acceptor.on_completion(raw.goes_on());
            if raw.result == -libc::ECANCELED || acceptor.is_resting || acceptor.is_closing {
                return None;
            }
            acceptor.is_resting = true;
            let error = io::Error::from_raw_os_error(-raw.result);
            return Some(Completion::AcceptFailed { listener, error });
        }
        if let Some(acceptor) = acceptor {
            acceptor.on_completion(raw.goes_on());
        }
        // SAFETY: the kernel has just made this descriptor for us; nobody else knows it.
        let socket = unsafe { OwnedFd::from_raw_fd(raw.result) };
        Some(accepted(listener, socket))
    }

    fn on_receive(&mut self, raw: RawCompletion) -> Option<Completion> {
        // The buffer is taken first: whatever became of its connection, it must find its way back.
        let bytes = raw
            .buffer()
            .and_then(|(id, more)| self.buffers.received(id, raw.result.max(0) as u32, more));
        let connection = named(&mut self.slots, raw.key)?;
        let conn = connection.id();
        let completion = match (raw.result, bytes) {
            (1.., Some(bytes)) => {
                connection.on_receive(raw.goes_on());
                Some(Completion::Received { conn, bytes })
            }
            (result, _) if result == -libc::ENOBUFS => {
                connection.on_receive(false);
                self.buffers_exhausted += 1;
                None
            }
            (result, _) if result == -libc::ECANCELED || result == -libc::EAGAIN => {
                connection.on_receive(false);
                None
            }
            (result, _) => {
                connection.on_receive_over();
                let end = if result == 0 {
                    End::Finished
                } else {
                    End::Broken
                };
                Some(Completion::ReceiveEnded { conn, end })
            }
        };
        if !raw.goes_on() {
            mark(connection, &mut self.dirty);
        }
        completion
    }

    fn on_send(&mut self, raw: RawCompletion) -> Option<Completion> {
        let connection = named(&mut self.slots, raw.key)?;
        let conn = connection.id();
        let sent = usize::try_from(raw.result).ok();
        connection.on_send(sent, &mut self.spare);
        if connection.waits_for_send() {
            mark(connection, &mut self.dirty);
        }
        Some(match sent {
            Some(bytes) => Completion::Sent { conn, bytes },
            None => Completion::SendFailed { conn },
        })
    }

    fn on_connect(&mut self, raw: RawCompletion) -> Option<Completion> {
        let connection = named(&mut self.slots, raw.key)?;
        let conn = connection.id();
        mark(connection, &mut self.dirty);
        if raw.result < 0 {
            connection.on_connect_failed();
            let fault = fault_of(-raw.result);
            return Some(Completion::ConnectFailed { conn, fault });
        }
        connection.on_connected();
        Some(Completion::Connected { conn })
    }

    fn on_close(&mut self, raw: RawCompletion) -> Option<Completion> {
        let conn = named(&mut self.slots, raw.key)?.id();
        self.slots[conn.index as usize] = None;
        self.open -= 1;
        Some(Completion::Closed { conn })
    }
}

fn fault_of(error: i32) -> ConnectFault {
    match error {
        libc::EADDRNOTAVAIL | libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM => ConnectFault::Host,
        _ => ConnectFault::Endpoint,
    }
}

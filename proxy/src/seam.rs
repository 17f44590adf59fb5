//! The seam between pure code and the world. The ring worker, the unit tests and the simulation all drive a [`Core`]
//! the same way: report an [`Event`] with its moment, carry out every [`Action`] until there is none, sleep until
//! [`Core::next_deadline`]. There is no fake ring.
//!
//! Received bytes are never owned by the core. A [`Action::Send`] names a range of the bytes of the event being
//! handled, or of bytes the core made itself; the driver, which owns the buffers, queues them. That is why all actions
//! must be taken before the next event is reported.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

use crate::balance::Books;
use crate::moment::Moment;
use crate::snapshot::{ListenerId, Snapshot};

/// A connection, downstream or upstream. The core hands them out; the generation makes late news harmless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId {
    pub index: u32,
    pub generation: u32,
}

/// An accepted socket the core has not decided about: the driver's name for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Socket(pub i32);

/// Row of `FLOW_SAMPLE` in which the kernel leaves this connection's samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSlot(pub u32);

/// Who is at the other end of an upstream connection, for the kernel's measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub address: SocketAddr,
    /// Row of the endpoint tables.
    pub endpoint: u32,
    pub generation: u64,
}

/// How receiving or sending on a connection came to an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The peer finished its side in order.
    Finished,
    /// Reset, or any other error of the socket.
    Broken,
}

/// Why a connection could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFault {
    /// Refused, reset, unreachable: the endpoint is not there.
    Endpoint,
    /// No descriptor, port or memory was left on this host, which says nothing of the endpoint.
    Host,
}

/// What happened.
#[derive(Debug)]
pub enum Event<'a> {
    /// Answered by [`Action::Adopt`] or [`Action::Refuse`].
    Accepted {
        listener: ListenerId,
        peer: SocketAddr,
        socket: Socket,
    },
    Connected {
        conn: ConnId,
        slot: Option<FlowSlot>,
    },
    ConnectFailed {
        conn: ConnId,
        fault: ConnectFault,
    },
    Received {
        conn: ConnId,
        bytes: &'a [u8],
    },
    /// Nothing more will be received.
    ReceiveEnded {
        conn: ConnId,
        end: End,
    },
    /// The socket took this many of the queued bytes.
    Sent {
        conn: ConnId,
        bytes: usize,
    },
    SendFailed {
        conn: ConnId,
    },
    /// The last event of a connection: its descriptor and buffers are gone.
    Closed {
        conn: ConnId,
    },
    /// A deadline may have come.
    Tick,
    /// Serve from this snapshot from now on. What runs goes on with the one it began with.
    Replaced {
        snapshot: &'a Arc<Snapshot>,
    },
    /// Another process has our rows of the shared tables from now on, or has them no more.
    Books(Books),
    /// Finish what runs, then close everything.
    Drain,
}

/// Where the bytes of a send lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The bytes of the [`Event::Received`] being handled.
    Received,
    /// [`Core::made`].
    Made,
}

/// What to do next. An action on a connection the driver has already lost is ignored by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The accepted socket is this connection from now on; receive from it.
    Adopt {
        conn: ConnId,
        socket: Socket,
    },
    Refuse {
        socket: Socket,
    },
    /// Connect, then receive. Sends may be queued at once.
    Connect {
        conn: ConnId,
        peer: Peer,
    },
    /// Queue these bytes behind what is queued.
    Send {
        conn: ConnId,
        source: Source,
        range: Range<usize>,
    },
    /// Stop receiving. Bytes already on their way are still reported.
    Pause {
        conn: ConnId,
    },
    Resume {
        conn: ConnId,
    },
    /// What goes over this connection from now on is not to be measured by the kernel.
    Unmeasure {
        conn: ConnId,
    },
    /// Send what is queued, then end our side.
    Shutdown {
        conn: ConnId,
    },
    /// Send what is queued, then close.
    Close {
        conn: ConnId,
    },
    /// Drop what is queued and reset the connection.
    Abort {
        conn: ConnId,
    },
}

/// Sans-IO logic of one worker.
pub trait Core {
    fn on_event(&mut self, event: Event<'_>, now: Moment);

    fn next_action(&mut self) -> Option<Action>;

    /// Bytes the core made for the sends of this event.
    fn made(&self) -> &[u8];

    /// When to report [`Event::Tick`] at the latest.
    fn next_deadline(&self) -> Option<Moment>;

    /// Revision of the oldest snapshot anything here may still ask.
    fn oldest_snapshot(&self) -> u64;

    /// Whether a drain has nothing left to wait for.
    fn is_drained(&self) -> bool;

    /// How many more clients the core would take now. The driver accepts no more than that, as far as it can help it.
    fn room(&self) -> usize {
        usize::MAX
    }
}

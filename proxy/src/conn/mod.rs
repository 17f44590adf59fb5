//! Connections as the core sees them: what state each is in, and how much is queued to it. Deciding what happens on
//! them is [`exchange`](crate::exchange)'s.
//!
//! ```text
//! client:    Idle ──► ReadingHead ──► InExchange ──► Idle …        any ──► Lingering ──► Closing
//! endpoint:  Connecting ──► InExchange ──► Idle ──► InExchange …   any ──► Closing
//!            Mirroring ──► Idle …
//! ```

mod chain;
mod inbox;
mod outbox;
mod pool;
mod slab;

pub use inbox::{Inbox, Input, PartialHead};
pub use outbox::Outbox;
pub use pool::Pool;
pub use slab::{Slab, SlabKey};

use std::net::{IpAddr, SocketAddr};

use crate::balance::EndpointRow;
use crate::seam::{ConnId, FlowSlot, Peer};
use crate::snapshot::ListenerId;
use crate::timer::Deadline;

/// Names an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeId {
    index: u32,
    generation: u32,
}

impl SlabKey for ExchangeId {
    fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    fn index(self) -> u32 {
        self.index
    }

    fn generation(self) -> u32 {
        self.generation
    }
}

/// Names the copy of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorId {
    index: u32,
    generation: u32,
}

impl SlabKey for MirrorId {
    fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    fn index(self) -> u32 {
        self.index
    }

    fn generation(self) -> u32 {
        self.generation
    }
}

impl SlabKey for ConnId {
    fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }

    fn index(self) -> u32 {
        self.index
    }

    fn generation(self) -> u32 {
        self.generation
    }
}

/// One connection.
#[derive(Debug)]
pub struct Conn {
    pub side: Side,
    /// Bytes handed to the driver and not taken by the socket yet.
    pub queued: usize,
    /// Whether the driver was told to stop receiving.
    pub is_paused: bool,
    pub deadline: Deadline,
    /// Bytes that cannot be handled yet: an unfinished head, or requests ahead of their turn.
    pub inbox: Option<Box<Inbox>>,
}

// Most connections are those of idle clients, who are many.
const _: () = assert!(size_of::<Conn>() <= 120);

#[derive(Debug)]
pub enum Side {
    Downstream(Downstream),
    Upstream(Upstream),
}

/// A client's connection.
#[derive(Debug)]
pub struct Downstream {
    pub client: IpAddr,
    /// Of the client.
    pub port: u16,
    /// Where it came in.
    pub listener: ListenerId,
    /// Beyond the budget: taken in only to be told so.
    pub is_shed: bool,
    pub state: DownstreamState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownstreamState {
    /// Between requests.
    Idle,
    ReadingHead,
    InExchange(ExchangeId),
    /// The last response is queued and our side ends behind it; what still comes is thrown away, so that the client
    /// can read the response before the connection is gone (RFC 9112, section 9.6).
    Lingering,
    Closing,
}

/// A connection to an endpoint.
#[derive(Debug)]
pub struct Upstream {
    pub address: SocketAddr,
    /// Row of the endpoint tables, and whose it was when the connection was made.
    pub endpoint: u32,
    pub generation: u64,
    pub state: UpstreamState,
    pub slot: Option<FlowSlot>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpstreamState {
    Connecting(ExchangeId),
    InExchange(ExchangeId),
    /// Carries the copy of a request, or will as soon as it stands.
    Mirroring(MirrorId),
    /// In the pool.
    Idle,
    Closing,
}

impl Downstream {
    /// Where the client connects from.
    pub fn source(&self) -> SocketAddr {
        SocketAddr::new(self.client, self.port)
    }
}

impl Upstream {
    pub fn row(&self) -> EndpointRow {
        EndpointRow {
            index: self.endpoint,
            generation: self.generation,
        }
    }
}

impl Conn {
    pub fn downstream(client: SocketAddr, listener: ListenerId) -> Self {
        Self::new(Side::Downstream(Downstream {
            client: client.ip().to_canonical(),
            port: client.port(),
            listener,
            is_shed: false,
            state: DownstreamState::Idle,
        }))
    }

    pub fn upstream(peer: Peer, state: UpstreamState) -> Self {
        Self::new(Side::Upstream(Upstream {
            address: peer.address,
            endpoint: peer.endpoint,
            generation: peer.generation,
            state,
            slot: None,
        }))
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            queued: 0,
            is_paused: false,
            deadline: Deadline::default(),
            inbox: None,
        }
    }

    pub fn as_downstream(&mut self) -> Option<&mut Downstream> {
        match &mut self.side {
            Side::Downstream(downstream) => Some(downstream),
            Side::Upstream(_) => None,
        }
    }

    pub fn as_upstream(&mut self) -> Option<&mut Upstream> {
        match &mut self.side {
            Side::Upstream(upstream) => Some(upstream),
            Side::Downstream(_) => None,
        }
    }
}

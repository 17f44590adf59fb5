//! What is remembered of a connection that is relayed, and which end belongs to which.

use std::net::SocketAddr;
use std::time::Duration;

use super::Role;
use crate::access_log::Record;
use crate::balance::{AffinityKey, BackendId, Lease};
use crate::conn::SlabKey;
use crate::moment::Moment;
use crate::proxy_protocol::{Addresses, Version};
use crate::seam::ConnId;
use crate::snapshot::{Hold, ListenerId};
use crate::timer::Deadline;

/// Names a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId {
    index: u32,
    generation: u32,
}

impl SlabKey for LinkId {
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

/// A client, and the endpoint it talks to once there is one.
#[derive(Debug)]
pub struct Link {
    pub client: End,
    pub endpoint: Option<End>,
    /// Where the client came in.
    pub listener: ListenerId,
    /// Where it is, and what it connected to, as far as we were told.
    pub address: SocketAddr,
    pub destination: SocketAddr,
    pub phase: Phase,
    /// `None` until it is drawn.
    pub backend: Option<BackendId>,
    pub key: Option<AffinityKey>,
    /// What the endpoint is told of the client, and how.
    pub sends_header: Option<Version>,
    /// Further endpoints that may be tried.
    pub more_tries: u8,
    /// Rows of the endpoints no connection stood to.
    pub tried: Vec<u32>,
    /// Until a connection stands: as long as another endpoint may be picked.
    pub hold: Option<Hold>,
    pub lease: Option<Lease>,
    pub attempt_began: Moment,
    /// How long it took to connect.
    pub connect: Option<Duration>,
    /// Whether the latest bytes came from the client: then an answer may be on its way.
    pub is_asked: bool,
    /// What the client sent before there was anybody to have it.
    pub early: Vec<u8>,
    /// For the access log, if there is one.
    pub record: Option<Box<Record>>,
    pub deadline: Deadline,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Its header has not come whole.
    Preamble,
    Connecting,
    Open,
    /// The outcome is known; what is queued may still be taken.
    Closing,
}

/// One of the two connections.
#[derive(Debug)]
pub struct End {
    pub conn: ConnId,
    /// Bytes handed to the driver and not taken by the socket yet.
    pub queued: usize,
    /// Whether the driver was told to stop receiving.
    pub is_paused: bool,
    /// Whether it sends no more.
    pub has_ended: bool,
    pub has_sent: bool,
    /// Whether nothing is left of it.
    pub is_gone: bool,
}

impl End {
    pub fn new(conn: ConnId) -> Self {
        Self {
            conn,
            queued: 0,
            is_paused: false,
            has_ended: false,
            has_sent: false,
            is_gone: false,
        }
    }
}

impl Link {
    pub fn new(
        client: ConnId,
        listener: ListenerId,
        addresses: Addresses,
        hold: Hold,
        now: Moment,
    ) -> Self {
        Self {
            client: End::new(client),
            endpoint: None,
            listener,
            address: addresses.source,
            destination: addresses.destination,
            phase: Phase::Preamble,
            sends_header: None,
            backend: None,
            key: None,
            more_tries: 0,
            tried: Vec::new(),
            hold: Some(hold),
            lease: None,
            attempt_began: now,
            connect: None,
            is_asked: false,
            early: Vec::new(),
            record: None,
            deadline: Deadline::default(),
        }
    }

    /// Who the client is, as somebody before us says.
    pub fn told(&mut self, addresses: Addresses) {
        let Addresses { source, .. } = addresses;
        self.address = SocketAddr::new(source.ip().to_canonical(), source.port());
        self.destination = addresses.destination;
        if let Some(record) = &mut self.record {
            record.client = self.address.ip();
        }
    }

    /// Bytes came from this end.
    pub fn count(&mut self, from: Role, bytes: usize) {
        let Some(record) = &mut self.record else {
            return;
        };
        match from {
            Role::Client => record.bytes_in += bytes as u64,
            Role::Endpoint => record.bytes_out += bytes as u64,
        }
    }

    /// The end of this role and the other one, if both are there. `None` for a connection to an endpoint that was given
    /// up for another.
    pub fn ends(&mut self, role: Role, conn: ConnId) -> Option<(&mut End, &mut End)> {
        let endpoint = self.endpoint.as_mut()?;
        let (this, other) = match role {
            Role::Client => (&mut self.client, endpoint),
            Role::Endpoint => (endpoint, &mut self.client),
        };
        (this.conn == conn).then_some((this, other))
    }

    /// Whether bytes are on their way, or perhaps an answer to some.
    pub fn is_busy(&self) -> bool {
        self.is_asked || self.left().any(|end| end.queued > 0)
    }

    /// Those of both ends that are still there.
    pub fn left(&self) -> impl Iterator<Item = &End> {
        let both = std::iter::once(&self.client).chain(&self.endpoint);
        both.filter(|end| !end.is_gone)
    }
}

/// Which link each connection is of, by the number of the connection.
#[derive(Debug, Default)]
pub struct Ends {
    owners: Vec<Option<Owner>>,
    count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner {
    generation: u32,
    pub link: LinkId,
    pub role: Role,
}

impl Ends {
    pub fn insert(&mut self, conn: ConnId, link: LinkId, role: Role) {
        let index = conn.index as usize;
        if self.owners.len() <= index {
            self.owners.resize(index + 1, None);
        }
        let generation = conn.generation;
        let owner = Owner {
            generation,
            link,
            role,
        };
        self.count += usize::from(self.owners[index].replace(owner).is_none());
    }

    pub fn owner(&self, conn: ConnId) -> Option<Owner> {
        let owner = self.owners.get(conn.index as usize)?;
        owner.filter(|owner| owner.generation == conn.generation)
    }

    pub fn remove(&mut self, conn: ConnId) -> Option<Owner> {
        let owner = self.owner(conn)?;
        self.owners[conn.index as usize] = None;
        self.count -= 1;
        Some(owner)
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

//! L4 services: which endpoints a VIP stands for, how good each is, and the connections between.

use crate::Address;

/// IP protocol number of TCP.
pub const TCP: u8 = 6;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;

/// `SERVICE`: what clients send to. With neither port nor protocol it says that the address is a VIP.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ServiceKey {
    pub address: Address,
    /// Network byte order.
    pub port: u16,
    /// IP protocol number.
    pub protocol: u8,
    pub padding: u8,
}

const _: () = assert!(size_of::<ServiceKey>() == 20);

/// `SERVICE`: the rows of `SERVICE_ENDPOINT` that are drawn from.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Service {
    pub first: u32,
    /// 0 while no endpoint is viable.
    pub count: u32,
}

const _: () = assert!(size_of::<Service>() == 8);

/// `SERVICE_ENDPOINT[row]`: an endpoint of a service, and its column of the service's alias table: a draw picks a column,
/// then its own endpoint or the one the column is filled up with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceEndpoint {
    pub address: Address,
    /// Address of ours that packets to it come from.
    pub source: Address,
    /// Network byte order.
    pub port: u16,
    pub padding: u16,
    /// Row of the endpoint tables.
    pub endpoint: u32,
    pub generation: u64,
    /// In 2^-32: up to here a draw goes to the column's own endpoint.
    pub cut: u32,
    /// Row of the other one.
    pub alias: u32,
}

const _: () = assert!(size_of::<ServiceEndpoint>() == 56);

/// `CONNECTION`: the ends of a packet as it comes in, from either side. A packet of a client has the VIP as its destination,
/// one of an endpoint the address and port of ours that stand for the client.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ConnectionKey {
    pub source: Address,
    pub destination: Address,
    /// Network byte order, as the other port.
    pub source_port: u16,
    pub destination_port: u16,
    pub protocol: u8,
    pub padding: [u8; 3],
}

const _: () = assert!(size_of::<ConnectionKey>() == 40);

/// `CONNECTION`: the ends the packet goes out with. Both directions have an element, and either leads to the other: what a
/// packet goes out with, turned round, is what its answer comes in with.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    pub source: Address,
    pub destination: Address,
    pub source_port: u16,
    pub destination_port: u16,
    pub endpoint: u32,
    pub generation: u64,
    /// Monotonic nanoseconds of its first packet; once it is closed, of its end.
    pub since_ns: u64,
    /// Bits of [`Progress`].
    pub progress: u32,
    /// When a packet last went out with it: coarse monotonic time in units of 2^30 ns.
    pub seen: u32,
}

const _: () = assert!(size_of::<Connection>() == 64);

impl Connection {
    /// What an answer to its packets comes in with.
    pub const fn answer_key(&self, protocol: u8) -> ConnectionKey {
        ConnectionKey {
            source: self.destination,
            destination: self.source,
            source_port: self.destination_port,
            destination_port: self.source_port,
            protocol,
            padding: [0; 3],
        }
    }
}

/// How far a connection has come: bits of [`Connection::progress`], on both elements.
pub struct Progress;

impl Progress {
    /// The element is the one of packets to the endpoint.
    pub const TO_ENDPOINT: u32 = 1;
    /// The endpoint has accepted.
    pub const ACCEPTED: u32 = 2;
    /// Packets of this direction have said that no more follow.
    pub const ENDED: u32 = 4;
    /// Packets of the other direction have.
    pub const ANSWER_ENDED: u32 = 8;
    /// Nothing more is expected.
    pub const CLOSED: u32 = 16;
    /// A SYN went without an answer for long enough to count as a failure.
    pub const UNANSWERED: u32 = 32;
}

/// [`Connection::seen`] counts units of two to the power of this, in nanoseconds: about seconds.
pub const SEEN_SHIFT: u32 = 30;

/// Latency is at most so many units of 2^-20 s in [`EndpointScore::packed`](crate::EndpointScore): 256 s.
pub const MAX_SCORE_LATENCY: u32 = 1 << 28;

//! Which sockets new connections can be steered to.

use crate::flow::Address;

/// Listeners whose connections can be steered at one time. Each has a socket for every worker.
pub const LISTENER_GROUPS: u32 = 256;

/// `LISTENER_GROUP`: where in `LISTENER` the sockets of one listener are, by the cookie (`SO_COOKIE`) of any of them.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListenerGroup {
    /// Row of `LISTENER` with the socket of worker 0; those of other workers follow in their order.
    pub first: u32,
    pub workers: u32,
    /// 1 once no more clients are wanted: who comes now is refused, who is half connected comes in.
    pub is_closing: u32,
    /// 1 if the sockets are in `VIP_LISTENER` in place of `LISTENER`.
    pub is_vip: u32,
}

const _: () = assert!(size_of::<ListenerGroup>() == 16);

/// Key of `VIP`, a trie of prefixes: the longest one that an address is in is found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VipKey {
    /// Bits that count, the 32 of the protocol included.
    pub prefix_bits: u32,
    /// IP protocol number: 6 is TCP.
    pub protocol: u32,
    pub address: Address,
}

const _: () = assert!(size_of::<VipKey>() == 24);

/// Port ranges of one prefix of `VIP`.
pub const VIP_RANGES: usize = 16;

/// `VIP`: who listens on the ports of a prefix. The first range that a port is in counts; those of shorter prefixes that
/// hold for this one, too, come last.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vip {
    /// Ranges in use.
    pub count: u32,
    pub padding: u32,
    pub ranges: [VipRange; VIP_RANGES],
}

const _: () = assert!(size_of::<Vip>() == 136);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VipRange {
    /// Host byte order.
    pub first_port: u16,
    pub last_port: u16,
    /// Row of `VIP_LISTENER`; [`NO_VIP`](Self::NO_VIP) where an ordinary socket listens.
    pub listener: u32,
}

impl VipRange {
    pub const NO_VIP: u32 = u32::MAX;
}

/// Prefixes `VIP` has room for.
pub const VIP_PREFIXES: u32 = 4096;

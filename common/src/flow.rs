//! Keys and values of the hash tables. IPv4 addresses are held as mapped IPv6 (RFC 4291 section 2.5.5.2): one key type,
//! one path. Addresses and ports are in network byte order, as they lie in the packet.

/// An IP address, IPv4 as `::ffff:a.b.c.d`: the 16 bytes of the packet as four words, so that kernel programs move
/// words and not bytes.
pub type Address = [u32; 4];

/// One TCP connection as the host that runs Weir sees it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct FlowKey {
    pub local: Address,
    pub remote: Address,
    /// Network byte order.
    pub local_port: u16,
    /// Network byte order.
    pub remote_port: u16,
}

const _: () = assert!(size_of::<FlowKey>() == 36);

/// `FLOW`: an upstream connection registered by a worker, and the first-byte state machine the kernel keeps for it.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Row of the endpoint tables.
    pub endpoint: u32,
    /// Row of `FLOW_SAMPLE` this connection's samples go to.
    pub slot: u32,
    /// Generation of the endpoint the connection was made for.
    pub generation: u64,
    /// Monotonic nanoseconds of the last new payload out.
    pub last_out_ns: u64,
    /// First-byte samples taken.
    pub exchanges: u64,
    /// Sequence number just behind the highest payload byte sent; valid once `out_known` is 1.
    pub next_out: u32,
    /// Sequence number just behind the highest payload byte received; valid once `in_known` is 1.
    pub next_in: u32,
    /// 1 from the first payload byte sent on.
    pub out_known: u8,
    /// 1 from the first payload byte received on.
    pub in_known: u8,
    /// 1 while a request is out and no byte of its response has come.
    pub outstanding: u8,
    /// 1 once the end of the connection was counted.
    pub closed: u8,
    pub padding: u32,
}

const _: () = assert!(size_of::<Flow>() == 48);

/// `ENDPOINT_ID`: who is behind an address.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EndpointId {
    pub address: Address,
    /// Network byte order.
    pub port: u16,
    /// IP protocol number: 6 is TCP.
    pub protocol: u8,
    pub padding: u8,
}

const _: () = assert!(size_of::<EndpointId>() == 20);

#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointIdValue {
    pub endpoint: u32,
    pub padding: u32,
    pub generation: u64,
}

const _: () = assert!(size_of::<EndpointIdValue>() == 16);

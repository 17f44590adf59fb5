//! Why a kernel program did what it did: one counter a reason, in `REASON`. Kernel programs count, they do not log.

/// Index of `REASON`.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Not TCP over IP, or a header that could not be read: passed unseen.
    NotMeasured = 0,
    /// An IPv6 extension header or a fragment stood in the way: passed unseen.
    Unwalked = 1,
    /// A registered flow's packet was taken into account.
    Measured = 2,
    /// A SYN to an endpoint could not be remembered because the table was full.
    ConnectTableFull = 3,
    /// The flow or its endpoint has another generation by now.
    StaleGeneration = 4,
    /// TCP of a connection nobody registered: passed unseen.
    Unregistered = 5,
    /// The flow names an endpoint or a slot the tables have no row for, or this CPU has none.
    OutOfRange = 6,
    /// A new connection was given to the less loaded of two workers.
    SteeredByLoad = 7,
    /// A connection of a socket that closed was given to another worker's.
    Migrated = 8,
    /// No worker that was drawn has lately said how it is: the kernel's hash decided.
    LoadStale = 9,
    /// The listener is unknown, or its socket is gone: the kernel's hash decided.
    NotSteered = 10,
    /// The listener is closing: a client was refused.
    TurnedAway = 11,
    /// XDP: none of our business, passed.
    Passed = 12,
    /// XDP: from a denied source, dropped.
    Denied = 13,
    /// A new connection to a virtual address was given to its listener.
    ToVip = 14,
    /// A virtual address has an entry and no socket: the connection was left to ordinary ones.
    VipUnserved = 15,
    /// XDP: of a connection of an L4 service, sent on.
    Forwarded = 16,
    /// XDP: first of a connection of an L4 service, sent on.
    Opened = 17,
    /// XDP: to an L4 service, of a connection nobody knows: passed.
    NoConnection = 18,
    /// XDP: to an L4 service without a viable endpoint: passed.
    NoEndpoint = 19,
    /// XDP: to an L4 service, no room for another connection: passed.
    ConnectionTableFull = 20,
    /// XDP: to an L4 service, no port left towards the endpoint: passed.
    NoPort = 21,
    /// XDP: no route to where it was to go: the first of a connection is passed, others are dropped.
    NoRoute = 22,
    /// XDP: nobody has asked yet who has the address it was to go to: as above.
    NoNeighbour = 23,
    /// XDP: the interface it came by does not forward: as above.
    NotForwarding = 24,
    /// XDP: larger than the way it was to take: as above.
    TooLarge = 25,
    /// XDP: to a VIP, and unreadable or senseless: dropped.
    Malformed = 26,
    /// XDP: a fragment to a VIP: passed.
    Fragment = 27,
    /// XDP: an ICMP error about a packet of a connection of an L4 service, sent on to whoever sent that.
    IcmpTranslated = 28,
}

impl Reason {
    /// Rows of `REASON`.
    pub const COUNT: u32 = Self::ALL.len() as u32;

    /// Every reason, in the order of `REASON`.
    pub const ALL: [Self; 29] = [
        Self::NotMeasured,
        Self::Unwalked,
        Self::Measured,
        Self::ConnectTableFull,
        Self::StaleGeneration,
        Self::Unregistered,
        Self::OutOfRange,
        Self::SteeredByLoad,
        Self::Migrated,
        Self::LoadStale,
        Self::NotSteered,
        Self::TurnedAway,
        Self::Passed,
        Self::Denied,
        Self::ToVip,
        Self::VipUnserved,
        Self::Forwarded,
        Self::Opened,
        Self::NoConnection,
        Self::NoEndpoint,
        Self::ConnectionTableFull,
        Self::NoPort,
        Self::NoRoute,
        Self::NoNeighbour,
        Self::NotForwarding,
        Self::TooLarge,
        Self::Malformed,
        Self::Fragment,
        Self::IcmpTranslated,
    ];

    /// A word for metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotMeasured => "not_measured",
            Self::Unwalked => "unwalked",
            Self::Measured => "measured",
            Self::ConnectTableFull => "connect_table_full",
            Self::StaleGeneration => "stale_generation",
            Self::Unregistered => "unregistered",
            Self::OutOfRange => "out_of_range",
            Self::SteeredByLoad => "by_load",
            Self::Migrated => "migrated",
            Self::LoadStale => "load_stale",
            Self::NotSteered => "not_steered",
            Self::TurnedAway => "turned_away",
            Self::Passed => "passed",
            Self::Denied => "denied",
            Self::ToVip => "to_vip",
            Self::VipUnserved => "vip_unserved",
            Self::Forwarded => "forwarded",
            Self::Opened => "opened",
            Self::NoConnection => "no_connection",
            Self::NoEndpoint => "no_endpoint",
            Self::ConnectionTableFull => "connection_table_full",
            Self::NoPort => "no_port",
            Self::NoRoute => "no_route",
            Self::NoNeighbour => "no_neighbour",
            Self::NotForwarding => "not_forwarding",
            Self::TooLarge => "too_large",
            Self::Malformed => "malformed",
            Self::Fragment => "fragment",
            Self::IcmpTranslated => "icmp_translated",
        }
    }

    /// Whether it is about a connection looking for its socket, not about a packet on an interface.
    pub const fn is_of_steering(self) -> bool {
        matches!(
            self,
            Self::SteeredByLoad
                | Self::Migrated
                | Self::LoadStale
                | Self::NotSteered
                | Self::TurnedAway
                | Self::ToVip
                | Self::VipUnserved
        )
    }
}

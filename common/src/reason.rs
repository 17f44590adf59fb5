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
}

impl Reason {
    /// Rows of `REASON`.
    pub const COUNT: u32 = 5;
}

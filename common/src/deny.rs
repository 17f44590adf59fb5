//! Keys of the deny list: prefixes as the kernel's longest-prefix tables want them, IPv4 and IPv6 apart.

use crate::Address;

/// `DENY_V4`: a prefix of IPv4.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DenyKeyV4 {
    /// Bits that count, 0 to 32.
    pub length: u32,
    /// Network byte order.
    pub address: u32,
}

const _: () = assert!(size_of::<DenyKeyV4>() == 8);

/// `DENY_V6`: a prefix of IPv6.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DenyKeyV6 {
    /// Bits that count, 0 to 128.
    pub length: u32,
    pub address: Address,
}

const _: () = assert!(size_of::<DenyKeyV6>() == 20);

/// Prefixes of a family a deny list may have. The tables have room for twice as many, so that a list can be exchanged
/// for another one without a moment in which neither holds.
pub const MAX_DENIED: u32 = 1 << 17;

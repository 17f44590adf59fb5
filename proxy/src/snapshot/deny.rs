//! Whom nothing is accepted from.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    first: IpAddr,
    length: u8,
}

/// Sources whose packets are dropped before the host sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DenyList(BTreeSet<Prefix>);

impl Prefix {
    /// The prefix of this many bits that holds `address`. None if its family has not so many.
    pub fn around(address: IpAddr, length: u8) -> Option<Self> {
        let first = match address {
            IpAddr::V4(v4) => {
                let beyond = 32_u8.checked_sub(length)?;
                let mask = u32::MAX.checked_shl(beyond.into()).unwrap_or(0);
                Ipv4Addr::from_bits(v4.to_bits() & mask).into()
            }
            IpAddr::V6(v6) => {
                let beyond = 128_u8.checked_sub(length)?;
                let mask = u128::MAX.checked_shl(beyond.into()).unwrap_or(0);
                Ipv6Addr::from_bits(v6.to_bits() & mask).into()
            }
        };
        Some(Self { first, length })
    }

    /// Its lowest address.
    pub fn first(&self) -> IpAddr {
        self.first
    }

    /// Bits all its addresses have in common.
    pub fn length(&self) -> u8 {
        self.length
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.first, self.length)
    }
}

impl DenyList {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Prefix> {
        self.0.iter().copied()
    }

    /// What this one has and the other has not.
    pub fn beyond<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = Prefix> {
        self.0.difference(&other.0).copied()
    }
}

impl FromIterator<Prefix> for DenyList {
    fn from_iter<I: IntoIterator<Item = Prefix>>(prefixes: I) -> Self {
        Self(prefixes.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_begins_with_the_lowest_of_its_addresses() {
        for (address, length, expected) in [
            ("192.0.2.77", 24, "192.0.2.0/24"),
            ("192.0.2.77", 32, "192.0.2.77/32"),
            ("192.0.2.77", 0, "0.0.0.0/0"),
            ("2001:db8:ffff::1", 33, "2001:db8:8000::/33"),
            ("2001:db8::1", 128, "2001:db8::1/128"),
            ("2001:db8::1", 0, "::/0"),
        ] {
            let address: IpAddr = address.parse().expect("an address");
            let prefix = Prefix::around(address, length).expect("short enough");
            assert_eq!(prefix.to_string(), expected);
        }
    }

    #[test]
    fn a_family_has_no_more_bits_than_its_addresses() {
        assert_eq!(Prefix::around(IpAddr::from([10, 0, 0, 1]), 33), None);
        assert_eq!(Prefix::around(Ipv6Addr::LOCALHOST.into(), 129), None);
    }
}

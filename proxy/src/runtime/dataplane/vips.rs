//! Listeners on prefixes and port ranges. Nobody binds these: `vip_lookup`, attached to the network namespace, gives
//! their connections to sockets that listen elsewhere. What it looks up is made here from what is listened on, so that
//! one lookup finds the answer: the row of a prefix also holds the ranges of shorter prefixes around it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use weir_common::{VIP_PREFIXES, VIP_RANGES, Vip, VipKey, VipRange};

use super::keys::address;

const TCP: u32 = 6;
/// Bits before the address.
const PROTOCOL_BITS: u32 = 32;
/// Bits of a mapped address before those of IPv4.
const MAPPED_BITS: u32 = 96;

/// Addresses and ports that one listener is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Covered {
    /// The first address, with the first port.
    pub first: SocketAddr,
    /// Bits of the address that count.
    pub prefix_len: u8,
    pub last_port: u16,
    /// Row of `VIP_LISTENER`; None where an ordinary socket listens.
    pub listener: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TooMany {
    #[error("{0} and the prefixes around it have more than {VIP_RANGES} ranges of ports")]
    Ranges(IpAddr),
    #[error("there are more than {VIP_PREFIXES} prefixes")]
    Prefixes,
}

impl Covered {
    /// One address and port with a socket of their own. The unspecified address stands for all of its family.
    pub fn ordinary(address: SocketAddr) -> Self {
        let prefix_len = match address {
            address if address.ip().is_unspecified() => 0,
            SocketAddr::V4(_) => 32,
            SocketAddr::V6(_) => 128,
        };
        Self {
            first: address,
            prefix_len,
            last_port: address.port(),
            listener: None,
        }
    }

    fn key(&self) -> VipKey {
        let mapped = match self.first {
            SocketAddr::V4(_) => MAPPED_BITS,
            SocketAddr::V6(_) => 0,
        };
        VipKey {
            prefix_bits: PROTOCOL_BITS + mapped + u32::from(self.prefix_len),
            protocol: TCP,
            address: address(self.first.ip()),
        }
    }

    fn range(&self) -> VipRange {
        VipRange {
            first_port: self.first.port(),
            last_port: self.last_port,
            listener: self.listener.unwrap_or(VipRange::NO_VIP),
        }
    }

    /// Whether all its addresses are among the other's.
    fn is_within(&self, other: &Self) -> bool {
        let (ours, theirs) = (self.key(), other.key());
        theirs.prefix_bits <= ours.prefix_bits
            && masked(ours.address, theirs.prefix_bits)
                == masked(theirs.address, theirs.prefix_bits)
    }
}

/// The rows of `VIP`. The longest prefix counts, then the narrowest range.
pub fn table(covered: &[Covered]) -> Result<BTreeMap<VipKey, Vip>, TooMany> {
    let mut rows = BTreeMap::new();
    if covered.iter().all(|one| one.listener.is_none()) {
        return Ok(rows);
    }
    for one in covered {
        let mut holding: Vec<&Covered> = covered.iter().filter(|it| one.is_within(it)).collect();
        holding.sort_by_key(|it| {
            let width = it.last_port.saturating_sub(it.first.port());
            (std::cmp::Reverse(it.prefix_len), width, it.first.port())
        });
        let mut row = Vip {
            count: holding.len() as u32,
            ..Vip::default()
        };
        if holding.len() > row.ranges.len() {
            return Err(TooMany::Ranges(one.first.ip()));
        }
        for (range, it) in row.ranges.iter_mut().zip(holding) {
            *range = it.range();
        }
        rows.insert(one.key(), row);
    }
    match rows.len() <= VIP_PREFIXES as usize {
        true => Ok(rows),
        false => Err(TooMany::Prefixes),
    }
}

/// The bits of an address that a key with this many bits has.
fn masked(address: [u32; 4], bits: u32) -> u128 {
    let mut octets = [0; 16];
    for (bytes, word) in octets.chunks_exact_mut(4).zip(address) {
        bytes.copy_from_slice(&word.to_ne_bytes());
    }
    let ignored = 128_u32.saturating_sub(bits.saturating_sub(PROTOCOL_BITS));
    let number = u128::from_be_bytes(octets);
    number.checked_shr(ignored).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(first: &str, prefix_len: u8, last_port: u16, listener: Option<u32>) -> Covered {
        Covered {
            first: first.parse().expect("an address"),
            prefix_len,
            last_port,
            listener,
        }
    }

    /// What `vip_lookup` does.
    fn find(rows: &BTreeMap<VipKey, Vip>, at: &str) -> Option<u32> {
        let at: SocketAddr = at.parse().expect("an address");
        let wanted = address(at.ip());
        let is_in =
            |key: &&VipKey| masked(key.address, key.prefix_bits) == masked(wanted, key.prefix_bits);
        let longest = rows
            .keys()
            .filter(is_in)
            .max_by_key(|key| key.prefix_bits)?;
        let row = &rows[longest];
        let ranges = row.ranges.iter().take(row.count as usize);
        let mut ranges = ranges.filter(|it| (it.first_port..=it.last_port).contains(&at.port()));
        ranges
            .next()
            .map(|range| range.listener)
            .filter(|listener| *listener != VipRange::NO_VIP)
    }

    #[test]
    fn the_longest_prefix_that_has_the_port_is_found() {
        let rows = table(&[
            covered("10.0.0.0:80", 8, 90, Some(1)),
            covered("10.1.0.0:80", 16, 80, Some(2)),
            covered("10.1.2.3:443", 32, 443, Some(3)),
        ])
        .expect("there is room");
        assert_eq!(find(&rows, "10.9.9.9:80"), Some(1));
        assert_eq!(find(&rows, "10.1.9.9:80"), Some(2));
        assert_eq!(
            find(&rows, "10.1.9.9:81"),
            Some(1),
            "its own prefix lacks it"
        );
        assert_eq!(find(&rows, "10.1.2.3:443"), Some(3));
        assert_eq!(find(&rows, "10.1.2.3:80"), Some(2));
        assert_eq!(find(&rows, "10.1.2.3:90"), Some(1));
        assert_eq!(find(&rows, "10.1.2.3:91"), None);
        assert_eq!(find(&rows, "11.0.0.1:80"), None);
    }

    #[test]
    fn of_ranges_of_one_prefix_the_narrowest_counts() {
        let rows = table(&[
            covered("10.0.0.0:1", 8, 65535, Some(1)),
            covered("10.0.0.0:8000", 8, 8999, Some(2)),
            covered("10.0.0.0:8080", 8, 8080, Some(3)),
        ])
        .expect("there is room");
        assert_eq!(find(&rows, "10.0.0.1:22"), Some(1));
        assert_eq!(find(&rows, "10.0.0.1:8001"), Some(2));
        assert_eq!(find(&rows, "10.0.0.1:8080"), Some(3));
    }

    #[test]
    fn an_ordinary_listener_keeps_its_address_and_a_wildcard_only_what_is_left() {
        let rows = table(&[
            covered("10.0.0.0:80", 8, 80, Some(1)),
            Covered::ordinary("10.0.0.1:80".parse().expect("an address")),
            Covered::ordinary("0.0.0.0:80".parse().expect("an address")),
        ])
        .expect("there is room");
        assert_eq!(find(&rows, "10.0.0.1:80"), None);
        assert_eq!(find(&rows, "10.0.0.2:80"), Some(1));
        assert_eq!(find(&rows, "11.0.0.2:80"), None);
    }

    #[test]
    fn families_do_not_meet() {
        let rows = table(&[
            covered("[2001:db8::]:80", 32, 80, Some(1)),
            covered("0.0.0.0:81", 0, 81, Some(2)),
        ])
        .expect("there is room");
        assert_eq!(find(&rows, "[2001:db8:1::1]:80"), Some(1));
        assert_eq!(find(&rows, "[2001:db9::1]:80"), None);
        assert_eq!(find(&rows, "192.0.2.1:81"), Some(2));
        assert_eq!(find(&rows, "[2001:db8:1::1]:81"), None);
    }

    #[test]
    fn without_a_virtual_address_there_is_nothing_to_look_up() {
        let ordinary = Covered::ordinary("0.0.0.0:80".parse().expect("an address"));
        assert_eq!(table(&[ordinary]), Ok(BTreeMap::new()));
    }

    #[test]
    fn more_ranges_than_a_row_holds_are_refused() {
        let many: Vec<Covered> = (0..=VIP_RANGES as u16)
            .map(|port| covered(&format!("10.0.0.0:{}", 80 + port), 8, 80 + port, Some(1)))
            .collect();
        let address = "10.0.0.0".parse().expect("an address");
        assert_eq!(table(&many), Err(TooMany::Ranges(address)));
        assert!(table(&many[1..]).is_ok());
    }
}

//! The text of an IP address without the formatting machinery, which takes three times as long: it is what most requests
//! with an affinity are bound by. Character for character what `Display` writes, IPv6 by RFC 5952.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Characters of the longest, `ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff`.
const LONGEST: usize = 39;

/// As text, on the stack.
pub struct AddressText {
    text: [u8; LONGEST],
    length: usize,
}

impl AddressText {
    pub fn of(address: IpAddr) -> Self {
        let mut text = Self {
            text: [0; LONGEST],
            length: 0,
        };
        match address {
            IpAddr::V4(address) => text.push_v4(address),
            IpAddr::V6(address) => text.push_v6(address),
        }
        text
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.text[..self.length]
    }

    fn push_v4(&mut self, address: Ipv4Addr) {
        for (place, octet) in address.octets().into_iter().enumerate() {
            if place > 0 {
                self.push(b'.');
            }
            if octet >= 100 {
                self.push(b'0' + octet / 100);
            }
            if octet >= 10 {
                self.push(b'0' + octet / 10 % 10);
            }
            self.push(b'0' + octet % 10);
        }
    }

    fn push_v6(&mut self, address: Ipv6Addr) {
        if let Some(mapped) = address.to_ipv4_mapped() {
            b"::ffff:".iter().for_each(|byte| self.push(*byte));
            return self.push_v4(mapped);
        }
        let groups = address.segments();
        let (start, end) = longest_zeros(&groups);
        self.push_groups(&groups[..start]);
        if start < end {
            self.push(b':');
            self.push(b':');
        }
        self.push_groups(&groups[end..]);
    }

    fn push_groups(&mut self, groups: &[u16]) {
        for (place, group) in groups.iter().enumerate() {
            if place > 0 {
                self.push(b':');
            }
            let digits = (u16::BITS - (group | 1).leading_zeros()).div_ceil(4);
            for digit in (0..digits).rev() {
                const DIGITS: &[u8; 16] = b"0123456789abcdef";
                self.push(DIGITS[usize::from(group >> (4 * digit) & 0xf)]);
            }
        }
    }

    fn push(&mut self, byte: u8) {
        self.text[self.length] = byte;
        self.length += 1;
    }
}

/// The run of zeros that is left out: the first of the longest, if it has more than one. Else none, at the end.
fn longest_zeros(groups: &[u16; 8]) -> (usize, usize) {
    let (mut best, mut start) = ((8, 8), 0);
    for (place, group) in groups.iter().enumerate() {
        if *group != 0 {
            start = place + 1;
        } else if place + 1 - start > (best.1 - best.0).max(1) {
            best = (start, place + 1);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn is_as_displayed(address: IpAddr) -> bool {
        AddressText::of(address).as_bytes() == address.to_string().as_bytes()
    }

    #[test]
    fn every_octet_and_every_pattern_of_zeros_is_written_as_it_is_displayed() {
        for octet in 0..=255 {
            assert!(is_as_displayed([octet, 255 - octet, 0, octet].into()));
        }
        for nonzero in 0..=255_u8 {
            for group in [1, 0x12, 0xffff] {
                let groups: [u16; 8] =
                    std::array::from_fn(|place| group * u16::from(nonzero >> place & 1));
                assert!(is_as_displayed(groups.into()), "{groups:x?}");
            }
        }
        assert!(is_as_displayed(
            Ipv4Addr::new(192, 0, 2, 1).to_ipv6_mapped().into()
        ));
    }

    proptest! {
        #[test]
        fn any_address_is_written_as_it_is_displayed(
            groups in prop::array::uniform8(prop_oneof![Just(0), 0_u16..32, any::<u16>()])
        ) {
            prop_assert!(is_as_displayed(groups.into()));
        }
    }
}

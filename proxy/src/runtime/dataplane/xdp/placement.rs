//! Which interfaces frames from clients come in by: those that carry an address we listen on.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::super::interfaces::Interface;
use super::super::netlink::{Question, attribute, u32_at};

/// The interfaces that carry one of these addresses. The unspecified address is carried by every one that carries any of
/// its family, but for loopback: `::` takes connections of both families.
pub fn carrying(addresses: &[IpAddr]) -> io::Result<Vec<Interface>> {
    let carried = addresses_by_interface()?;
    let is_carrying = |own: &BTreeSet<IpAddr>| addresses.iter().any(|wanted| carries(own, *wanted));
    let carrying = carried.iter().filter(|(_, own)| is_carrying(own));
    Ok(carrying
        .filter_map(|(index, _)| Interface::at(*index))
        .collect())
}

fn carries(own: &BTreeSet<IpAddr>, wanted: IpAddr) -> bool {
    let is_loopback = own.iter().any(IpAddr::is_loopback);
    match wanted {
        IpAddr::V6(v6) if v6.is_unspecified() => !is_loopback,
        IpAddr::V4(v4) if v4.is_unspecified() => !is_loopback && own.iter().any(IpAddr::is_ipv4),
        // All of 127.0.0.0/8 is loopback's, though it carries a single address of it.
        wanted => own.contains(&wanted) || (is_loopback && wanted.is_loopback()),
    }
}

/// Of linux/if_addr.h.
const ADDRESS_HEADER: usize = 8;

fn addresses_by_interface() -> io::Result<BTreeMap<u32, BTreeSet<IpAddr>>> {
    let question = Question {
        kind: libc::RTM_GETADDR,
        flags: libc::NLM_F_DUMP,
        header: vec![0; ADDRESS_HEADER],
        attributes: Vec::new(),
    };
    let mut found: BTreeMap<u32, BTreeSet<IpAddr>> = BTreeMap::new();
    for answer in question.ask_for_all()? {
        if let Some((index, address)) = address_in(&answer) {
            found.entry(index).or_default().insert(address);
        }
    }
    Ok(found)
}

fn address_in(answer: &[u8]) -> Option<(u32, IpAddr)> {
    let index = u32_at(answer, 4)?;
    let attributes = answer.get(ADDRESS_HEADER..)?;
    // On a point-to-point link the other attribute is the peer's address.
    let own =
        attribute(attributes, libc::IFA_LOCAL).or(attribute(attributes, libc::IFA_ADDRESS))?;
    let address = match own.len() {
        4 => Ipv4Addr::from(<[u8; 4]>::try_from(own).ok()?).into(),
        16 => Ipv6Addr::from(<[u8; 16]>::try_from(own).ok()?).into(),
        _ => return None,
    };
    Some((index, address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(addresses: &[&str]) -> BTreeSet<IpAddr> {
        let addresses = addresses.iter().map(|text| text.parse().expect("address"));
        addresses.collect()
    }

    #[test]
    fn an_unspecified_address_is_carried_by_all_but_loopback() {
        let ethernet = own(&["10.0.0.1", "fe80::1"]);
        let loopback = own(&["127.0.0.1", "::1"]);
        let any = |text: &str| text.parse().expect("an address");
        assert!(carries(&ethernet, any("0.0.0.0")));
        assert!(carries(&ethernet, any("::")));
        assert!(!carries(&loopback, any("0.0.0.0")));
        assert!(!carries(&loopback, any("::")));
        assert!(!carries(&own(&["fe80::1"]), any("0.0.0.0")));
    }

    #[test]
    fn an_address_is_carried_where_it_stands_and_all_of_loopback_by_loopback() {
        let ethernet = own(&["10.0.0.1"]);
        let loopback = own(&["127.0.0.1"]);
        let at = |text: &str| text.parse().expect("an address");
        assert!(carries(&ethernet, at("10.0.0.1")));
        assert!(!carries(&ethernet, at("10.0.0.2")));
        assert!(carries(&loopback, at("127.0.0.9")));
        assert!(!carries(&ethernet, at("127.0.0.1")));
    }

    #[test]
    fn loopback_is_found_by_its_address() {
        let found = carrying(&[Ipv4Addr::LOCALHOST.into()]).expect("an answer");
        assert_eq!(found, [Interface::named("lo").expect("every host has one")]);
    }
}

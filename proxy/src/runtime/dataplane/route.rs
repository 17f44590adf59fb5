//! Asks the kernel which interface packets to an address leave by: one question by rtnetlink(7). Source addresses
//! would be a guess, for packets to an address of our own leave by loopback whatever interface carries it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::netlink::{Question, attribute, u32_at};

/// Index of the interface towards `destination`.
///
/// # Errors
/// What the kernel says, such as `ENETUNREACH` where there is no route.
pub fn interface_towards(destination: SocketAddr) -> io::Result<u32> {
    if let SocketAddr::V6(v6) = destination
        && v6.scope_id() != 0
    {
        // A link-local address says itself which link it is local to.
        return Ok(v6.scope_id());
    }
    interface_in(&question(destination.ip()).ask()?)
}

const ROUTE_HEADER: usize = 12;

fn question(destination: IpAddr) -> Question {
    let (family, address) = match destination.to_canonical() {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let mut header = vec![family as u8, (address.len() * 8) as u8];
    header.resize(ROUTE_HEADER, 0);
    Question {
        kind: libc::RTM_GETROUTE,
        flags: 0,
        header,
        attributes: vec![(libc::RTA_DST, address)],
    }
}

/// Index of the interface towards `destination`, and the address on its link that packets go to.
///
/// # Errors
/// As for [`interface_towards`].
pub fn next_hop(destination: SocketAddr) -> io::Result<(u32, IpAddr)> {
    let answer = question(destination.ip()).ask()?;
    let attributes = answer.get(ROUTE_HEADER..).unwrap_or_default();
    let gateway = attribute(attributes, libc::RTA_GATEWAY).and_then(|bytes| match bytes.len() {
        4 => Some(IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?)),
        16 => Some(IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?)),
        _ => None,
    });
    let hop = gateway.unwrap_or(destination.ip().to_canonical());
    Ok((interface_in(&answer)?, hop))
}

fn interface_in(answer: &[u8]) -> io::Result<u32> {
    let attributes = answer.get(ROUTE_HEADER..).unwrap_or_default();
    let index = attribute(attributes, libc::RTA_OIF).and_then(|value| u32_at(value, 0));
    index.ok_or(io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::super::interfaces::Interface;
    use super::*;

    #[test]
    fn loopback_addresses_are_reached_by_the_loopback_interface() {
        let loopback = Interface::named("lo").expect("every host has one");
        let index = interface_towards("127.0.0.1:80".parse().expect("an address"));
        assert_eq!(index.expect("a route"), loopback.index);
    }

    #[test]
    fn a_scoped_address_names_its_own_interface() {
        let scoped = "[fe80::1%7]:80".parse().expect("an address");
        assert_eq!(interface_towards(scoped).expect("no question asked"), 7);
    }

    #[test]
    fn an_answer_cut_short_is_an_error_and_not_a_panic() {
        let mut answer = vec![0; ROUTE_HEADER];
        answer.extend([8, 0, libc::RTA_OIF as u8, 0, 3, 0, 0, 0]);
        assert_eq!(interface_in(&answer).expect("whole"), 3);
        for length in 0..answer.len() {
            assert!(interface_in(&answer[..length]).is_err(), "{length} bytes");
        }
    }
}

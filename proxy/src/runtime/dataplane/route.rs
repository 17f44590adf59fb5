//! Asks the kernel which interface packets to an address leave by: one question by rtnetlink(7). Source addresses
//! would be a guess, for packets to an address of our own leave by loopback whatever interface carries it.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};

use socket2::{Domain, Protocol, Socket, Type};

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
    let mut socket = Socket::new(
        Domain::from(libc::AF_NETLINK),
        Type::RAW.cloexec(),
        Some(Protocol::from(libc::NETLINK_ROUTE)),
    )?;
    socket.write_all(&question(destination.ip()))?;
    let mut answer = [0; 4096];
    let length = socket.read(&mut answer)?;
    interface_in(&answer[..length])
}

const MESSAGE_HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;

fn question(destination: IpAddr) -> Vec<u8> {
    let (family, address) = match destination.to_canonical() {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let attribute = 4 + address.len();
    let length = MESSAGE_HEADER + ROUTE_HEADER + attribute;

    let mut message = Vec::with_capacity(length);
    message.extend((length as u32).to_ne_bytes());
    message.extend(libc::RTM_GETROUTE.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    message.extend([0; 8]);
    message.extend([family as u8, (address.len() * 8) as u8]);
    message.extend([0; ROUTE_HEADER - 2]);
    message.extend((attribute as u16).to_ne_bytes());
    message.extend(libc::RTA_DST.to_ne_bytes());
    message.extend(address);
    message
}

fn interface_in(answer: &[u8]) -> io::Result<u32> {
    let unreadable = || io::Error::from(io::ErrorKind::InvalidData);
    let kind = u16_at(answer, 4).ok_or_else(unreadable)?;
    if i32::from(kind) == libc::NLMSG_ERROR {
        let code = u32_at(answer, MESSAGE_HEADER).ok_or_else(unreadable)?;
        return Err(io::Error::from_raw_os_error(-(code as i32)));
    }
    let mut rest = answer
        .get(MESSAGE_HEADER + ROUTE_HEADER..)
        .ok_or_else(unreadable)?;
    while let (Some(length), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
        if kind == libc::RTA_OIF {
            return u32_at(rest, 4).ok_or_else(unreadable);
        }
        // Attributes stand at multiples of four; one that is shorter than its header would never end.
        let step = usize::from(length).next_multiple_of(4).max(4);
        rest = rest.get(step..).unwrap_or_default();
    }
    Err(unreadable())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
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
        let mut answer = vec![0; MESSAGE_HEADER + ROUTE_HEADER];
        answer[4..6].copy_from_slice(&libc::RTM_NEWROUTE.to_ne_bytes());
        answer.extend([8, 0, libc::RTA_OIF as u8, 0, 3, 0, 0, 0]);
        assert_eq!(interface_in(&answer).expect("whole"), 3);
        for length in 0..answer.len() {
            assert!(interface_in(&answer[..length]).is_err(), "{length} bytes");
        }
    }
}

//! Has the kernel ask for link addresses before they are needed: a program that sends packets on by itself cannot wait for
//! the answer.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::netlink::Question;
use super::route::next_hop;

// Of linux/neighbour.h.
const NEIGHBOUR_HEADER: usize = 12;
const NTF_USE: u8 = 1;
const NDA_DST: u16 = 1;

/// Asks who has the address that packets to `destination` go to next, unless that is known.
///
/// # Errors
/// What the kernel says, such as `ENETUNREACH` where there is no route.
pub fn resolve(destination: SocketAddr) -> io::Result<()> {
    let (interface, hop) = next_hop(destination)?;
    let (family, address) = match hop {
        IpAddr::V4(v4) => (libc::AF_INET, v4.octets().to_vec()),
        IpAddr::V6(v6) => (libc::AF_INET6, v6.octets().to_vec()),
    };
    let mut header = vec![0; NEIGHBOUR_HEADER];
    header[0] = family as u8;
    header[4..8].copy_from_slice(&interface.to_ne_bytes());
    header[10] = NTF_USE;
    let question = Question {
        kind: libc::RTM_NEWNEIGH,
        flags: libc::NLM_F_CREATE | libc::NLM_F_ACK,
        header,
        attributes: vec![(NDA_DST, address)],
    };
    match question.ask() {
        // The answer to a request is an error of number zero.
        Err(error) if error.raw_os_error() == Some(0) => Ok(()),
        answered => answered.map(|_| ()),
    }
}

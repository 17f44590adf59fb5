//! What of an interface keeps L4 services in the kernel from working, in words: packets that get lost there say nothing.

use std::net::IpAddr;

use super::super::interfaces::Interface;
use super::super::netlink::{Question, attribute};

/// What stands in the way of services with these addresses, or may.
pub fn obstacles(interface: &Interface, vips: &[IpAddr]) -> Vec<String> {
    let families = [
        ("ipv4", vips.iter().any(IpAddr::is_ipv4)),
        ("ipv6", vips.iter().any(IpAddr::is_ipv6)),
    ];
    let needed = families.into_iter().filter(|(_, is_needed)| *is_needed);
    let closed = needed.filter(|(family, _)| !forwards(&interface.name, family));
    let mut obstacles: Vec<String> = closed
        .map(|(family, _)| {
            let name = &interface.name;
            let switch = format!("net.{family}.conf.{name}.forwarding");
            format!(
                "XDP cannot serve L4 services by {name}: it does not forward; `sysctl -w {switch}=1` makes it"
            )
        })
        .collect();
    if !vips.is_empty() && is_veth(interface.index) {
        obstacles.push(format!(
            "{} is one end of a veth pair: packets of L4 services get lost unless the other end finishes its checksums and \
             takes what XDP sends; `ethtool -K IF tx off tso off gro on` makes it, with its name, where it is",
            interface.name
        ));
    }
    obstacles
}

/// Whether the host sends on what comes in by the interface and is for another.
fn forwards(interface: &str, family: &str) -> bool {
    let switch = format!("/proc/sys/net/{family}/conf/{interface}/forwarding");
    std::fs::read_to_string(switch).is_ok_and(|value| value.trim() != "0")
}

// Of linux/if_link.h.
const LINK_HEADER: usize = 16;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

fn is_veth(index: u32) -> bool {
    let mut header = vec![0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let question = Question {
        kind: libc::RTM_GETLINK,
        flags: 0,
        header,
        attributes: Vec::new(),
    };
    question
        .ask()
        .is_ok_and(|answer| kind_in(&answer) == Some(b"veth"))
}

/// What made the interface; None for hardware.
fn kind_in(answer: &[u8]) -> Option<&[u8]> {
    let info = attribute(answer.get(LINK_HEADER..)?, IFLA_LINKINFO)?;
    attribute(info, IFLA_INFO_KIND)?.strip_suffix(&[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_interface_is_read_off_the_answer_and_its_absence_too() {
        let mut answer = vec![0; LINK_HEADER];
        answer.extend([8, 0, 4, 0, 9, 9, 9, 9]);
        assert_eq!(kind_in(&answer), None);
        answer.extend([16, 0, 18, 0, 9, 0, 1, 0]);
        answer.extend(b"veth\0\0\0\0");
        assert_eq!(kind_in(&answer), Some(&b"veth"[..]));
        for length in 0..answer.len() {
            assert_eq!(kind_in(&answer[..length]), None, "{length} bytes");
        }
    }

    #[test]
    fn without_services_nothing_is_in_their_way() {
        let loopback = Interface::named("lo").expect("every host has one");
        assert_eq!(obstacles(&loopback, &[]), [""; 0]);
        assert!(!is_veth(loopback.index));
    }
}

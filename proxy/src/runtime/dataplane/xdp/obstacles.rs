//! What of an interface keeps L4 services in the kernel from working, in words: packets that get lost there say nothing.

use std::net::IpAddr;

use super::super::interfaces::Interface;
use super::link_kind::LinkKind;

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
    if !vips.is_empty() && LinkKind::of(interface.index).is_ok_and(|kind| kind.is_veth()) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_services_nothing_is_in_their_way() {
        let loopback = Interface::named("lo").expect("every host has one");
        assert_eq!(obstacles(&loopback, &[]), [""; 0]);
    }
}

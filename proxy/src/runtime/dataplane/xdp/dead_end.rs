//! Which interface frames of a service would get lost at. A driver's program sends them on by another interface only if
//! that takes frames from XDP; those that lie on others, such as VLANs and bridges, do not, and nobody hears of it.

use std::io;
use std::net::{IpAddr, SocketAddr};

use super::super::interfaces::towards;
use super::link_kind::LinkKind;
use super::placement::carrying;

/// The interface that would lose frames between clients of this address and these endpoints, either way.
///
/// # Errors
/// What the kernel says when it is asked where addresses are.
pub fn dead_end(vip: IpAddr, endpoints: &[SocketAddr]) -> io::Result<Option<String>> {
    let mut interfaces = carrying(&[vip])?;
    interfaces.extend(towards(endpoints).0);
    let mut links = Vec::new();
    for interface in interfaces {
        links.push((LinkKind::of(interface.index)?, interface.name));
    }
    Ok(dead_end_among(links))
}

/// Where no interface takes frames there is no driver's program either, and the network stack's reaches all of them.
fn dead_end_among(links: Vec<(LinkKind, String)>) -> Option<String> {
    if !links.iter().any(|(kind, _)| kind.takes_frames()) {
        return None;
    }
    let lost = links.into_iter().find(|(kind, _)| kind.loses_frames());
    lost.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn among(kinds: &[LinkKind]) -> Option<String> {
        let links = kinds.iter().enumerate();
        dead_end_among(
            links
                .map(|(place, kind)| (kind.clone(), place.to_string()))
                .collect(),
        )
    }

    fn made_by(what: &str) -> LinkKind {
        LinkKind::Made(what.into())
    }

    #[test]
    fn frames_get_lost_between_hardware_and_what_lies_on_others() {
        let lost = Some("1".to_owned());
        assert_eq!(among(&[LinkKind::Hardware, made_by("vlan")]), lost);
        assert_eq!(among(&[made_by("veth"), made_by("bridge")]), lost);
        assert_eq!(among(&[LinkKind::Hardware, made_by("veth")]), None);
        assert_eq!(among(&[made_by("vlan"), made_by("vlan")]), None);
    }

    #[test]
    fn an_address_may_lie_on_an_interface_nobody_comes_by() {
        assert_eq!(among(&[LinkKind::Loopback, LinkKind::Hardware]), None);
        assert_eq!(among(&[made_by("dummy"), LinkKind::Hardware]), None);
        assert_eq!(among(&[LinkKind::Loopback, made_by("vlan")]), None);
    }
}

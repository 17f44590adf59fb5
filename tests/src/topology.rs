//! A star of hosts: the proxy's host in the middle, a client and endpoints around it, each joined to it by a veth pair.
//!
//! Peer `n` has `10.77.n.2` and `fd77:n::2`, the proxy's side of its link `10.77.n.1` and `fd77:n::1`; the client is
//! peer 0. The proxy's interface to a peer has the peer's name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::Result;

use crate::namespace::Namespace;

/// Client, proxy host and endpoint hosts.
pub struct Star {
    pub proxy: Namespace,
    pub client: Peer,
    pub endpoints: Vec<Peer>,
}

/// A host joined to the proxy's.
pub struct Peer {
    pub namespace: Namespace,
    /// The proxy host's interface towards this peer.
    pub interface: String,
    number: u8,
}

impl Star {
    pub fn new(endpoints: u8) -> Result<Self> {
        let proxy = Namespace::new("proxy")?;
        let client = Peer::join(&proxy, "client", 0)?;
        let endpoints = (1..=endpoints)
            .map(|number| Peer::join(&proxy, &format!("endpoint{number}"), number))
            .collect::<Result<_>>()?;
        Ok(Self {
            proxy,
            client,
            endpoints,
        })
    }

    /// The proxy host's interfaces.
    pub fn interfaces(&self) -> Vec<&str> {
        std::iter::once(&self.client)
            .chain(&self.endpoints)
            .map(|peer| peer.interface.as_str())
            .collect()
    }

    /// The proxy's address on the client's side.
    pub fn proxy_address(&self) -> IpAddr {
        self.client.gateway()
    }
}

impl Peer {
    fn join(proxy: &Namespace, name: &str, number: u8) -> Result<Self> {
        let peer = Self {
            namespace: Namespace::new(name)?,
            interface: name.to_owned(),
            number,
        };
        peer.link(proxy, name)?;
        Ok(peer)
    }

    /// Makes the veth pair that joins the two hosts; the proxy's end has this name.
    pub fn link(&self, proxy: &Namespace, interface: &str) -> Result<()> {
        let Self {
            namespace, number, ..
        } = self;
        // The pair is born inside the namespaces, so that nothing shows on the host itself.
        proxy.ip(&format!(
            "link add {interface} type veth peer name eth0 netns {}\n\
             address add 10.77.{number}.1/24 dev {interface}\n\
             address add fd77:{number}::1/64 dev {interface} nodad\n\
             link set {interface} up\n",
            namespace.name()
        ))?;
        namespace.ip(&format!(
            "address add 10.77.{number}.2/24 dev eth0\n\
             address add fd77:{number}::2/64 dev eth0 nodad\n\
             link set eth0 up\n\
             route add default via 10.77.{number}.1\n\
             route add default via fd77:{number}::1\n"
        ))
    }

    pub fn address(&self) -> IpAddr {
        Ipv4Addr::new(10, 77, self.number, 2).into()
    }

    pub fn address_v6(&self) -> IpAddr {
        Ipv6Addr::new(0xfd77, u16::from(self.number), 0, 0, 0, 0, 0, 2).into()
    }

    /// The proxy's address on this peer's link.
    pub fn gateway(&self) -> IpAddr {
        Ipv4Addr::new(10, 77, self.number, 1).into()
    }

    pub fn gateway_v6(&self) -> IpAddr {
        Ipv6Addr::new(0xfd77, u16::from(self.number), 0, 0, 0, 0, 0, 1).into()
    }
}

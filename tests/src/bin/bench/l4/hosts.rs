//! The hosts of the measurement: a client, a router in the middle that may also be the contender's, and two endpoints.

use std::net::{IpAddr, SocketAddr};
use std::process::Command;

use anyhow::{Result, ensure};
use weir_tests::echo::{Echoes, Reply};
use weir_tests::process::Place;
use weir_tests::topology::{Peer, Star};
use weir_tests::weir::run_to_end;

/// Where echo servers listen, and where the VIP is.
pub const PORT: u16 = 5432;
/// Where bytes are only counted.
const SINK: u16 = 5433;
/// Everything runs here.
pub const CORE: usize = 1;

pub struct Hosts {
    pub star: Star,
    _echoes: Echoes,
    pub sinks: Echoes,
}

impl Hosts {
    pub fn new() -> Result<Self> {
        let star = Star::new(2)?;
        let proxy = star.proxy.place();
        set(&proxy, "ipv4/conf/all/forwarding", "1")?;
        for place in [&proxy, &star.client.namespace.place()] {
            // Ports whose last connection has just been closed are used again: there are more than ports.
            set(place, "ipv4/tcp_tw_reuse", "1")?;
        }
        set(
            &star.client.namespace.place(),
            "ipv4/ip_local_port_range",
            "1024 65535",
        )?;
        let listening = |port| {
            let places = star.endpoints.iter().map(move |peer| {
                let address = SocketAddr::new(peer.address(), port);
                (peer.namespace.place(), address)
            });
            places.collect::<Vec<_>>()
        };
        let server = here(Place::default());
        Ok(Self {
            _echoes: Echoes::start(&server, &listening(PORT), Reply::Same)?,
            sinks: Echoes::start(&server, &listening(SINK), Reply::Nothing)?,
            star,
        })
    }

    /// Has the hosts around leave checksums and segmentation to their interfaces, or do both themselves. On a veth pair no
    /// interface does, and what XDP sends must be whole.
    pub fn offload(&self, is_on: bool) -> Result<()> {
        let switch = if is_on { "on" } else { "off" };
        for peer in std::iter::once(&self.star.client).chain(&self.star.endpoints) {
            let mut command = Command::new("ethtool");
            command.args(["-K", "eth0", "tx", switch, "tso", switch, "gro", "on"]);
            let output = run_to_end(command, &peer.namespace.place())?;
            ensure!(output.status.success(), "ethtool refuses: {output:?}");
        }
        Ok(())
    }

    /// Where the client runs.
    pub fn client(&self) -> Place {
        here(self.star.client.namespace.place())
    }

    /// Where a contender runs.
    pub fn proxy(&self) -> Place {
        here(self.star.proxy.place())
    }

    pub fn vip(&self) -> IpAddr {
        self.star.proxy_address()
    }

    pub fn endpoints(&self) -> Vec<IpAddr> {
        self.star.endpoints.iter().map(Peer::address).collect()
    }
}

/// On the core of all, where waking up interrupts nobody.
fn here(place: Place) -> Place {
    place.on_core(CORE).as_batch()
}

fn set(place: &Place, switch: &str, value: &str) -> Result<()> {
    let file = format!("/proc/sys/net/{switch}");
    Ok(place.run(|| std::fs::write(file, value))?)
}

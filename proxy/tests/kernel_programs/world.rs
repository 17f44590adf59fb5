//! What L4 services are tested in: a router with clients on one side and endpoints on the other, and a VIP of its own.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::Ordering::Relaxed;

use weir::balance::EndpointRow;
use weir::runtime::dataplane::{KernelEndpoint, KernelService};
use weir::snapshot::Transport;

use crate::namespace::{ip, on_a_loopback_of_its_own};
use crate::packet::Packet;
use crate::rig::Rig;

pub fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// The ends of a test, of one family.
#[derive(Clone, Copy)]
pub struct World {
    pub client: SocketAddr,
    pub vip: SocketAddr,
    pub ours: IpAddr,
    pub endpoints: [SocketAddr; 2],
}

impl World {
    pub fn v4() -> Self {
        Self {
            client: at("10.8.0.2:40000"),
            vip: at("10.8.0.1:80"),
            ours: at("10.9.0.1:0").ip(),
            endpoints: ["10.9.0.2:8080", "10.9.0.3:8081"].map(at),
        }
    }

    pub fn v6() -> Self {
        Self {
            client: at("[fd08::2]:40000"),
            vip: at("[fd08::1]:80"),
            ours: at("[fd09::1]:0").ip(),
            endpoints: ["[fd09::2]:8080", "[fd09::3]:8081"].map(at),
        }
    }

    pub fn both() -> [Self; 2] {
        [Self::v4(), Self::v6()]
    }

    pub fn service(self, transport: Transport, endpoints: &[usize]) -> KernelService {
        let endpoint = |place: &usize| KernelEndpoint {
            address: self.endpoints[*place],
            source: self.ours,
            row: EndpointRow {
                index: *place as u32,
                generation: 1,
            },
            weight: 1,
        };
        KernelService {
            transport,
            address: self.vip,
            endpoints: endpoints.iter().map(endpoint).collect(),
        }
    }

    pub fn to_vip(self, flags: u8) -> Packet {
        Packet::new(self.client, self.vip, flags)
    }

    /// The VIP served by the first endpoint, by TCP and UDP.
    pub fn with_one_endpoint(self) -> Option<Rig> {
        let rig = rig()?;
        let services = [Transport::Tcp, Transport::Udp].map(|one| self.service(one, &[0]));
        rig.dataplane.serve(&services).expect("there is room");
        Some(rig)
    }
}

pub fn rig() -> Option<Rig> {
    let rig = Rig::new()?;
    know_endpoints(&rig);
    Some(rig)
}

/// Both endpoints are healthy.
pub fn know_endpoints(rig: &Rig) {
    for row in 0..2 {
        rig.tables.state[row].generation.store(1, Relaxed);
        rig.tables.score[row].packed.store(1 << 32, Relaxed);
    }
}

/// In a namespace with a way to clients and a way to endpoints.
pub fn on_a_router(test: impl FnOnce() + Send + 'static) {
    on_a_loopback_of_its_own(|| {
        for command in [
            "link add client type veth peer name c",
            "link add endpoint type veth peer name e",
            "address add 10.8.0.1/24 dev client",
            "address add 10.9.0.1/24 dev endpoint",
            "address add fd08::1/64 dev client nodad",
            "address add fd09::1/64 dev endpoint nodad",
            "link set client up",
            "link set c up",
            "link set endpoint up",
            "link set e up",
            "neigh add 10.8.0.2 lladdr 02:00:00:00:08:02 dev client",
            "neigh add 10.9.0.2 lladdr 02:00:00:00:09:02 dev endpoint",
            "neigh add 10.9.0.3 lladdr 02:00:00:00:09:03 dev endpoint",
            "neigh add fd08::2 lladdr 02:00:00:00:08:02 dev client",
            "neigh add fd09::2 lladdr 02:00:00:00:09:02 dev endpoint",
            "neigh add fd09::3 lladdr 02:00:00:00:09:03 dev endpoint",
        ] {
            assert!(ip(command), "{command}");
        }
        for family in ["ipv4", "ipv6"] {
            let switch = format!("/proc/sys/net/{family}/conf/all/forwarding");
            std::fs::write(switch, "1").expect("a namespace of our own");
        }
        test();
    });
}

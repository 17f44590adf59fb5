//! What cannot be served together, although each part of it is right.

use std::net::SocketAddr;

use thiserror::Error;

use crate::runtime::admin::AdminAddresses;
use crate::runtime::l4::{self, L4Path};
use crate::snapshot::{Plan, Transport};

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Conflict {
    #[error(
        "clients are to connect to {address}, which is the address of {flag} too; give {flag} another one, or `{flag} off`"
    )]
    Surface {
        listener: SocketAddr,
        /// One of its addresses.
        address: SocketAddr,
        flag: &'static str,
    },
    #[error("{one} and {other} have the same address, {address}; give one of them another")]
    Surfaces {
        one: &'static str,
        other: &'static str,
        address: SocketAddr,
    },
    #[error(
        "the endpoint {endpoint} is where Weir itself listens: requests would go round in circles; name the address of the service behind it"
    )]
    Loop {
        listener: SocketAddr,
        endpoint: SocketAddr,
    },
}

impl Conflict {
    /// The listener that is in the way, if it is one.
    pub fn listener(&self) -> Option<(Transport, SocketAddr)> {
        match *self {
            Self::Surface { listener, .. } | Self::Loop { listener, .. } => {
                Some((Transport::Tcp, listener))
            }
            Self::Surfaces { .. } => None,
        }
    }
}

/// Where operators are answered, each with its flag.
fn surfaces(admin: &AdminAddresses) -> Vec<(&'static str, SocketAddr)> {
    let surfaces = [
        ("--admin", admin.admin),
        ("--metrics", admin.metrics),
        ("--readiness", admin.readiness),
    ];
    let given = surfaces.into_iter();
    given
        .filter_map(|(flag, address)| Some((flag, address?)))
        .collect()
}

/// Whether the addresses for operators are different ones.
pub fn check_surfaces(admin: &AdminAddresses) -> Result<(), Conflict> {
    let surfaces = surfaces(admin);
    for (place, (one, address)) in surfaces.iter().enumerate() {
        for (other, its) in &surfaces[..place] {
            if meet(*address, *its) {
                let address = *address;
                return Err(Conflict::Surfaces {
                    one: other,
                    other: one,
                    address,
                });
            }
        }
    }
    Ok(())
}

/// What listeners are in the way of.
pub fn check(plan: &Plan, admin: &AdminAddresses) -> Vec<Conflict> {
    let surfaces = surfaces(admin);
    let mut conflicts = Vec::new();
    for listener in &plan.listeners {
        let Some(reach) = listener.reach else {
            continue;
        };
        let mut covered = surfaces.iter();
        let covered = covered.find(|(_, its)| reach.covers(listener.address, *its));
        conflicts.extend(covered.map(|(flag, its)| Conflict::Surface {
            listener: listener.address,
            address: *its,
            flag,
        }));
    }
    for listener in plan.tcp_addresses() {
        let clash = surfaces.iter().find(|(_, its)| meet(listener, *its));
        conflicts.extend(clash.map(|(flag, _)| Conflict::Surface {
            listener,
            address: listener,
            flag,
        }));
        let leads_here = |endpoint: &SocketAddr| is_of(*endpoint, listener);
        let endpoint = plan.targets().map(|target| target.address).find(leads_here);
        conflicts.extend(endpoint.map(|endpoint| Conflict::Loop { listener, endpoint }));
    }
    conflicts
}

/// Addresses whose clients nobody serves where no kernel program does.
pub fn unserved(plan: &Plan) -> impl Iterator<Item = SocketAddr> {
    let services = plan.l4_services.iter();
    let unserved = services.filter(|service| l4::path(service) == L4Path::Nobody);
    unserved.map(|service| service.address)
}

/// Backends none of whose endpoints may be picked, as namespace and name.
pub fn drained(plan: &Plan) -> impl Iterator<Item = String> {
    let is_drained = |backend: &&crate::snapshot::BackendPlan| {
        let mut targets = backend.targets.iter();
        !backend.targets.is_empty() && targets.all(|target| target.weight.is_drained())
    };
    let drained = plan.backends.iter().filter(is_drained);
    drained.map(|backend| format!("{}/{}", backend.namespace, backend.name))
}

/// Whether two sockets cannot both listen.
fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |one: SocketAddr, other: SocketAddr| {
        one.ip().is_unspecified() && one.is_ipv4() == other.is_ipv4()
    };
    let is_same_port = one.port() == other.port() && one.port() != 0;
    is_same_port && (one.ip() == other.ip() || covers(one, other) || covers(other, one))
}

/// Whether who connects to `address` certainly reaches `listener`.
fn is_of(address: SocketAddr, listener: SocketAddr) -> bool {
    let is_local = address.ip() == listener.ip() || address.ip().is_loopback();
    meet(address, listener) && is_local
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::Weight;
    use crate::route::Split;
    use crate::snapshot::{L4Service, Target};

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("a literal address")
    }

    fn plan(listen: &str, to: &[(&str, u16)]) -> Plan {
        let targets: Vec<Target> = to
            .iter()
            .map(|(to, weight)| Target::at(address(to), Weight::new(*weight)))
            .collect();
        Plan::quick(&[address(listen)], &targets)
    }

    fn admin(port: u16) -> AdminAddresses {
        AdminAddresses {
            admin: Some(([127, 0, 0, 1], port).into()),
            metrics: None,
            readiness: Some(address("127.0.0.1:15021")),
        }
    }

    #[test]
    fn a_listener_and_an_address_for_operators_must_not_meet() {
        for listen in ["127.0.0.1:15000", "0.0.0.0:15000"] {
            let plan = plan(listen, &[("10.0.0.1:80", 1)]);
            let clash = check(&plan, &admin(15000))[0].to_string();
            assert!(
                clash.contains(listen) && clash.contains("--admin off"),
                "{clash}"
            );
        }
        for listen in [
            "127.0.0.2:15000",
            "[::]:15000",
            "0.0.0.0:15020",
            "127.0.0.1:0",
        ] {
            let plan = plan(listen, &[("10.0.0.1:80", 1)]);
            assert_eq!(check(&plan, &admin(15000)), [], "{listen}");
        }
        let clash = check_surfaces(&admin(15021)).expect_err("the same");
        assert!(
            clash
                .to_string()
                .starts_with("--admin and --readiness have"),
            "{clash}"
        );
    }

    #[test]
    fn an_endpoint_that_is_our_own_listener_is_refused() {
        for (listen, to) in [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
        ] {
            let (listener, endpoint) = (address(listen), address(to));
            assert_eq!(
                check(&plan(listen, &[(to, 1)]), &admin(1)),
                [Conflict::Loop { listener, endpoint }]
            );
        }
        for (listen, to) in [
            ("0.0.0.0:8080", "10.0.0.1:8080"),
            ("127.0.0.1:8080", "127.0.0.1:8081"),
            ("127.0.0.1:8080", "127.0.0.2:8080"),
        ] {
            assert_eq!(check(&plan(listen, &[(to, 1)]), &admin(1)), [], "{to}");
        }
    }

    #[test]
    fn the_relay_serves_streams_and_no_datagrams() {
        let service = |transport| L4Service {
            transport,
            address: address("10.0.0.1:53"),
            split: Split::default(),
            more_tries: 0,
            reads_header: false,
            route: String::new(),
        };
        let of = |services: &[Transport]| Plan {
            l4_services: services.iter().copied().map(service).collect(),
            ..Plan::default()
        };
        let both = of(&[Transport::Tcp, Transport::Udp]);
        assert_eq!(unserved(&both).count(), 1, "UDP");
        let surface = check(&of(&[Transport::Udp]), &admin(53));
        assert_eq!(surface, [], "another protocol");
    }

    #[test]
    fn a_backend_without_any_weight_is_named() {
        let of = |weights: [u16; 2]| {
            let to = [("10.0.0.1:80", weights[0]), ("10.0.0.2:80", weights[1])];
            drained(&plan("0.0.0.0:8080", &to)).collect::<Vec<_>>()
        };
        assert_eq!(of([0, 0]), ["default/default"]);
        assert_eq!(of([0, 1]), [""; 0]);
        assert_eq!(drained(&plan("0.0.0.0:8080", &[])).count(), 0);
    }
}

//! Listeners of all Gateways, and the rules of the routes attached to them so far.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::reader::Cursor;
use super::resolve_l4::L4Listeners;
use super::resources::{Gateway, GatewayListener, Id, Protocol};
use crate::route::{Host, Rule, Rules};
use crate::snapshot::{L4Service, Listener, Reach, Transport};

#[derive(Default)]
pub struct Listeners<'r> {
    list: Vec<Pending<'r>>,
    /// Gateway and name, to places in the list: one for each address.
    places: HashMap<(&'r Id, &'r str), Vec<usize>>,
    /// Those below HTTP.
    pub l4: L4Listeners<'r>,
    /// Where each address was first listened on.
    taken: HashMap<(Transport, SocketAddr, Option<Reach>), Cursor<'r>>,
}

/// Addresses, each with the port of the listener it is of.
pub type ListenerPlaces<'r> = HashMap<(Transport, SocketAddr), Cursor<'r>>;

struct Pending<'r> {
    listener: &'r GatewayListener<'r>,
    address: SocketAddr,
    reach: Option<Reach>,
    /// Routes are attached one after the other.
    last_route: Option<&'r Id>,
    rules: Vec<Rule>,
}

impl<'r> Listeners<'r> {
    /// Two listeners on one address are reported.
    pub fn new(gateways: &'r [Gateway<'r>]) -> Self {
        let mut listeners = Self::default();
        for gateway in gateways {
            listeners.add(gateway);
        }
        listeners
    }

    fn add(&mut self, gateway: &'r Gateway<'r>) {
        for listener in &gateway.listeners {
            for (ip, prefix) in &gateway.addresses {
                let address = SocketAddr::new(*ip, listener.port);
                let reach = reach(listener, *ip, *prefix);
                let key = (listener.protocol.transport(), address, reach);
                if let Some(first) = self.taken.get(&key) {
                    let remedy = match listener.protocol {
                        Protocol::Http => {
                            "choose another port, or one listener and routes with hostnames"
                        }
                        Protocol::L4(_) => "choose another port",
                    };
                    listener.at_port.error(format!(
                        "{address} is listened on already at {}; {remedy}",
                        first.place()
                    ));
                    continue;
                }
                self.taken.insert(key, listener.at_port.clone());
                if let Protocol::L4(transport) = listener.protocol {
                    if reach.is_some() {
                        listener.at_port.error(
                            "prefixes and ranges of ports are for listeners of protocol HTTP; give this one an address and a port",
                        );
                        continue;
                    }
                    self.l4.add(&gateway.id, listener, transport, address);
                    continue;
                }
                let places = self.places.entry((&gateway.id, listener.name));
                places.or_default().push(self.list.len());
                self.list.push(Pending {
                    listener,
                    address,
                    reach,
                    last_route: None,
                    rules: Vec::new(),
                });
            }
        }
    }

    /// Adds rules of a route, for each of these hosts, to a listener named by its Gateway and its name. A route that
    /// names a listener twice is attached once.
    pub fn attach(
        &mut self,
        listener: (&'r Id, &'r str),
        route: &'r Id,
        hosts: &[Host],
        rules: &[Rule],
    ) {
        for place in self.places.get(&listener).into_iter().flatten() {
            let pending = &mut self.list[*place];
            if pending.last_route.replace(route) == Some(route) {
                continue;
            }
            for host in hosts {
                pending.rules.extend(rules.iter().map(|rule| Rule {
                    host: host.clone(),
                    ..rule.clone()
                }));
            }
        }
    }

    pub fn places(&self) -> ListenerPlaces<'r> {
        let taken = self.taken.iter();
        taken
            .map(|((transport, address, _), at)| ((*transport, *address), at.clone()))
            .collect()
    }

    pub fn finish(self) -> (Vec<Listener>, Vec<L4Service>) {
        let finished = self.list.into_iter().map(|pending| {
            if pending.last_route.is_none() {
                pending
                    .listener
                    .at_port
                    .warning("no route is attached: all requests are answered with 404");
            }
            Listener {
                address: pending.address,
                reach: pending.reach,
                rules: Rules::new(pending.rules),
            }
        });
        (finished.collect(), self.l4.finish())
    }
}

/// None where one address and one port are meant. The unspecified address stands for all of its family.
fn reach(listener: &GatewayListener<'_>, ip: IpAddr, prefix: Option<u8>) -> Option<Reach> {
    if prefix.is_none() && listener.last_port == listener.port {
        return None;
    }
    let whole = match ip {
        ip if ip.is_unspecified() => 0,
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    };
    Some(Reach {
        prefix_len: prefix.unwrap_or(whole),
        last_port: listener.last_port,
    })
}

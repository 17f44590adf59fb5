//! TCP and UDP listeners of all Gateways, each with the one route that is attached to it.

use std::collections::HashMap;
use std::net::SocketAddr;

use super::resources::{BackendRef, GatewayListener, Id, L4Route, ParentRef};
use crate::route::{Retry, Split};
use crate::snapshot::{BackendPolicy, L4Service, Transport};

#[derive(Default)]
pub struct L4Listeners<'r> {
    list: Vec<Pending<'r>>,
    /// Gateway and name, to places in the list: one for each address.
    places: HashMap<(&'r Id, &'r str), Vec<usize>>,
}

struct Pending<'r> {
    listener: &'r GatewayListener<'r>,
    transport: Transport,
    address: SocketAddr,
    attached: Option<Attached<'r>>,
}

/// What becomes of the clients of a route.
#[derive(Clone)]
pub struct L4Handling {
    pub split: Split,
    pub retry: Retry,
    pub reads_header: bool,
}

struct Attached<'r> {
    route: &'r L4Route<'r>,
    handling: L4Handling,
}

impl<'r> L4Listeners<'r> {
    pub fn add(
        &mut self,
        gateway: &'r Id,
        listener: &'r GatewayListener<'r>,
        transport: Transport,
        address: SocketAddr,
    ) {
        let places = self.places.entry((gateway, listener.name)).or_default();
        places.push(self.list.len());
        self.list.push(Pending {
            listener,
            transport,
            address,
            attached: None,
        });
    }

    /// Has a listener, named by its Gateway and its name, served by a route. A second route is reported; one that names a
    /// listener twice is attached once.
    pub fn attach(
        &mut self,
        listener: (&'r Id, &'r str),
        route: &'r L4Route<'r>,
        parent: &ParentRef<'_>,
        handling: &L4Handling,
    ) {
        for place in self.places.get(&listener).into_iter().flatten() {
            let pending = &mut self.list[*place];
            match &pending.attached {
                Some(first) if first.route.id == route.id => {}
                Some(Attached { route: first, .. }) => {
                    let (gateway, name) = listener;
                    return parent.cursor.error(format!(
                        "listener {name} of Gateway {gateway} is served by {}Route {} at {} already; a {} listener takes one route",
                        pending.transport,
                        first.id,
                        first.cursor.place(),
                        pending.transport,
                    ));
                }
                None => {
                    pending.attached = Some(Attached {
                        route,
                        handling: handling.clone(),
                    });
                }
            }
        }
    }

    pub fn finish(self) -> Vec<L4Service> {
        let finished = self.list.into_iter().map(|pending| {
            if pending.attached.is_none() {
                pending
                    .listener
                    .at_port
                    .warning("no route is attached: all clients are turned away");
            }
            let attached = pending.attached;
            L4Service {
                transport: pending.transport,
                address: pending.address,
                more_tries: attached.as_ref().map_or(0, |it| it.handling.retry.attempts),
                reads_header: attached.as_ref().is_some_and(|it| it.handling.reads_header),
                route: attached
                    .as_ref()
                    .map_or_else(String::new, |it| it.route.id.to_string()),
                split: attached.map(|it| it.handling.split).unwrap_or_default(),
            }
        });
        finished.collect()
    }
}

/// Reports what a policy wants of a backend's connections that only requests have.
pub fn check_policy(reference: &BackendRef<'_>, transport: Transport, policy: &BackendPolicy) {
    let said_by = |part: &str| {
        let mut origins = policy.origins.iter();
        let origin = origins.find(|origin| origin.part == part);
        origin.map_or_else(String::new, |origin| {
            format!(", as {} says", origin.document)
        })
    };
    let what = match transport {
        Transport::Tcp => "connections",
        Transport::Udp => "datagrams",
    };
    if let Some(affinity) = &policy.affinity
        && !affinity.is_client_address()
    {
        reference.cursor.error(format!(
            "is bound by `{}`{}, which {what} do not have; write source.address",
            affinity.source(),
            said_by("sessionAffinity"),
        ));
    }
    if policy.sends_header.is_some() && transport == Transport::Udp {
        reference.cursor.error(format!(
            "is sent PROXY headers{}, which datagrams do not have; leave sendProxyProtocol out",
            said_by("sendProxyProtocol"),
        ));
    }
    if policy.condition.is_some() {
        reference.cursor.warning(format!(
            "has an unhealthyCondition{}, which {what} do not meet: endpoints that take none are unhealthy here",
            said_by("health"),
        ));
    }
}

/// Reports what a policy wants of a backend's requests that only relayed connections have.
pub fn check_http_policy(reference: &BackendRef<'_>, policy: &BackendPolicy) {
    if policy.sends_header.is_some() {
        let mut origins = policy.origins.iter();
        let origin = origins.find(|origin| origin.part == "sendProxyProtocol");
        let document = origin.map_or("its policy", |origin| &origin.document);
        reference.cursor.error(format!(
            "is sent PROXY headers, as {document} says, which connections of HTTP do not have yet; target the TCPRoute there",
        ));
    }
}

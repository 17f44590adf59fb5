//! Gateway: addresses and ports to listen on.

use std::net::{IpAddr, Ipv4Addr};

use super::document::{Metadata, checked_name};
use super::reader::{Cursor, Object};
use super::resources::{Gateway, GatewayListener, Protocol, Resources};
use crate::route::Host;
use crate::snapshot::{Reach, Transport};

/// Annotation of a Gateway: ranges of ports of its listeners, as `http=8000-8099, other=9000-9009`.
pub const PORTS_ANNOTATION: &str = "weir.dev/ports";
/// Type of an address that stands for all of a prefix.
const PREFIX: &str = "weir.dev/Prefix";

pub fn read_gateway<'a>(
    object: &mut Object<'a>,
    metadata: Metadata<'a>,
    resources: &mut Resources<'a>,
) {
    let Some(mut spec) = object.required("spec").and_then(|spec| spec.object()) else {
        return;
    };
    spec.ignored(&["gatewayClassName"]);
    spec.unsupported(&[
        "infrastructure",
        "backendTLS",
        "tls",
        "allowedListeners",
        "defaultScope",
    ]);
    let addresses = spec.items("addresses");
    let addresses = if addresses.is_empty() {
        vec![(IpAddr::V4(Ipv4Addr::UNSPECIFIED), None)]
    } else {
        addresses.iter().filter_map(read_address).collect()
    };
    let list = spec.required("listeners");
    let items = list.as_ref().map(Cursor::list).unwrap_or_default();
    if let Some(list) = list
        && items.is_empty()
    {
        list.error("is empty; add a listener with name, port and protocol");
    }
    let mut listeners: Vec<GatewayListener<'a>> = Vec::new();
    for item in &items {
        let Some(listener) = read_listener(item) else {
            continue;
        };
        if listeners.iter().any(|other| other.name == listener.name) {
            item.error(format!(
                "the name `{}` is that of an earlier listener; rename one",
                listener.name
            ));
        } else {
            listeners.push(listener);
        }
    }
    spec.finish();
    read_ports(&metadata, &mut listeners);
    resources.gateways.push(Gateway {
        id: metadata.id,
        addresses,
        is_whole: listeners.len() == items.len(),
        listeners,
    });
}

fn read_address(at: &Cursor<'_>) -> Option<(IpAddr, Option<u8>)> {
    let mut address = at.object()?;
    let is_prefix = match address.optional("type") {
        Some(kind) => {
            let kinds = [("IPAddress", false), (PREFIX, true)];
            kind.supported_choice(&kinds, &["Hostname", "NamedAddress"])?
        }
        None => false,
    };
    let value = address.required("value")?;
    address.finish();
    let text = value.text()?;
    if is_prefix {
        let parsed = parse_prefix(text);
        if parsed.is_none() {
            value.error(format!(
                "`{text}` is not a prefix; write one such as 203.0.113.0/24, its bits beyond the length zero"
            ));
        }
        return parsed.map(|(ip, length)| (ip, Some(length)));
    }
    let parsed = text.parse();
    if parsed.is_err() {
        value.error(format!(
            "`{text}` is not an IP address; write one such as 0.0.0.0 or ::"
        ));
    }
    parsed.ok().map(|ip| (ip, None))
}

fn parse_prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (ip, length) = text.split_once('/')?;
    let (ip, prefix_len): (IpAddr, u8) = (ip.parse().ok()?, length.parse().ok()?);
    let most = if ip.is_ipv4() { 32 } else { 128 };
    let reach = Reach {
        prefix_len,
        last_port: 0,
    };
    (prefix_len <= most && reach.begins_at(ip)).then_some((ip, prefix_len))
}

/// Ranges of ports begin at the port of their listener.
fn read_ports(metadata: &Metadata<'_>, listeners: &mut [GatewayListener<'_>]) {
    let annotations = metadata.annotations.as_ref().and_then(Cursor::object);
    let Some(at) = annotations.and_then(|mut all| all.optional(PORTS_ANNOTATION)) else {
        return;
    };
    let Some(text) = at.text() else { return };
    for part in text.split(',').map(str::trim) {
        let Some((name, first, last)) = parse_range(part) else {
            at.error(format!(
                "`{part}` is not a listener and its ports; write it as `http=8000-8099`"
            ));
            continue;
        };
        match listeners.iter_mut().find(|listener| listener.name == name) {
            None => at.error(format!(
                "there is no listener `{name}`; name one of the Gateway's"
            )),
            Some(listener) if listener.port != first => at.error(format!(
                "the ports of `{name}` begin at {}, its port; write `{name}={}-{last}`",
                listener.port, listener.port
            )),
            Some(listener) => listener.last_port = last,
        }
    }
}

fn parse_range(text: &str) -> Option<(&str, u16, u16)> {
    let (name, ports) = text.split_once('=')?;
    let (first, last) = ports.split_once('-')?;
    let (first, last) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last).then_some((name, first, last))
}

fn read_listener<'a>(at: &Cursor<'a>) -> Option<GatewayListener<'a>> {
    let mut listener = at.object()?;
    let name = listener
        .required("name")
        .and_then(|name| checked_name(&name));
    let at_port = listener.required("port");
    let port = at_port.as_ref().and_then(Cursor::port);
    let protocol = listener.required("protocol").and_then(|protocol| {
        let protocols = [
            Protocol::Http,
            Protocol::L4(Transport::Tcp),
            Protocol::L4(Transport::Udp),
        ];
        let protocols = protocols.map(|protocol| (protocol.name(), protocol));
        protocol.supported_choice(&protocols, &["HTTPS", "TLS"])
    });
    let host = match listener.optional("hostname") {
        Some(host) if matches!(protocol, Some(Protocol::L4(_))) => {
            host.error("is of requests; leave it out, or write `protocol: HTTP`");
            None
        }
        Some(host) => read_host(&host),
        None => Some(Host::Any),
    };
    let is_open = match listener.optional("allowedRoutes") {
        Some(allowed) => read_allowed(&allowed),
        None => Some(false),
    };
    listener.unsupported(&["tls"]);
    listener.finish();
    Some(GatewayListener {
        name: name?,
        port: port?,
        last_port: port?,
        at_port: at_port?,
        protocol: protocol?,
        host: host?,
        is_open: is_open?,
    })
}

/// Whether routes of all namespaces may attach.
fn read_allowed(at: &Cursor<'_>) -> Option<bool> {
    let mut allowed = at.object()?;
    allowed.unsupported(&["kinds"]);
    let namespaces = allowed.optional("namespaces");
    allowed.finish();
    let Some(namespaces) = namespaces else {
        return Some(false);
    };
    let mut namespaces = namespaces.object()?;
    let from = namespaces.optional("from");
    namespaces.unsupported(&["selector"]);
    namespaces.finish();
    match from {
        Some(from) => {
            from.supported_choice(&[("Same", false), ("All", true)], &["Selector", "None"])
        }
        None => Some(false),
    }
}

pub fn read_host(at: &Cursor<'_>) -> Option<Host> {
    let text = at.text()?;
    match Host::parse(text) {
        Ok(host) => Some(host),
        Err(error) => {
            at.error(format!("`{text}` {error}"));
            None
        }
    }
}

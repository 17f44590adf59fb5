//! The resources of all files by kind, checked each by itself. References between them are still names.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use super::locality::Preference;
use super::reader::Cursor;
use super::treatment::Treatment;
use crate::balance::{Locality, Weight};
use crate::route::{Created, Filters, Fraction, Host, Match, Retry, Timeouts};
use crate::snapshot::Transport;

/// Name within a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Id {
    pub namespace: String,
    pub name: String,
}

impl Id {
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}/{}", self.namespace, self.name)
    }
}

#[derive(Default)]
pub struct Resources<'a> {
    pub gateways: Vec<Gateway<'a>>,
    pub routes: Vec<HttpRoute<'a>>,
    pub l4_routes: Vec<L4Route<'a>>,
    pub services: Vec<Service<'a>>,
    pub slices: Vec<EndpointSlice<'a>>,
    pub backends: Vec<StaticBackend>,
    pub policies: Vec<Policy<'a>>,
    /// Documents that were understood.
    pub count: usize,
    /// Documents of others, with their places.
    pub ignored: Vec<String>,
    /// Where each name of a kind stands.
    pub names: HashMap<(&'static str, Id), String>,
}

pub struct Gateway<'a> {
    pub id: Id,
    /// Where its listeners listen: addresses, and prefixes with their length.
    pub addresses: Vec<(IpAddr, Option<u8>)>,
    pub listeners: Vec<GatewayListener<'a>>,
    /// No listener was left out because of a problem.
    pub is_whole: bool,
}

pub struct GatewayListener<'a> {
    pub name: &'a str,
    pub port: u16,
    /// The same as `port`, or more.
    pub last_port: u16,
    pub at_port: Cursor<'a>,
    pub protocol: Protocol,
    pub host: Host,
    /// Routes of other namespaces may attach.
    pub is_open: bool,
}

/// What a listener speaks, and which routes attach to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http,
    L4(Transport),
}

impl Protocol {
    /// As a Gateway names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::L4(Transport::Tcp) => "TCP",
            Self::L4(Transport::Udp) => "UDP",
        }
    }

    pub fn transport(self) -> Transport {
        match self {
            Self::Http => Transport::Tcp,
            Self::L4(transport) => transport,
        }
    }

    /// Of the routes that attach.
    pub fn route_kind(self) -> PolicyTargetKind {
        match self {
            Self::Http => PolicyTargetKind::Route,
            Self::L4(Transport::Tcp) => PolicyTargetKind::TcpRoute,
            Self::L4(Transport::Udp) => PolicyTargetKind::UdpRoute,
        }
    }
}

pub struct HttpRoute<'a> {
    pub id: Id,
    pub created: Created,
    pub parents: Vec<ParentRef<'a>>,
    /// Empty: any.
    pub hosts: Vec<Host>,
    pub rules: Vec<RouteRule<'a>>,
    /// No rule was left out because of a problem.
    pub is_whole: bool,
}

/// A TCPRoute or a UDPRoute.
pub struct L4Route<'a> {
    pub id: Id,
    pub cursor: Cursor<'a>,
    pub transport: Transport,
    pub parents: Vec<ParentRef<'a>>,
    /// Of its only rule.
    pub rule_name: Option<&'a str>,
    pub backends: Vec<BackendRef<'a>>,
}

pub struct ParentRef<'a> {
    pub cursor: Cursor<'a>,
    pub gateway: Id,
    pub section: Option<&'a str>,
    pub port: Option<u16>,
}

pub struct RouteRule<'a> {
    pub name: Option<&'a str>,
    /// A request needs to meet one of these.
    pub matches: Vec<Match>,
    pub backends: Vec<BackendRef<'a>>,
    /// `None`: nothing is said.
    pub retry: Option<Retry>,
    /// `None`: nothing is said.
    pub timeouts: Option<Timeouts>,
    pub filters: Filtering<'a>,
}

/// What is done to requests, and who else gets them.
#[derive(Default)]
pub struct Filtering<'a> {
    /// Without mirrors, which are still names.
    pub filters: Filters,
    pub mirrors: Vec<MirrorRef<'a>>,
}

impl<'a> RouteRule<'a> {
    /// Mirrors of all its requests, and of those of its backends.
    pub fn mirrors(&self) -> impl Iterator<Item = &MirrorRef<'a>> {
        let of_backends = self.backends.iter().map(|backend| &backend.filters);
        let all = std::iter::once(&self.filters).chain(of_backends);
        all.flat_map(|filtering| &filtering.mirrors)
    }
}

impl Filtering<'_> {
    pub fn is_empty(&self) -> bool {
        self.mirrors.is_empty() && self.filters == Filters::default()
    }
}

pub struct MirrorRef<'a> {
    pub backend: BackendRef<'a>,
    pub fraction: Fraction,
}

pub struct BackendRef<'a> {
    pub cursor: Cursor<'a>,
    pub target: BackendTarget,
    pub weight: u32,
    /// What this reference says of it.
    pub treatment: Treatment,
    /// Done to its requests alone, after what the rule does to all.
    pub filters: Filtering<'a>,
}

/// What can be balanced over.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum BackendTarget {
    Service {
        id: Id,
        port: u16,
        transport: Transport,
    },
    Backend(Id),
}

pub struct Service<'a> {
    pub id: Id,
    pub cursor: Cursor<'a>,
    pub ports: Vec<ServicePort<'a>>,
    /// No port was left out because of a problem.
    pub is_whole: bool,
    pub publishes_unready: bool,
    pub preference: Preference<'a>,
}

impl Service<'_> {
    /// Says that it has no such port, of this transport or of any; `None` if it has, or if it may be one with a problem.
    pub fn missing_port(&self, port: u16, transport: Option<Transport>) -> Option<String> {
        let fits = |one: &ServicePort<'_>| transport.is_none_or(|it| it == one.transport);
        let has_it = self.ports.iter().any(|one| one.port == port && fits(one));
        if has_it || !self.is_whole {
            return None;
        }
        let ports = self.ports.iter().map(|one| match one.transport {
            Transport::Tcp => one.port.to_string(),
            Transport::Udp => format!("{}/UDP", one.port),
        });
        let ports = ports.collect::<Vec<_>>().join(", ");
        let udp = match transport {
            Some(Transport::Udp) => "UDP ",
            _ => "",
        };
        Some(format!(
            "Service {} has no {udp}port {port}; it has {ports}",
            self.id
        ))
    }
}

pub struct ServicePort<'a> {
    /// Empty if it has none: there is only one then.
    pub name: &'a str,
    pub port: u16,
    pub transport: Transport,
}

pub struct EndpointSlice<'a> {
    pub cursor: Cursor<'a>,
    pub service: Id,
    pub weight: Weight,
    pub ports: Vec<SlicePort<'a>>,
    pub endpoints: Vec<SliceEndpoint>,
}

pub struct SlicePort<'a> {
    pub name: &'a str,
    pub port: u16,
    pub transport: Transport,
}

pub struct SliceEndpoint {
    pub addresses: Vec<IpAddr>,
    pub readiness: Readiness,
    pub locality: Locality,
    /// `//Pod/namespace/name`; `None`: named by its address.
    pub key: Option<String>,
}

/// The best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Readiness {
    Ready,
    /// On its way out, and still answering: better than nothing.
    Leaving,
    Unready,
}

pub struct StaticBackend {
    pub id: Id,
    pub address: Option<SocketAddr>,
    pub treatment: Treatment,
}

pub struct Policy<'a> {
    pub targets: Vec<PolicyTarget<'a>>,
    pub treatment: Treatment,
}

pub struct PolicyTarget<'a> {
    pub cursor: Cursor<'a>,
    pub kind: PolicyTargetKind,
    pub id: Id,
    pub section: Section<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PolicyTargetKind {
    Gateway,
    Route,
    TcpRoute,
    UdpRoute,
    Service,
    Backend,
}

impl PolicyTargetKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Gateway => "Gateway",
            Self::Route => "HTTPRoute",
            Self::TcpRoute => "TCPRoute",
            Self::UdpRoute => "UDPRoute",
            Self::Service => "Service",
            Self::Backend => "AgentgatewayBackend",
        }
    }
}

/// How much of a target is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Section<'a> {
    Whole,
    /// A listener of a Gateway, a rule of a route.
    Name(&'a str),
    /// Of a Service.
    Port(u16),
}

//! L4 services in the kernel: which VIPs there are, and by which rows of `SERVICE_ENDPOINT` each draws its endpoints.
//!
//! New rows are written where no service draws from, then the services are pointed there, one by one: whoever draws finds
//! the old rows whole or the new ones.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};

use weir_common::{Service, ServiceEndpoint, ServiceKey, TCP, UDP};

use super::super::keys;
use super::super::syscall::HashTable;
use super::columns::columns;
use crate::balance::EndpointRow;
use crate::snapshot::Transport;

/// What the kernel is to serve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelService {
    pub transport: Transport,
    /// What clients send to.
    pub address: SocketAddr,
    /// Those to draw from, each with its weight, above 0. Of the family of `address`.
    pub endpoints: Vec<KernelEndpoint>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelEndpoint {
    pub address: SocketAddr,
    /// Address of ours that packets to it come from.
    pub source: IpAddr,
    pub row: EndpointRow,
    pub weight: u16,
}

pub struct ServiceTables {
    pub services: HashTable<ServiceKey, Service>,
    pub rows: HashTable<u32, ServiceEndpoint>,
    /// Rows there are.
    pub capacity: u32,
    /// VIPs among them.
    known: BTreeSet<Key>,
    /// Where the current rows begin: in the first or in the second half.
    start: u32,
}

/// Address, port and protocol; 0 and 0 for a VIP.
type Key = (IpAddr, u16, u8);

impl ServiceTables {
    pub fn new(
        services: HashTable<ServiceKey, Service>,
        rows: HashTable<u32, ServiceEndpoint>,
        capacity: u32,
    ) -> Self {
        Self {
            services,
            rows,
            capacity,
            known: BTreeSet::new(),
            start: 0,
        }
    }

    /// Takes over what another process left in the tables: it is served until the next services are published.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn adopt(&mut self) -> io::Result<()> {
        self.known.clear();
        self.start = 0;
        for (key, service) in self.services.all()? {
            self.known.insert(known_key(&key));
            if service.count > 0 && service.first >= self.capacity / 2 {
                self.start = self.capacity / 2;
            }
        }
        Ok(())
    }

    /// What is served now.
    pub fn served(&self) -> Vec<(Transport, SocketAddr)> {
        let services = self.known.iter();
        let services = services.filter_map(|(address, port, protocol)| {
            let transport = match *protocol {
                TCP => Transport::Tcp,
                UDP => Transport::Udp,
                _ => return None,
            };
            Some((transport, SocketAddr::new(*address, *port)))
        });
        services.collect()
    }

    /// Serves these, and no others any more. Connections that stand are not touched.
    ///
    /// # Errors
    /// `StorageFull` if there are more endpoints than rows, and what the kernel says; some services may be new then, and
    /// others not.
    pub fn publish(&mut self, services: &[KernelService]) -> io::Result<()> {
        let half = self.capacity / 2;
        let count: usize = services.iter().map(|one| one.endpoints.len()).sum();
        if count > half as usize {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let start = if self.start == 0 { half } else { 0 };
        let mut next = start;
        let mut known = BTreeSet::new();
        for service in services {
            let value = Service {
                first: next,
                count: service.endpoints.len() as u32,
            };
            for (row, value) in (next..).zip(service_rows(service, next)) {
                self.rows.insert(&row, &value)?;
            }
            next += value.count;
            let key = (
                service.address.ip(),
                service.address.port(),
                protocol(service.transport),
            );
            let vip = (service.address.ip(), 0, 0);
            known.extend([key, vip]);
            self.services.insert(&table_key(vip), &Service::default())?;
            self.services.insert(&table_key(key), &value)?;
        }
        for gone in self.known.difference(&known) {
            self.services.remove(&table_key(*gone))?;
        }
        self.known = known;
        self.start = start;
        Ok(())
    }
}

fn service_rows(service: &KernelService, first: u32) -> impl Iterator<Item = ServiceEndpoint> {
    let weights: Vec<u16> = service.endpoints.iter().map(|one| one.weight).collect();
    let columns = columns(&weights);
    let endpoints = service.endpoints.iter().zip(columns);
    endpoints.map(move |(endpoint, column)| ServiceEndpoint {
        address: keys::address(endpoint.address.ip()),
        source: keys::address(endpoint.source),
        port: endpoint.address.port().to_be(),
        padding: 0,
        endpoint: endpoint.row.index,
        generation: endpoint.row.generation,
        cut: column.cut,
        alias: first + column.alias,
    })
}

fn table_key((address, port, protocol): Key) -> ServiceKey {
    ServiceKey {
        address: keys::address(address),
        port: port.to_be(),
        protocol,
        padding: 0,
    }
}

fn known_key(key: &ServiceKey) -> Key {
    (keys::ip(key.address), u16::from_be(key.port), key.protocol)
}

fn protocol(transport: Transport) -> u8 {
    match transport {
        Transport::Tcp => TCP,
        Transport::Udp => UDP,
    }
}

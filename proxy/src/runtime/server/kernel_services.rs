//! Keeps the kernel's L4 services in step with the snapshot, with who is in the pool and with how good each endpoint is;
//! and records what became of the connections the kernel made.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_common::{EndpointScore, MAX_SCORE_LATENCY};

use super::dead_ends::DeadEnds;
use super::sources::Sources;
use crate::balance::shared::SharedTables;
use crate::balance::{
    Backend, ConnectionNews, Endpoint, EndpointRow, Method, Reading, Scoring, State, Verdict,
    reading_of, standings,
};
use crate::moment::Moment;
use crate::runtime::dataplane::{Dataplane, KernelEndpoint, KernelService, XdpMode, resolve};
use crate::snapshot::{L4Service, Snapshot, Transport};

/// How often.
pub const TICK: Duration = Duration::from_millis(100);

/// Why the kernel does not serve a service.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotInKernel {
    #[error("it has no address of its own, but all of this host's")]
    Unspecified,
    #[error("it does not lead to one backend, but to {0}")]
    Backends(usize),
    #[error("its connections are bound to endpoints by affinity")]
    Affinity,
    #[error("its endpoints are scored adaptively or eased in")]
    Policy,
    #[error("its clients or endpoints are to have PROXY headers")]
    ProxyHeaders,
    #[error("endpoint {0} is of another IP family")]
    Family(SocketAddr),
    #[error("endpoint {0} is on this host")]
    OwnHost(SocketAddr),
    #[error("interface {0} takes no packets from XDP of another one; --xdp generic reaches it")]
    DeadEnd(String),
}

#[derive(Default)]
pub struct KernelServices {
    /// What the kernel serves; None while nobody knows: it may go on with what another process left.
    published: Option<Vec<KernelService>>,
    /// What was said of services the kernel does not serve.
    said: BTreeMap<(Transport, SocketAddr), NotInKernel>,
    /// What endpoints' rows said when they were looked at last.
    seen: HashMap<EndpointRow, EndpointScore>,
    sources: Sources,
    dead_ends: DeadEnds,
    has_failed: bool,
    /// Ticks until link addresses are asked for again.
    until_resolved: u32,
}

impl KernelServices {
    /// To be called about every [`TICK`].
    pub fn tick(&mut self, dataplane: &Dataplane, snapshot: &Snapshot, now: Moment) {
        let has_services = snapshot.l4_services().next().is_some();
        if !has_services && !self.is_to_publish(&[]) {
            return;
        }
        if let Some(cause) = dataplane.without_kernel() {
            if has_services && !std::mem::replace(&mut self.has_failed, true) {
                tracing::warn!(
                    "TCP services are served by the relay, those of UDP by nobody: no BPF, {cause}"
                );
            }
            return;
        }
        let tables = dataplane.tables();
        let is_by_driver = dataplane.xdp_mode() != XdpMode::Generic;
        let mut services = Vec::new();
        let mut backends = Vec::new();
        let mut said = BTreeMap::new();
        for (_, service) in snapshot.l4_services() {
            let in_kernel = in_kernel(snapshot, service, &tables, &mut self.sources, now);
            let found = in_kernel.and_then(|found| {
                if is_by_driver && let Some(interface) = self.dead_ends.of(&found.0, now) {
                    return Err(NotInKernel::DeadEnd(interface));
                }
                Ok(found)
            });
            match found {
                Ok((one, backend)) => {
                    services.push(one);
                    backends.push(backend);
                }
                Err(reason) => {
                    said.insert((service.transport, service.address), reason);
                }
            }
        }
        self.sources.tidy(now);
        self.dead_ends.tidy(now);
        self.look_at_all(&tables, &backends, now);
        self.say(said);
        self.resolve(&services);
        if let Err(error) = dataplane.resolve_missing() {
            tracing::debug!(%error, "which link addresses are missing cannot be read");
        }
        if !self.is_to_publish(&services) {
            return;
        }
        // Where it fails, some services may be new and others not.
        self.published = None;
        match dataplane.serve(&services) {
            Ok(()) => {
                self.published = Some(services);
                self.has_failed = false;
            }
            Err(error) if !self.has_failed => {
                tracing::warn!(%error, "the kernel does not take the L4 services as they are now");
                self.has_failed = true;
            }
            Err(_) => {}
        }
    }

    /// Whoever had the tables until now may have written to them after us.
    pub fn publish_again(&mut self) {
        self.published = None;
    }

    fn is_to_publish(&self, services: &[KernelService]) -> bool {
        self.published.as_deref() != Some(services)
    }

    /// Looks at each endpoint once, however many services lead to it: news that is taken is no news any more.
    fn look_at_all(&mut self, tables: &SharedTables, backends: &[&Backend], now: Moment) {
        let mut seen = HashMap::new();
        for backend in backends {
            for endpoint in backend.endpoints() {
                let look = || self.look_at(tables, backend, endpoint, now);
                seen.entry(endpoint.row).or_insert_with(look);
            }
        }
        self.seen = seen;
    }

    /// Tells the kernel how good the endpoint is, and learns from what it saw. Returns that.
    fn look_at(
        &self,
        tables: &SharedTables,
        backend: &Backend,
        endpoint: &Endpoint,
        now: Moment,
    ) -> EndpointScore {
        let cells = &tables.score[endpoint.row.index as usize];
        let after = cells.read();
        // Of a row that is looked at for the first time, nobody knows how old its counts are.
        let before = self.seen.get(&endpoint.row).copied().unwrap_or(after);
        let news = news(&before, &after);
        if news != ConnectionNews::default()
            && let Some(Verdict::Ejected(ejection)) = news.record(tables, backend, endpoint, now)
        {
            tracing::warn!(
                "endpoint {} leaves the pool for {:?}: {} (connections of L4 services)",
                ejection.address,
                ejection.length,
                ejection.trigger
            );
        }
        let reading = reading_of(tables, endpoint);
        cells.packed.store(packed(reading), Relaxed);
        cells.pending.store(reading.pending, Relaxed);
        after
    }

    /// Without the link address of its endpoint a connection could not be opened.
    fn resolve(&mut self, services: &[KernelService]) {
        const TICKS: u32 = 10;
        self.until_resolved = match self.until_resolved {
            0 => TICKS,
            ticks => ticks - 1,
        };
        if self.until_resolved != TICKS && !self.is_to_publish(services) {
            return;
        }
        let endpoints = services.iter().flat_map(|service| &service.endpoints);
        for KernelEndpoint { address, .. } in endpoints {
            if let Err(error) = resolve(*address) {
                tracing::debug!(%address, %error, "the link address of an endpoint cannot be asked for");
            }
        }
    }

    fn say(&mut self, said: BTreeMap<(Transport, SocketAddr), NotInKernel>) {
        for (service, reason) in &said {
            if self.said.get(service) != Some(reason) {
                let (transport, address) = service;
                match transport {
                    Transport::Tcp => {
                        tracing::info!("{address}/TCP is served by the relay: {reason}");
                    }
                    Transport::Udp => {
                        tracing::warn!("{address}/UDP is served by nobody: {reason}");
                    }
                }
            }
        }
        self.said = said;
    }
}

fn news(before: &EndpointScore, after: &EndpointScore) -> ConnectionNews {
    let more = |field: fn(&EndpointScore) -> u64| field(after).saturating_sub(field(before));
    let accepted = more(|score| score.accepted);
    let connect_ns = more(|score| score.connect_ns_sum);
    ConnectionNews {
        accepted,
        connect: Duration::from_nanos(connect_ns.checked_div(accepted).unwrap_or(0)),
        failed: more(|score| score.refused) + more(|score| score.unanswered),
    }
}

/// As the kernel compares it.
fn packed(reading: Reading) -> u64 {
    const ONE: f64 = (1 << 20) as f64;
    let latency = reading.latency_seconds.unwrap_or(0.0) * ONE;
    let latency = latency.min(f64::from(MAX_SCORE_LATENCY)) as u64;
    let health = (reading.health.clamp(0.0, 1.0) * f64::from(1 << 16)) as u64;
    health << 32 | latency
}

/// The service as the kernel serves it, with its backend.
fn in_kernel<'a>(
    snapshot: &'a Snapshot,
    service: &L4Service,
    tables: &SharedTables,
    sources: &mut Sources,
    now: Moment,
) -> Result<(KernelService, &'a Backend), NotInKernel> {
    if service.address.ip().is_unspecified() {
        return Err(NotInKernel::Unspecified);
    }
    let backends: Vec<&Backend> = snapshot.backends_of(service).map(|(one, _)| one).collect();
    let [backend] = backends[..] else {
        return Err(NotInKernel::Backends(backends.len()));
    };
    let policy = snapshot.policy_of(backend);
    if policy.is_some_and(|policy| policy.affinity.is_some()) {
        return Err(NotInKernel::Affinity);
    }
    if service.reads_header || policy.is_some_and(|policy| policy.sends_header.is_some()) {
        return Err(NotInKernel::ProxyHeaders);
    }
    if backend.policy.scoring != Scoring::Seed || backend.policy.slow_start.is_some() {
        return Err(NotInKernel::Policy);
    }
    let (method, standings) = standings(backend, tables, now);
    let mut endpoints = Vec::new();
    for standing in standings {
        let endpoint = &backend.endpoints()[standing.place];
        let address = endpoint.address;
        if address.is_ipv4() != service.address.is_ipv4() {
            return Err(NotInKernel::Family(address));
        }
        let is_drawn_from = match method {
            Some(Method::P2c) => standing.state == State::Candidate,
            // Nobody is in the pool: those that left it serve.
            _ => standing.chance > 0.0,
        };
        if !is_drawn_from {
            continue;
        }
        // Without a way there now, there may be one later.
        let Some(source) = sources.towards(address, now) else {
            continue;
        };
        if source == address.ip() || source.is_loopback() {
            return Err(NotInKernel::OwnHost(address));
        }
        endpoints.push(KernelEndpoint {
            address,
            source,
            row: endpoint.row,
            weight: match method {
                Some(Method::P2c) => endpoint.weight.share(),
                _ => 1,
            },
        });
    }
    let service = KernelService {
        transport: service.transport,
        address: service.address,
        endpoints,
    };
    Ok((service, backend))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::shared::Sizes;
    use crate::balance::{BackendId, BackendKind, Bucket, EndpointRows, Weight};

    fn world() -> (SharedTables, Backend) {
        let tables = SharedTables::anonymous(Sizes {
            capacity: 1,
            workers: 1,
            cpus: 1,
            flows: 1,
        });
        let address = SocketAddr::from(([10, 0, 0, 1], 80));
        let key: std::sync::Arc<str> = address.to_string().into();
        let row = EndpointRows::new(tables.clone()).admit(&key, address);
        let endpoint = Endpoint {
            row: row.expect("rows enough"),
            key,
            address,
            weight: Weight::ONE,
            bucket: Bucket::default(),
        };
        let id = BackendId {
            place: 0,
            revision: 1,
        };
        let backend = Backend::new(id, BackendKind::Service, "a", "b", [endpoint].into());
        (tables, backend)
    }

    #[test]
    fn news_of_an_endpoint_of_several_services_is_taken_once() {
        let (tables, backend) = world();
        let mut services = KernelServices::default();
        let now = Moment::from_nanos(1);
        services.look_at_all(&tables, &[&backend, &backend], now);
        tables.score[0].refused.store(1, Relaxed);
        services.look_at_all(&tables, &[&backend, &backend], now);
        let health = reading_of(&tables, &backend.endpoints()[0]).health;
        assert!(
            (health - 0.7).abs() < 1e-9,
            "one failure, not two: {health}"
        );
        services.look_at_all(&tables, &[&backend, &backend], now);
        assert_eq!(reading_of(&tables, &backend.endpoints()[0]).health, health);
    }

    #[test]
    fn what_another_process_left_is_withdrawn_though_nothing_is_to_be_served() {
        let mut services = KernelServices::default();
        assert!(services.is_to_publish(&[]));
        services.published = Some(Vec::new());
        assert!(!services.is_to_publish(&[]));
        services.publish_again();
        assert!(services.is_to_publish(&[]));
    }
}

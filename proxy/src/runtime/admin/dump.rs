//! `/config_dump`: one document that says what is configured and what is known of it right now. The same types read it
//! back, for `weir proxy config backends`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_common::EndpointWire;

use crate::balance::{Backend, BackendKind, Endpoint, Figures, LatencySource};
use crate::metrics::{EbpfStatus, Observed, WorkerLoad};
use crate::moment::Moment;
use crate::runtime::l4;
use crate::snapshot::{BackendPolicy, L4Service};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigDump {
    pub version: String,
    pub instance: String,
    pub uptime_seconds: f64,
    /// Of what is served, raised by every change.
    #[serde(default)]
    pub revision: u64,
    /// What is wrong with the configuration, if it was refused when it was loaded last: then an earlier one is served.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    pub ebpf: EbpfStatus,
    #[serde(default)]
    pub workers: Vec<WorkerDump>,
    pub listeners: Vec<ListenerDump>,
    pub backends: Vec<BackendDump>,
}

/// What a worker tells of itself: what new connections are steered by.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WorkerDump {
    pub worker: usize,
    /// Those to endpoints included.
    pub connections: u64,
    /// What a turn of its loop usually takes.
    pub loop_lag_ms: f64,
    /// By how much it is late with the next turn.
    pub overdue_ms: f64,
    pub accepting: bool,
    /// Attempts to connect the kernel gave it, by load.
    pub steered: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListenerDump {
    pub address: SocketAddr,
    /// The prefix and the range of ports it is for, where there is no socket on the address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reach: Option<String>,
    /// As its Gateway says.
    #[serde(default = "http")]
    pub protocol: String,
    /// Who serves it, if it is not for HTTP: `relay`, or `nobody`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_by: Option<String>,
    /// All its rules lead to, as `namespace/name`.
    pub backends: Vec<String>,
}

fn http() -> String {
    "HTTP".to_owned()
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendDump {
    #[serde(rename = "type")]
    pub kind: BackendKind,
    pub name: String,
    pub namespace: String,
    /// The expression its requests are bound to endpoints by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<String>,
    /// Parts of its policy, each with the document it is from. A backend that routes treat differently is there once for
    /// each way it is treated, with the same endpoints.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub policies: BTreeMap<String, String>,
    pub endpoints: Vec<EndpointDump>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EndpointDump {
    /// Its key.
    pub endpoint: String,
    pub address: SocketAddr,
    pub weight: u16,
    pub bucket: u8,
    pub health_score: f64,
    /// Moving average; absent before the first success.
    pub latency_ms: Option<f64>,
    pub latency_source: Option<LatencySource>,
    /// Mean delay the proxy itself added, where the kernel measured too.
    pub self_delay_ms: Option<f64>,
    pub pending: u64,
    pub attempts: Attempts,
    /// Out of the pool, for whichever reason.
    pub ejected: bool,
    /// Out of the pool because of active checks.
    #[serde(default)]
    pub check_failing: bool,
    pub ejected_for_ms: Option<f64>,
    /// Ejections ever.
    pub ejections: u64,
    pub wire: WireDump,
}

/// How attempts ended. Those started and not ended are pending.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempts {
    pub started: u64,
    pub succeeded: u64,
    pub failed: u64,
    pub neutral: u64,
}

/// What kernel programs counted; zero without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WireDump {
    pub started: u64,
    pub finished: u64,
    pub first_byte: TimedDump,
    pub connect: TimedDump,
    pub opened: u64,
    pub closed: u64,
    pub retransmits: u64,
    pub resets: u64,
    pub bytes_out: u64,
    pub bytes_in: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TimedDump {
    pub count: u64,
    pub mean_ms: Option<f64>,
}

impl ConfigDump {
    pub fn of(observed: &Observed, now: Moment) -> Self {
        let snapshot = observed.serving.snapshot();
        let name = |place: usize| {
            let backend = snapshot.backends().get(place)?;
            Some(format!("{}/{}", backend.namespace, backend.name))
        };
        let listeners = snapshot.listeners().map(|(_, listener)| ListenerDump {
            address: listener.address,
            reach: listener.reach.map(|_| listener.place()),
            protocol: http(),
            served_by: None,
            backends: listener
                .rules
                .backends()
                .into_iter()
                .filter_map(name)
                .collect(),
        });
        let ebpf = (observed.ebpf)();
        let served_by = |service: &L4Service| {
            let name = format!("{}/{}", service.address, service.transport);
            match ebpf.xdp.services.contains(&name) {
                true => "xdp".to_owned(),
                false => l4::path(service).name().to_owned(),
            }
        };
        let services = snapshot.l4_services().map(|(_, service)| ListenerDump {
            address: service.address,
            reach: None,
            protocol: service.transport.to_string(),
            served_by: Some(served_by(service)),
            backends: service
                .split
                .weights()
                .filter_map(|(place, _)| name(place))
                .collect(),
        });
        let backends = snapshot.backends().iter();
        Self {
            version: Observed::VERSION.to_owned(),
            instance: observed.instance.clone(),
            uptime_seconds: now.since(observed.started).as_secs_f64(),
            revision: snapshot.revision,
            refused: observed
                .serving
                .refusal()
                .map_or(Vec::new(), |told| told.to_vec()),
            ebpf: ebpf.clone(),
            workers: WorkerLoad::all(&observed.tables, now)
                .map(WorkerDump::of)
                .collect(),
            listeners: listeners.chain(services).collect(),
            backends: backends
                .map(|backend| BackendDump::of(backend, snapshot.policy_of(backend), observed, now))
                .collect(),
        }
    }
}

impl WorkerDump {
    fn of(load: WorkerLoad) -> Self {
        Self {
            worker: load.worker,
            connections: load.connections,
            loop_lag_ms: millis(load.loop_lag),
            overdue_ms: millis(load.overdue),
            accepting: load.is_accepting,
            steered: load.steered,
        }
    }
}

impl BackendDump {
    fn of(
        backend: &Backend,
        policy: Option<&BackendPolicy>,
        observed: &Observed,
        now: Moment,
    ) -> Self {
        let endpoints = backend.endpoints().iter().map(|endpoint| {
            EndpointDump::of(endpoint, &Figures::read(&observed.tables, endpoint, now))
        });
        let origins = policy.into_iter().flat_map(|policy| &policy.origins);
        Self {
            kind: backend.kind,
            name: backend.name.clone(),
            namespace: backend.namespace.clone(),
            affinity: policy
                .and_then(|policy| policy.affinity.as_ref())
                .map(|affinity| affinity.source().to_owned()),
            policies: origins
                .map(|origin| (origin.part.to_owned(), origin.document.to_string()))
                .collect(),
            endpoints: endpoints.collect(),
        }
    }
}

impl EndpointDump {
    fn of(endpoint: &Endpoint, figures: &Figures) -> Self {
        let leases = figures.leases;
        Self {
            endpoint: endpoint.key.to_string(),
            address: endpoint.address,
            weight: endpoint.weight.share(),
            bucket: endpoint.bucket.0,
            health_score: figures.health,
            latency_ms: figures.latency_seconds.map(|seconds| seconds * 1e3),
            latency_source: figures.latency_source,
            self_delay_ms: figures.self_delay.map(millis),
            pending: leases.pending,
            attempts: Attempts {
                started: leases.picked,
                succeeded: leases.succeeded,
                failed: leases.failed,
                neutral: leases.neutral,
            },
            ejected: figures.is_ejected(),
            check_failing: figures.is_failing_checks,
            ejected_for_ms: figures.ejected_for.map(millis),
            ejections: figures.ejections,
            wire: WireDump::of(&figures.wire),
        }
    }
}

impl WireDump {
    fn of(wire: &EndpointWire) -> Self {
        Self {
            started: wire.started,
            finished: wire.finished,
            first_byte: TimedDump::of(wire.first_byte_ns_sum, wire.first_byte_count),
            connect: TimedDump::of(wire.connect_ns_sum, wire.connect_count),
            opened: wire.opened,
            closed: wire.closed,
            retransmits: wire.retransmits,
            resets: wire.resets,
            bytes_out: wire.bytes_out,
            bytes_in: wire.bytes_in,
        }
    }
}

impl TimedDump {
    fn of(nanos_sum: u64, count: u64) -> Self {
        Self {
            count,
            mean_ms: (count > 0).then(|| nanos_sum as f64 / count as f64 / 1e6),
        }
    }
}

fn millis(length: Duration) -> f64 {
    length.as_secs_f64() * 1e3
}

//! Exports what is known of every endpoint, read from the shared tables.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::Duration;

use super::counter::Label;
use super::observed::{EbpfStatus, Observed};
use super::text::{Kind, Text};
use crate::balance::{Backend, Bucket, EjectionReason, Endpoint, Figures};
use crate::moment::Moment;

pub fn write(text: &mut Text, observed: &Observed, ebpf: &EbpfStatus, now: Moment) {
    let snapshot = observed.serving.snapshot();
    let backends = snapshot.backends();
    let pairs = backends
        .iter()
        .flat_map(|backend| backend.endpoints().iter().map(move |one| (backend, one)));
    // A backend that routes treat differently stands there for each way, with the same endpoints.
    let mut seen = HashSet::new();
    let pairs: Vec<(&Backend, &Endpoint)> = pairs
        .filter(|(backend, endpoint)| {
            seen.insert((&backend.namespace, &backend.name, endpoint.row))
        })
        .collect();
    let mut addresses = HashMap::new();
    for pair in &pairs {
        *addresses.entry(names(*pair)).or_insert(0) += 1;
    }
    let rows: Vec<Row> = pairs
        .iter()
        .map(|&(backend, endpoint)| Row {
            backend,
            endpoint,
            name: match addresses[&names((backend, endpoint))] {
                1 => Cow::Borrowed(&*endpoint.key),
                _ => Cow::Owned(format!("{}@{}", endpoint.key, endpoint.address)),
            },
            figures: Figures::read(&observed.tables, endpoint, now),
        })
        .collect();
    let mut export = Export { text, rows: &rows };
    export.balance();
    if ebpf.active {
        export.wire();
    }
    write_sets(text, &rows);
}

/// A Pod behind two ports of a Service is two endpoints of these names.
fn names<'a>((backend, endpoint): (&'a Backend, &'a Endpoint)) -> [&'a str; 3] {
    [&backend.namespace, &backend.name, &endpoint.key]
}

struct Row<'a> {
    backend: &'a Backend,
    endpoint: &'a Endpoint,
    /// Its key, with its address where that is needed to tell two apart.
    name: Cow<'a, str>,
    figures: Figures,
}

impl Row<'_> {
    fn labels(&self) -> [(&str, &str); 3] {
        [
            ("namespace", &self.backend.namespace),
            ("backend", &self.backend.name),
            ("endpoint", &self.name),
        ]
    }

    fn labels_and<'a>(&'a self, label: &'a str, value: &'a str) -> [(&'a str, &'a str); 4] {
        let [namespace, backend, endpoint] = self.labels();
        [namespace, backend, endpoint, (label, value)]
    }

    /// Drained comes first: the operator's word outlasts an ejection.
    fn state(&self) -> &'static str {
        if self.endpoint.weight.is_drained() {
            "drained"
        } else if self.figures.is_ejected() {
            "ejected"
        } else {
            "active"
        }
    }
}

/// Writes families with a sample for every endpoint.
struct Export<'a> {
    text: &'a mut Text,
    rows: &'a [Row<'a>],
}

impl Export<'_> {
    /// What the balancer decides by, and how attempts ended.
    fn balance(&mut self) {
        self.gauge(
            "weir_endpoint_health",
            "Moving average of outcomes, 0 to 1.",
            |figures| Some(figures.health),
        );
        self.latency();
        self.gauge(
            "weir_endpoint_pending",
            "Attempts picked and not finished.",
            |figures| Some(figures.leases.pending as f64),
        );
        self.counter("weir_endpoint_picks_total", "Attempts begun.", |figures| {
            figures.leases.picked
        });
        self.counters(
            "weir_endpoint_requests_total",
            "Attempts finished, by what they said of the endpoint.",
            "outcome",
            |Figures { leases, .. }| {
                [
                    ("success", leases.succeeded),
                    ("failure", leases.failed),
                    ("neutral", leases.neutral),
                ]
            },
        );
        self.gauge(
            "weir_endpoint_ejected",
            "1 while the endpoint is out of the pool.",
            |figures| Some(f64::from(u8::from(figures.is_ejected()))),
        );
        self.counters(
            "weir_endpoint_ejections_total",
            "Times the endpoint left the pool, by what it was ejected for.",
            "reason",
            |figures| {
                EjectionReason::ALL.map(|reason| (reason.name(), figures.ejections_for.of(reason)))
            },
        );
        self.counters(
            "weir_endpoint_checks_total",
            "Active checks made, by what they came to.",
            "result",
            |Figures { checks, .. }| {
                [
                    ("passed", checks.passed),
                    ("failed", checks.failed),
                    ("not_made", checks.not_made),
                ]
            },
        );
        self.gauge(
            "weir_endpoint_self_delay_seconds",
            "Mean delay the proxy itself adds: the worker's latency less the kernel's.",
            |figures| Some(figures.self_delay?.as_secs_f64()),
        );
    }

    /// What kernel programs counted.
    fn wire(&mut self) {
        self.times(
            "weir_endpoint_first_byte_seconds",
            "Last request byte out to first response byte in, by the kernel.",
            |Figures { wire, .. }| (wire.first_byte_ns_sum, wire.first_byte_count),
        );
        self.times(
            "weir_endpoint_connect_seconds",
            "SYN to SYN-ACK, by the kernel.",
            |Figures { wire, .. }| (wire.connect_ns_sum, wire.connect_count),
        );
        self.counters(
            "weir_endpoint_wire_exchanges_total",
            "Exchanges whose first request byte left, and whose first response byte came.",
            "state",
            |Figures { wire, .. }| [("started", wire.started), ("finished", wire.finished)],
        );
        self.counters(
            "weir_endpoint_wire_connections_total",
            "Connections whose handshake and whose end was seen.",
            "state",
            |Figures { wire, .. }| [("opened", wire.opened), ("closed", wire.closed)],
        );
        self.counter(
            "weir_endpoint_retransmits_total",
            "Segments of payload sent again.",
            |figures| figures.wire.retransmits,
        );
        self.counter(
            "weir_endpoint_resets_total",
            "Resets received.",
            |figures| figures.wire.resets,
        );
        self.counters(
            "weir_endpoint_wire_bytes_total",
            "Payload bytes received (in) and sent (out, retransmits left out).",
            "direction",
            |Figures { wire, .. }| [("in", wire.bytes_in), ("out", wire.bytes_out)],
        );
    }

    fn latency(&mut self) {
        let mut family = self.text.family(
            Kind::Gauge,
            "weir_endpoint_latency_seconds",
            "Moving average of the time to the first byte, by whose clock took the latest sample.",
        );
        for row in self.rows {
            if let Some((seconds, source)) =
                row.figures.latency_seconds.zip(row.figures.latency_source)
            {
                family.sample(&row.labels_and("source", source.name()), seconds);
            }
        }
    }

    /// A figure that may be unknown has no sample then.
    fn gauge(&mut self, name: &'static str, help: &str, read: fn(&Figures) -> Option<f64>) {
        let mut family = self.text.family(Kind::Gauge, name, help);
        for row in self.rows {
            if let Some(value) = read(&row.figures) {
                family.sample(&row.labels(), value);
            }
        }
    }

    fn counter(&mut self, name: &'static str, help: &str, read: fn(&Figures) -> u64) {
        let mut family = self.text.family(Kind::Counter, name, help);
        for row in self.rows {
            family.sample(&row.labels(), read(&row.figures));
        }
    }

    /// Counters that differ in one label.
    fn counters<const COUNT: usize>(
        &mut self,
        name: &'static str,
        help: &str,
        label: &str,
        read: fn(&Figures) -> [(&'static str, u64); COUNT],
    ) {
        let mut family = self.text.family(Kind::Counter, name, help);
        for row in self.rows {
            for (value, count) in read(&row.figures) {
                family.sample(&row.labels_and(label, value), count);
            }
        }
    }

    /// Nanoseconds summed, and how many times were.
    fn times(&mut self, name: &'static str, help: &str, read: fn(&Figures) -> (u64, u64)) {
        let mut family = self.text.family(Kind::Summary, name, help);
        for row in self.rows {
            let (nanos, count) = read(&row.figures);
            let sum = Duration::from_nanos(nanos).as_secs_f64();
            family.sum_and_count(&row.labels(), sum, count);
        }
    }
}

/// How many endpoints of each bucket are in which state.
fn write_sets(text: &mut Text, rows: &[Row<'_>]) {
    const STATES: [&str; 3] = ["active", "ejected", "drained"];
    let mut sets: BTreeMap<(&str, &str, Bucket), [u64; STATES.len()]> = BTreeMap::new();
    for row in rows {
        let set = (
            &*row.backend.namespace,
            &*row.backend.name,
            row.endpoint.bucket,
        );
        let counts = sets.entry(set).or_default();
        for (count, state) in counts.iter_mut().zip(STATES) {
            *count += u64::from(state == row.state());
        }
    }
    let mut family = text.family(
        Kind::Gauge,
        "weir_endpoints",
        "Endpoints, by state and by bucket (0 is used first).",
    );
    for ((namespace, backend, bucket), counts) in sets {
        let bucket = bucket.0.to_string();
        for (state, count) in STATES.iter().zip(counts) {
            family.sample(
                &[
                    ("namespace", namespace),
                    ("backend", backend),
                    ("state", state),
                    ("bucket", &bucket),
                ],
                count,
            );
        }
    }
}

//! The whole exposition of a small proxy: what a scraper finds by name.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir_common::{EndpointWireCells, Table};

use super::*;
use crate::balance::shared::{SharedTables, Sizes};
use crate::balance::{
    Balancer, EndpointRows, LatencySample, LatencySource, Lease, Method, Outcome, Weight, Wire,
};
use crate::snapshot::{Plan, Snapshot, Target};

const START: Moment = Moment::from_nanos(1_000_000_000);

/// Two workers; `10.0.0.1:80` to be picked, `10.0.0.2:80` drained.
fn observed() -> Observed {
    observed_with(|_| {})
}

fn observed_with(adjust: impl FnOnce(&mut Plan)) -> Observed {
    let tables = SharedTables::anonymous(Sizes {
        capacity: 2,
        workers: 2,
        cpus: 2,
        flows: 1,
    });
    let target = |host: u8, weight: Weight| Target::at(([10, 0, 0, host], 80).into(), weight);
    let targets = [target(1, Weight::ONE), target(2, Weight::DRAINED)];
    let mut rows = EndpointRows::new(tables.clone());
    let mut plan = Plan::quick(&[], &targets);
    adjust(&mut plan);
    let snapshot = Snapshot::new(1, plan, &mut rows).expect("rows enough");
    Observed {
        instance: "blue \"one\"".into(),
        started: START,
        serving: Arc::new(Serving::new(Arc::new(snapshot), 0)),
        tables,
        workers: (0..2).map(|_| Arc::default()).collect(),
        access_log: Some(Arc::default()),
        ebpf: Box::new(|| EbpfStatus {
            active: true,
            interfaces: vec![InterfaceStatus {
                name: "eth0".into(),
                hook: Some("tcx".into()),
                error: None,
                second_choice: None,
            }],
            packets: [("measured".to_owned(), 12)].into(),
            ..EbpfStatus::default()
        }),
    }
}

fn pick(observed: &Observed, balancer: &mut Balancer) -> Lease {
    balancer
        .pick(&observed.serving.snapshot().backends()[0], START)
        .expect("one endpoint is active")
}

fn assert_has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(
            text.lines().any(|found| found == *line),
            "no line {line} in:\n{text}"
        );
    }
}

#[test]
fn a_backend_that_is_there_twice_has_every_series_once() {
    let twice = observed_with(|plan| plan.backends.push(plan.backends[0].clone()));
    let now = START + Duration::from_secs(2);
    assert_eq!(render(&twice, now), render(&observed(), now));
}

#[test]
fn a_pod_behind_two_ports_has_series_for_each() {
    let observed = observed_with(|plan| {
        for target in &mut plan.backends[0].targets {
            target.key = "//Pod/default/shop".into();
        }
    });
    let of = |host| format!(r#"backend="default",endpoint="//Pod/default/shop@10.0.0.{host}:80""#);
    let text = render(&observed, START + Duration::from_secs(2));
    for host in [1, 2] {
        let health = format!(
            r#"weir_endpoint_health{{namespace="default",{}}} 1"#,
            of(host)
        );
        assert_has(&text, &[&health]);
    }
}

#[test]
fn counters_of_workers_are_summed() {
    let observed = observed();
    for (worker, requests) in observed.workers.iter().zip([3, 4]) {
        worker.requests.add(requests);
        worker.downstream_active.raise();
        worker.responses.of(ResponseClass::ServerError).increment();
        worker.local_replies.of(LocalCause::NoEndpoint).increment();
        worker.selections.of(Method::P2c).add(2);
    }
    let info = format!(
        r#"weir_info{{version="{}",instance="blue \"one\""}} 1"#,
        Observed::VERSION
    );
    assert_has(
        &render(&observed, START + Duration::from_secs(2)),
        &[
            &info,
            "weir_uptime_seconds 2",
            r#"weir_ebpf_attached{interface="eth0"} 1"#,
            r#"weir_ebpf_hook{interface="eth0",hook="tcx"} 1"#,
            r#"weir_ebpf_packets_total{reason="measured"} 12"#,
            "weir_requests_total 7",
            "weir_downstream_connections 2",
            r#"weir_responses_total{class="5xx"} 2"#,
            r#"weir_responses_total{class="2xx"} 0"#,
            r#"weir_local_replies_total{reason="no-endpoint"} 2"#,
            r#"weir_selections_total{method="p2c"} 4"#,
        ],
    );
}

#[test]
fn an_endpoint_shows_what_the_balancer_and_the_kernel_know_of_it() {
    let mut observed = observed();
    let mut balancers: Vec<Balancer> = (0..2)
        .map(|worker| Balancer::new(observed.tables.clone(), worker, 1))
        .collect();
    let sample = LatencySample {
        length: Duration::from_millis(250),
        source: LatencySource::Kernel,
        self_delay: Duration::from_millis(1),
    };
    let outcomes = [
        Outcome::Success {
            latency: Some(sample),
        },
        Outcome::Failure,
        Outcome::Neutral,
    ];
    for (worker, outcome) in [0, 1, 0].into_iter().zip(outcomes) {
        let lease = pick(&observed, &mut balancers[worker]);
        balancers[worker].finish(lease, outcome, START);
    }
    let _held = pick(&observed, &mut balancers[1]);
    let counted: Table<EndpointWireCells> = Table::anonymous(4);
    observed.tables.wire = Wire::over(counted.clone(), observed.tables.sizes);
    for cpu in 0..2 {
        let row = &counted[cpu * 2];
        row.first_byte_ns_sum.store(250_000_000, Relaxed);
        row.first_byte_count.store(1, Relaxed);
        row.bytes_in.store(40, Relaxed);
    }

    let of = r#"namespace="default",backend="default",endpoint="10.0.0.1:80""#;
    let lines = [
        format!("weir_endpoint_health{{{of}}} 0.7"),
        format!("weir_endpoint_latency_seconds{{{of},source=\"kernel\"}} 0.25"),
        format!("weir_endpoint_pending{{{of}}} 1"),
        format!("weir_endpoint_picks_total{{{of}}} 4"),
        format!("weir_endpoint_requests_total{{{of},outcome=\"success\"}} 1"),
        format!("weir_endpoint_requests_total{{{of},outcome=\"failure\"}} 1"),
        format!("weir_endpoint_requests_total{{{of},outcome=\"neutral\"}} 1"),
        format!("weir_endpoint_ejections_total{{{of},reason=\"health_threshold\"}} 0"),
        format!("weir_endpoint_self_delay_seconds{{{of}}} 0.001"),
        format!("weir_endpoint_first_byte_seconds_sum{{{of}}} 0.5"),
        format!("weir_endpoint_first_byte_seconds_count{{{of}}} 2"),
        format!("weir_endpoint_wire_bytes_total{{{of},direction=\"in\"}} 80"),
    ];
    let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
    assert_has(&render(&observed, START), &lines);
}

#[test]
fn endpoints_are_counted_by_state() {
    let observed = observed();
    let mut balancer = Balancer::new(observed.tables.clone(), 0, 1);
    for _ in 0..5 {
        let lease = pick(&observed, &mut balancer);
        balancer.finish(lease, Outcome::Failure, START);
    }
    let state = |state, count| {
        format!(
            "weir_endpoints{{namespace=\"default\",backend=\"default\",state=\"{state}\",bucket=\"0\"}} {count}"
        )
    };
    let lines = [state("active", 0), state("ejected", 1), state("drained", 1)];
    let lines: Vec<&str> = lines.iter().map(|line| &**line).collect();
    assert_has(&render(&observed, START), &lines);
}

#[test]
fn an_unmeasured_endpoint_has_no_latency_rather_than_zero() {
    let text = render(&observed(), START);
    assert!(!text.contains("\nweir_endpoint_latency_seconds{"), "{text}");
}

#[test]
fn without_kernel_programs_nothing_is_said_of_the_wire() {
    let mut observed = observed();
    observed.ebpf = Box::new(EbpfStatus::default);
    let text = render(&observed, START);
    assert!(text.contains("weir_ebpf_active 0"), "{text}");
    assert!(!text.contains("weir_endpoint_connect_seconds"), "{text}");
}

#[test]
fn every_family_is_announced_once() {
    let text = render(&observed(), START);
    let mut announced = std::collections::HashSet::new();
    for line in text.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            assert!(announced.insert(family), "{family} twice");
        }
    }
    assert!(announced.len() > 30);
}

#[test]
fn what_operators_watch_has_its_name_and_exactly_these_labels() {
    let observed = observed();
    let mut balancer = Balancer::new(observed.tables.clone(), 0, 1);
    let lease = pick(&observed, &mut balancer);
    let sample = LatencySample {
        length: Duration::from_millis(5),
        source: LatencySource::Worker,
        self_delay: Duration::ZERO,
    };
    let latency = Some(sample);
    balancer.finish(lease, Outcome::Success { latency }, START);
    let text = render(&observed, START);
    let of_endpoint = ["namespace", "backend", "endpoint"];
    for (name, labels) in [
        ("weir_endpoint_health", &of_endpoint[..]),
        (
            "weir_endpoint_latency_seconds",
            &["namespace", "backend", "endpoint", "source"],
        ),
        ("weir_endpoint_pending", &of_endpoint),
        (
            "weir_endpoint_requests_total",
            &["namespace", "backend", "endpoint", "outcome"],
        ),
        (
            "weir_endpoint_ejections_total",
            &["namespace", "backend", "endpoint", "reason"],
        ),
        (
            "weir_endpoints",
            &["namespace", "backend", "state", "bucket"],
        ),
        ("weir_selections_total", &["method"]),
        ("weir_affinity_total", &["result"]),
        ("weir_no_endpoint_total", &[]),
    ] {
        let samples = text.lines().filter_map(|line| line.strip_prefix(name));
        let samples: Vec<&str> = samples
            .filter(|rest| rest.starts_with(['{', ' ']))
            .collect();
        assert!(!samples.is_empty(), "no {name} in:\n{text}");
        for sample in samples {
            let found = sample.split("=\"").map(|part| {
                let start = part.rfind(['{', ',']).map_or(0, |at| at + 1);
                &part[start..]
            });
            let count = sample.matches("=\"").count();
            let found: Vec<&str> = found.take(count).collect();
            assert_eq!(found, labels, "{name}{sample}");
        }
    }
}

#[test]
fn turns_of_all_workers_are_one_histogram() {
    let observed = observed();
    for (worker, micros) in observed.workers.iter().zip([50, 2_000]) {
        worker.turns.add(Duration::from_micros(micros));
    }
    observed.workers[1].unpinned.set(1);
    observed.serving.set_unnoticed(2);
    assert_has(
        &render(&observed, START),
        &[
            r#"weir_worker_turn_seconds_bucket{le="0.000064"} 1"#,
            r#"weir_worker_turn_seconds_bucket{le="0.004"} 2"#,
            r#"weir_worker_turn_seconds_bucket{le="+Inf"} 2"#,
            "weir_worker_turn_seconds_sum 0.00205",
            "weir_worker_turn_seconds_count 2",
            "weir_workers_unpinned 1",
            "weir_config_unwatched_directories 2",
        ],
    );
}

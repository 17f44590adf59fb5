//! A configuration of 10,000 endpoints: how long it takes to check, to serve, and to serve one that differs in a tenth
//! of them, and how much memory snapshots of it need.

use std::fmt::Write;
use std::time::Instant;

use weir::balance::EndpointRows;
use weir::balance::shared::{SharedTables, Sizes};
use weir::config::{Source, check};
use weir::snapshot::{Lineage, Plan};

const ENDPOINTS: usize = 10_000;
const IN_A_SLICE: usize = 100;
const ROUNDS: usize = 7;

pub fn report() {
    println!(
        "\n{:<56} {:>9} {:>9} {:>9}",
        "ms for 10,000 endpoints in 100 slices", "best", "middle", "worst"
    );
    let (first, next) = (documents(0), documents(ENDPOINTS / 10));
    print("check", times(|| drop(plan(&first))));

    let before = resident_kib();
    let capacity = 2 * ENDPOINTS;
    let tables = SharedTables::anonymous(Sizes {
        capacity,
        workers: 2,
        cpus: 2,
        flows: 1,
    });
    let mut lineage = Lineage::begin(plan(&first), EndpointRows::new(tables))
        .unwrap_or_else(|error| panic!("{error}"));
    let served = resident_kib();
    let mut is_first = true;
    let reloads = times(|| {
        is_first = !is_first;
        let plan = plan(if is_first { &first } else { &next });
        let draft = lineage
            .draft(plan)
            .unwrap_or_else(|error| panic!("{error}"));
        let revision = lineage.adopt(draft).revision;
        lineage.let_go(revision);
    });
    print("reload, a tenth of them replaced", reloads);
    println!(
        "\nresident: {} KiB with the first snapshot, {} KiB more after {ROUNDS} reloads",
        served.saturating_sub(before),
        resident_kib().saturating_sub(served)
    );
}

fn plan(documents: &Source) -> Plan {
    let checked = check(std::slice::from_ref(documents), None);
    checked
        .plan
        .unwrap_or_else(|| panic!("{:?}", checked.problems.first()))
}

/// One listener, one rule, one Service, and endpoints at addresses that begin with the one of this number.
fn documents(begin: usize) -> Source {
    let mut text = "apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: web}
spec:
  listeners: [{name: http, port: 8080, protocol: HTTP}]
---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: shop}
spec:
  parentRefs: [{name: web}]
  rules:
  - backendRefs: [{name: shop, port: 80}]
---
apiVersion: v1
kind: Service
metadata: {name: shop}
spec: {ports: [{port: 80}]}
"
    .to_owned();
    let addresses: Vec<usize> = (begin..begin + ENDPOINTS).collect();
    for (slice, addresses) in addresses.chunks(IN_A_SLICE).enumerate() {
        let _ = write!(
            text,
            "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: shop-{slice}, labels: {{kubernetes.io/service-name: shop}}}}
addressType: IPv4
ports: [{{port: 80}}]
endpoints:
"
        );
        for address in addresses {
            let (upper, lower) = (address / 250, 1 + address % 250);
            let _ = writeln!(
                text,
                "- {{addresses: [10.1.{upper}.{lower}], conditions: {{ready: true}}, \
                 targetRef: {{kind: Pod, name: shop-{address}, namespace: default}}}}"
            );
        }
    }
    Source {
        name: "shop.yaml".to_owned(),
        text,
    }
}

/// Milliseconds of every round.
fn times(mut work: impl FnMut()) -> Vec<f64> {
    let mut round = || {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64() * 1e3
    };
    (0..ROUNDS).map(|_| round()).collect()
}

fn print(name: &str, mut rounds: Vec<f64>) {
    rounds.sort_by(f64::total_cmp);
    let (best, middle, worst) = (rounds[0], rounds[ROUNDS / 2], rounds[ROUNDS - 1]);
    println!("{name:<56} {best:>9.1} {middle:>9.1} {worst:>9.1}");
}

fn resident_kib() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

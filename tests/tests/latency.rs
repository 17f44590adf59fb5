//! The latency of an endpoint is the endpoint's own: not the upload, not the body, not the proxy. Held against what the
//! endpoints themselves clocked between the last byte of a request and the first of its response.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_tests::endpoint::Endpoint;
use weir_tests::endpoint::scripts::{script, trickle_after};
use weir_tests::pattern;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::EndpointDump;

const NEEDS: &[Need] = &[Need::Root];

/// The endpoints' delays.
const DELAYS: [Duration; 4] = [
    Duration::from_millis(5),
    Duration::from_millis(30),
    Duration::from_millis(60),
    Duration::from_millis(100),
];

/// One scenario at a time: beside another one the endpoints would wait for a processor.
static QUIET: Mutex<()> = Mutex::new(());

#[test]
fn the_kernel_measures_every_endpoint_within_ten_percent() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let _quiet = QUIET.lock();
    let scenario = Scenario::start(scripts(), |star, options| {
        options.measured_on(star.interfaces())
    })?;
    ask(&scenario, Duration::from_secs(4))?;
    let dump = scenario.dump()?;
    for (known, endpoint) in dump.iter().zip(&scenario.endpoints) {
        assert_eq!(known.latency_source.as_deref(), Some("kernel"));
        let measured = known.wire.first_byte.mean_ms.expect("was asked often");
        assert_is_near(measured, endpoint, "mean on the wire");
        let average = known.latency_ms.expect("was asked often");
        assert_is_near(average, endpoint, "average the balancer uses");
    }
    assert_is_monotone(&dump);
    Ok(())
}

#[test]
fn without_the_kernel_the_worker_measures_and_says_so() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let _quiet = QUIET.lock();
    let scenario = Scenario::plain(scripts())?;
    ask(&scenario, Duration::from_secs(3))?;
    let dump = scenario.dump()?;
    for known in &dump {
        assert_eq!(known.latency_source.as_deref(), Some("worker"));
        assert_eq!(known.wire.first_byte.count, 0);
    }
    for row in scenario.weir.rows()? {
        assert_eq!(row.latency_source.as_deref(), Some("worker"));
    }
    assert_is_monotone(&dump);
    Ok(())
}

/// Endpoints whose response trickles if the path asks for it, after their delay.
fn scripts() -> Vec<weir_tests::endpoint::Script> {
    DELAYS
        .into_iter()
        .map(|delay| {
            script(move |exchange| match exchange.head.target() {
                "/trickle" => trickle_after(exchange, delay, 10, Duration::from_millis(3)),
                _ => {
                    exchange.wait(delay)?;
                    exchange.respond(200, b"whole")
                }
            })
        })
        .collect()
}

/// Sends small requests, requests of 200 KB and requests for trickled responses, on eight connections.
fn ask(scenario: &Scenario, length: Duration) -> Result<()> {
    let end = Instant::now() + length;
    let upload = pattern::at(0, 200_000);
    let requests: [(&str, &str, &[u8]); 4] = [
        ("GET", "/", b""),
        ("POST", "/", upload),
        ("GET", "/", b""),
        ("GET", "/trickle", b""),
    ];
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|number| {
                scope.spawn(move || -> Result<()> {
                    let mut client = scenario.client()?;
                    let mut turns = requests.iter().cycle().skip(number % requests.len());
                    while Instant::now() < end {
                        let (method, path, body) = turns.next().expect("cycles");
                        let answer = client.request(method, path, "", body)?;
                        anyhow::ensure!(answer.status() == 200, "status {}", answer.status());
                    }
                    Ok(())
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("no panic"))
    })
}

fn assert_is_near(measured_ms: f64, endpoint: &Endpoint, what: &str) {
    let truth = endpoint.seen().first_byte().expect("was asked often");
    let truth = truth.as_secs_f64() * 1000.0;
    assert!(
        (measured_ms / truth - 1.0).abs() < 0.1,
        "{what}: {measured_ms:.2} ms, the endpoint itself clocked {truth:.2} ms"
    );
}

fn assert_is_monotone(dump: &[EndpointDump]) {
    let latencies: Vec<f64> = dump.iter().filter_map(|known| known.latency_ms).collect();
    assert_eq!(latencies.len(), DELAYS.len());
    assert!(
        latencies.is_sorted_by(|left, right| left < right),
        "{latencies:?}"
    );
}

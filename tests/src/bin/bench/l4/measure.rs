//! One round, and what it took.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use weir_tests::load::Edge;
use weir_tests::load::dialing::Dialing;
use weir_tests::stream;

use super::contender::Running;
use super::hosts::{CORE, Hosts, PORT};
use crate::usage::run_time;

#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub at_once: usize,
    pub warm_up: Duration,
    pub length: Duration,
    pub most: u64,
}

/// What came of connections. Microseconds are of run time, per connection, but for the latency.
#[derive(Clone, Debug)]
pub struct Connections {
    pub complete: u64,
    pub failed: u64,
    /// Why the first of those failed.
    pub failures: Vec<String>,
    pub wrong: u64,
    pub per_second: f64,
    /// Client, endpoints, contender, and the kernel for them.
    pub all_us: f64,
    pub process_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Bulk {
    pub gigabits: f64,
    /// Run time of all.
    pub ns_per_kib: f64,
}

pub fn connections(hosts: &Hosts, running: &Running, plan: &Plan) -> Result<Connections> {
    let dialing = Dialing {
        target: SocketAddr::new(running.target, PORT),
        at_once: plan.at_once,
        warm_up: plan.warm_up,
        length: plan.length,
        most: plan.most,
    };
    let (mut before, mut after) = (None, None);
    let dialed = hosts.client().run(|| {
        dialing.run(|edge| match edge {
            Edge::Start => before = Some(Times::now(running)),
            Edge::End => after = Some(Times::now(running)),
        })
    })?;
    let before = before.context("recording began")??;
    let after = after.context("recording ended")??;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / dialed.complete.max(1) as f64;
    let quantile = |quantile| dialed.latency.value_at_quantile(quantile) as f64 / 1e3;
    let per_second = dialed.per_second();
    let all_us = each(after.all - before.all);
    let process_us = each(after.process - before.process);
    let (p50_us, p99_us) = (quantile(0.5), quantile(0.99));
    Ok(Connections {
        complete: dialed.complete,
        failed: dialed.failed,
        failures: dialed.failures,
        wrong: dialed.wrong,
        per_second,
        all_us,
        process_us,
        p50_us,
        p99_us,
    })
}

pub fn bulk(hosts: &Hosts, running: &Running, length: Duration) -> Result<Bulk> {
    let mut stream = stream::connect(&hosts.client(), SocketAddr::new(running.target, PORT + 1))?;
    let received = || hosts.sinks.served().bytes.load(Ordering::Relaxed);
    let block = vec![0; 256 * 1024];
    hosts.client().run(|| {
        let mut send_for = |length: Duration| -> Result<()> {
            let start = Instant::now();
            while start.elapsed() < length {
                stream.write_all(&block)?;
            }
            Ok(())
        };
        send_for(Duration::from_millis(300))?;
        let (start, bytes, before) = (Instant::now(), received(), Times::now(running)?);
        send_for(length)?;
        let (elapsed, bytes, after) = (start.elapsed(), received() - bytes, Times::now(running)?);
        let used = after.all - before.all;
        Ok(Bulk {
            gigabits: bytes as f64 * 8.0 / 1e9 / elapsed.as_secs_f64(),
            ns_per_kib: used.as_secs_f64() * 1e9 / (bytes as f64 / 1024.0),
        })
    })
}

/// Run times since whenever.
struct Times {
    all: Duration,
    process: Duration,
}

impl Times {
    fn now(running: &Running) -> Result<Self> {
        let process = running.process.map_or(Ok(Duration::ZERO), run_time)?;
        let ours = run_time(std::process::id())?;
        Ok(Self {
            all: ours + process + run_time(packets_thread()?)?,
            process,
        })
    }
}

/// The kernel's thread that does for the core what interrupts left.
fn packets_thread() -> Result<u32> {
    let name = format!("ksoftirqd/{CORE}");
    let is_it = |process: &u32| {
        let named = std::fs::read_to_string(format!("/proc/{process}/comm"));
        named.is_ok_and(|named| named.trim_end() == name)
    };
    // It was started early.
    (1..1000).find(is_it).with_context(|| format!("no {name}"))
}

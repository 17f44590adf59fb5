//! A worker of two that is held up again and again, and who gets the connections that come meanwhile.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::client::Client;
use crate::endpoint::Script;
use crate::endpoint::scripts::answers_after;
use crate::process::Place;
use crate::scenario::Scenario;
use crate::stall::{Stall, Stalls};
use crate::weir::Ebpf;

/// How long a worker is held up, of twice this time.
const STALL: Duration = Duration::from_millis(200);
/// Connections that come this shortly before a stall ends are not judged: they may be late for other reasons.
const MARGIN: Duration = Duration::from_millis(60);
const BETWEEN_CONNECTIONS: Duration = Duration::from_millis(2);

/// Connections that came while the worker was held up.
#[derive(Clone, Copy, Debug)]
pub struct Came {
    pub all: usize,
    /// Those that had to wait for it.
    pub waited: usize,
}

impl Came {
    pub fn share(self) -> f64 {
        self.waited as f64 / self.all as f64
    }
}

pub fn quick() -> Vec<Script> {
    vec![answers_after(Duration::ZERO)]
}

/// Two workers before an endpoint that answers at once; with kernel programs the connections are steered.
pub fn two_workers(ebpf: Ebpf, binary: Option<PathBuf>) -> Result<Scenario> {
    Scenario::start(quick(), |star, mut options| {
        options.binary = binary;
        if ebpf == Ebpf::Required {
            let interfaces = star.endpoints.iter().map(|peer| peer.interface.as_str());
            options = options.measured_on(interfaces);
        }
        options.workers = 2;
        options
    })
}

/// Opens a connection every few milliseconds, come what may, and returns when each began and was answered.
fn open_many(place: &Place, target: SocketAddr, count: usize) -> Result<Vec<(Instant, Instant)>> {
    place.run(|| {
        let begin = Instant::now();
        let connections: Vec<_> = (0..count)
            .map(|number| {
                let due = begin + BETWEEN_CONNECTIONS * number as u32;
                thread::sleep(due.saturating_duration_since(Instant::now()));
                thread::spawn(move || -> Result<_> {
                    let opened = Instant::now();
                    let mut client = Client::connect_here(target)?;
                    let answer = client.request("GET", "/", "connection: close\r\n", b"")?;
                    ensure!(answer.status() == 200, "status {}", answer.status());
                    Ok((opened, Instant::now()))
                })
            })
            .collect();
        let done = connections.into_iter();
        done.map(|connection| connection.join().expect("no panic"))
            .collect()
    })
}

fn judged(connections: &[(Instant, Instant)], stalls: &[Stall]) -> Came {
    let mut judged = Came { all: 0, waited: 0 };
    for stall in stalls {
        let during = stall.from..stall.to - MARGIN;
        for (_, answered) in connections
            .iter()
            .filter(|(opened, _)| during.contains(opened))
        {
            judged.all += 1;
            judged.waited += usize::from(*answered >= stall.to);
        }
    }
    judged
}

/// Holds up the first worker half of the time, while new connections come.
pub fn hold_up(scenario: &Scenario) -> Result<Came> {
    let process = scenario.weir.process.id();
    let place = scenario.star.client.namespace.place();
    let stalls = Stalls::begin(process, "weir-worker-0", STALL, STALL)?;
    let connections = open_many(&place, scenario.weir.listen, 2_000)?;
    let came = judged(&connections, &stalls.finish()?);
    ensure!(came.all > 400, "only {came:?} during stalls");
    Ok(came)
}

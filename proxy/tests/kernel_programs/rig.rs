//! The programs and their tables, loaded for one test, with packets instead of interfaces.

use std::io::Write;
use std::net::SocketAddr;

use weir::balance::shared::{SharedTables, Sizes};
use weir::runtime::dataplane::{
    Dataplane, DataplaneError, DataplaneOptions, Direction, EbpfMode, Flows, XdpOptions,
    possible_cpus,
};
use weir::seam::{FlowSlot, Peer};
use weir_common::{EndpointWire, FlowSample, Reason};

use crate::packet::{ACK, Packet};

/// The endpoint of the tests, and the generation it has.
pub const ENDPOINT: u32 = 2;
pub const GENERATION: u64 = 9;

/// Addresses of the proxy and of the endpoint.
#[derive(Clone, Copy)]
pub struct Ends {
    pub proxy: SocketAddr,
    pub endpoint: SocketAddr,
}

impl Ends {
    pub fn v4() -> Self {
        Self::of("10.9.0.1:40000", "10.9.0.2:8080")
    }

    pub fn v6() -> Self {
        Self::of("[2001:db8::1]:40000", "[2001:db8::2]:8080")
    }

    pub fn of(proxy: &str, endpoint: &str) -> Self {
        Self {
            proxy: proxy.parse().expect("an address"),
            endpoint: endpoint.parse().expect("an address"),
        }
    }

    pub fn peer(self) -> Peer {
        Peer {
            address: self.endpoint,
            endpoint: ENDPOINT,
            generation: GENERATION,
        }
    }

    /// From the proxy to the endpoint.
    pub fn out(self, flags: u8) -> Packet {
        Packet::new(self.proxy, self.endpoint, flags)
    }

    /// From the endpoint to the proxy.
    pub fn back(self, flags: u8) -> Packet {
        Packet::new(self.endpoint, self.proxy, flags)
    }

    pub fn request(self) -> Packet {
        self.out(ACK).payload(100)
    }

    pub fn response(self) -> Packet {
        self.back(ACK).sequence(5000).payload(200)
    }
}

pub struct Rig {
    pub dataplane: Dataplane,
    pub flows: Flows,
    pub tables: SharedTables,
}

impl Rig {
    /// None where kernel programs cannot run, which is said and counted; under `CI=true` that is a failure.
    pub fn new() -> Option<Self> {
        Self::with_flows(16)
    }

    pub fn with_flows(flows: usize) -> Option<Self> {
        Self::with_connections(flows, XdpOptions::default().connections)
    }

    /// With room for so many ends of connections of L4 services.
    pub fn with_connections(flows: usize, connections: u32) -> Option<Self> {
        let mut options = options(EbpfMode::Required, flows, Vec::new());
        options.xdp.connections = connections;
        Self::of(options)
    }

    pub fn with_workers(workers: usize) -> Option<Self> {
        let mut options = options(EbpfMode::Required, 16, Vec::new());
        options.sizes.workers = workers;
        Self::of(options)
    }

    pub fn open(flows: usize, interfaces: Vec<String>) -> Option<Self> {
        Self::of(options(EbpfMode::Required, flows, interfaces))
    }

    fn of(options: DataplaneOptions) -> Option<Self> {
        let dataplane = match Dataplane::open(options) {
            Ok(dataplane) => dataplane,
            Err(DataplaneError::Unavailable(cause)) => {
                skip(&format!("kernel programs, but {cause}"));
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        let tables = dataplane.tables();
        tables.state[ENDPOINT as usize]
            .generation
            .store(GENERATION, std::sync::atomic::Ordering::Relaxed);
        Some(Self {
            flows: dataplane.flows(),
            tables,
            dataplane,
        })
    }

    pub fn register(&mut self, ends: Ends) -> FlowSlot {
        let slot = self.flows.register(ends.proxy, ends.peer());
        slot.expect("there is room")
    }

    pub fn send(&mut self, packet: Packet) {
        self.run(Direction::Egress, &packet);
    }

    pub fn receive(&mut self, packet: Packet) {
        self.run(Direction::Ingress, &packet);
    }

    fn run(&mut self, direction: Direction, packet: &Packet) {
        let (bytes, segments) = (packet.bytes(), packet.segments());
        let run = self.dataplane.run_on(direction, &bytes, segments, 1);
        run.expect("the program runs");
    }

    pub fn wire(&self) -> EndpointWire {
        self.tables.wire.total(ENDPOINT)
    }

    pub fn sample(&self, slot: FlowSlot) -> FlowSample {
        self.tables.samples[slot.0 as usize].read()
    }

    pub fn reason(&self, wanted: Reason) -> u64 {
        let reasons = self.dataplane.reasons();
        let found = reasons.iter().find(|(reason, _)| *reason == wanted);
        found.expect("every reason is listed").1
    }

    /// Reasons that have been counted since, and how often.
    pub fn news(&self, since: &[(Reason, u64)]) -> Vec<(Reason, u64)> {
        let now = self.dataplane.reasons().into_iter();
        let risen = now
            .zip(since)
            .map(|((reason, now), (_, then))| (reason, now - then));
        risen.filter(|(_, times)| *times > 0).collect()
    }
}

pub fn options(mode: EbpfMode, flows: usize, interfaces: Vec<String>) -> DataplaneOptions {
    DataplaneOptions {
        mode,
        interfaces,
        destinations: Vec::new(),
        sizes: Sizes {
            capacity: 8,
            workers: 1,
            cpus: possible_cpus(),
            flows,
        },
        instance: "test".to_owned(),
        xdp: XdpOptions::default(),
        bpffs: None,
        lock: None,
    }
}

/// Says what a test needs and did not find, to the person and to `cargo xtask test`.
pub fn skip(needs: &str) {
    let name = std::thread::current().name().unwrap_or("a test").to_owned();
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "{name} needs {needs}"
    );
    println!("skipped: needs {needs}");
    if let Some(list) = std::env::var_os("WEIR_TEST_SKIPS") {
        let mut options = std::fs::OpenOptions::new();
        let list = options.create(true).append(true).open(list);
        let written = list.and_then(|mut list| writeln!(list, "{name} needs {needs}"));
        written.expect("the list of skipped tests can be written");
    }
}

/// Nanoseconds of the clock the programs stamp with.
pub fn now_ns() -> u64 {
    weir::runtime::clock::now().as_nanos()
}

//! What one packet costs in the kernel programs. `cargo bench -p weir --bench kernel_programs` prints nanoseconds per
//! packet, the best and the middle of several rounds, and what the verifier walked to accept the programs. The first
//! figure is mostly the test run's own; a request is new once and from then on sent again.

use std::time::Duration;

use weir::balance::shared::Sizes;
use weir::runtime::dataplane::{
    Dataplane, DataplaneOptions, Direction, EbpfMode, XdpOptions, possible_cpus,
};
use weir::seam::Peer;

use packet::{ACK, Packet};

#[path = "../tests/kernel_programs/packet.rs"]
#[expect(dead_code, reason = "packets of tests have more features")]
mod packet;

const ROUNDS: usize = 9;
const PACKETS_PER_ROUND: u32 = 300_000;

fn main() {
    let dataplane = Dataplane::open(DataplaneOptions {
        mode: EbpfMode::Required,
        interfaces: Vec::new(),
        destinations: Vec::new(),
        sizes: Sizes {
            capacity: 64,
            workers: 1,
            cpus: possible_cpus(),
            flows: 1024,
        },
        instance: "bench".to_owned(),
        xdp: XdpOptions::default(),
        bpffs: None,
    });
    let dataplane = match dataplane {
        Ok(dataplane) => dataplane,
        Err(error) => return println!("skipped: {error}"),
    };
    for direction in [Direction::Egress, Direction::Ingress] {
        match dataplane.verified_instructions(direction) {
            Ok(count) => println!("{direction:?}: the verifier walked {count} instructions"),
            Err(error) => println!("{direction:?}: {error}"),
        }
    }

    let mut flows = dataplane.flows();
    let mut ends = |proxy: &str, endpoint: &str| {
        let address = endpoint.parse().expect("an address");
        let proxy = proxy.parse().expect("an address");
        let peer = Peer {
            address,
            endpoint: 0,
            generation: 0,
        };
        flows.register(proxy, peer).expect("there is room");
        (proxy, address)
    };
    let (proxy, endpoint) = ends("10.9.0.1:40000", "10.9.0.2:8080");
    let (proxy6, endpoint6) = ends("[2001:db8::1]:40000", "[2001:db8::2]:8080");
    let other = "10.9.0.1:40001".parse().expect("an address");

    let mut udp = Packet::new(proxy, endpoint, ACK).bytes();
    udp[23] = 17;
    let request = Packet::new(proxy, endpoint, ACK).payload(100);
    let unregistered = Packet::new(other, endpoint, ACK).payload(100);
    let acknowledgment = Packet::new(endpoint, proxy, ACK);
    let response = Packet::new(endpoint, proxy, ACK).payload(200);
    let response6 = Packet::new(endpoint6, proxy6, ACK).payload(200);
    let cases = [
        ("not TCP", Direction::Egress, udp),
        ("not registered", Direction::Egress, unregistered.bytes()),
        ("request", Direction::Egress, request.bytes()),
        ("acknowledgment", Direction::Ingress, acknowledgment.bytes()),
        ("response", Direction::Ingress, response.bytes()),
        ("response, IPv6", Direction::Ingress, response6.bytes()),
    ];
    for (name, direction, frame) in cases {
        let mut rounds: Vec<Duration> = (0..ROUNDS)
            .map(|_| dataplane.run_on(direction, &frame, PACKETS_PER_ROUND))
            .map(|round| round.expect("the program runs"))
            .collect();
        rounds.sort();
        let (best, middle) = (rounds[0].as_nanos(), rounds[ROUNDS / 2].as_nanos());
        println!("{name:16} {best:4} {middle:4} ns");
    }
}

//! L4 services: packets to a VIP, their answers, and everything that only looks like them.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use weir::snapshot::Transport;
use weir_common::Reason;

use crate::namespace::ip;
use crate::packet::{ACK, FIN, Packet, RST, SYN};
use crate::rig::Rig;
use crate::sealed::{checksum_at, datagram, ends, hops, is_sealed, payload, sealed};
use crate::world::{World, at, on_a_router, rig};

const DROP: u32 = 1;
const PASS: u32 = 2;
pub const REDIRECT: u32 = 4;

/// Ports the program gives to connections, unless it is told others.
const PORTS: std::ops::Range<u16> = 10_240..32_768;

pub fn show(rig: &Rig, frame: &[u8]) -> (u32, Vec<u8>) {
    let run = rig.dataplane.run_xdp(frame, 1).expect("the program runs");
    (run.action, run.frame)
}

/// Sends a frame that is forwarded, and checks what every forwarded frame has.
pub fn forwarded(rig: &Rig, frame: &[u8]) -> Vec<u8> {
    let (action, after) = show(rig, frame);
    assert_eq!(action, REDIRECT, "{:?}", rig.dataplane.reasons());
    assert_eq!(after.len(), frame.len());
    assert!(is_sealed(&after), "{after:x?}");
    assert_eq!(hops(&after), hops(frame) - 1);
    assert_eq!(payload(&after), payload(frame));
    after
}

/// Sends a frame the host is to have as it came.
pub fn passed(rig: &Rig, frame: &[u8]) {
    assert_eq!(show(rig, frame), (PASS, frame.to_vec()));
}

#[test]
fn a_connection_goes_to_an_endpoint_and_back_under_a_port_of_ours() {
    on_a_router(|| {
        for world in World::both() {
            let Some(rig) = world.with_one_endpoint() else {
                return;
            };
            let syn = forwarded(&rig, &sealed(world.to_vip(SYN).tcp_options(12).bytes()));
            let (ours, endpoint) = ends(&syn);
            assert_eq!((ours.ip(), endpoint), (world.ours, world.endpoints[0]));
            assert!(PORTS.contains(&ours.port()), "{ours}");
            assert_eq!(syn[..6], [2, 0, 0, 0, 9, 2], "the endpoint's link address");

            let answer = Packet::new(endpoint, ours, SYN | ACK).bytes();
            let answer = forwarded(&rig, &sealed(answer));
            assert_eq!(ends(&answer), (world.vip, world.client));
            assert_eq!(answer[..6], [2, 0, 0, 0, 8, 2], "the client's link address");

            let data = world.to_vip(ACK).payload(101).bytes();
            assert_eq!(ends(&forwarded(&rig, &sealed(data))), (ours, endpoint));
            let data = Packet::new(endpoint, ours, ACK).payload(999).bytes();
            assert_eq!(
                ends(&forwarded(&rig, &sealed(data))),
                (world.vip, world.client)
            );
            assert_eq!(rig.reason(Reason::Opened), 1);
            assert_eq!(rig.reason(Reason::Forwarded), 3);
            let score = rig.tables.score[0].read();
            assert_eq!((score.opened, score.closed, score.accepted), (1, 0, 1));
        }
    });
}

#[test]
fn what_stands_goes_on_when_the_last_service_is_gone() {
    on_a_router(|| {
        for world in World::both() {
            let Some(rig) = rig() else { return };
            let syn = sealed(world.to_vip(SYN).bytes());
            passed(&rig, &syn);
            let service = world.service(Transport::Tcp, &[0]);
            rig.dataplane.serve(&[service]).expect("there is room");
            let (ours, endpoint) = ends(&forwarded(&rig, &syn));
            rig.dataplane.serve(&[]).expect("there is room");
            forwarded(&rig, &sealed(world.to_vip(ACK).bytes()));
            forwarded(
                &rig,
                &sealed(Packet::new(endpoint, ours, SYN | ACK).bytes()),
            );
            let mut late = world;
            late.client.set_port(40_001);
            passed(&rig, &sealed(late.to_vip(SYN).bytes()));
        }
    });
}

#[test]
fn ip_options_are_no_hindrance() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        for options in [4, 20, 40] {
            let packet = world.to_vip(SYN).ip_options(options);
            let after = forwarded(&rig, &sealed(packet.bytes()));
            assert_eq!(ends(&after).1, world.endpoints[0]);
        }
    });
}

#[test]
fn datagrams_are_forwarded_and_one_without_a_checksum_stays_so() {
    on_a_router(|| {
        for world in World::both() {
            let Some(rig) = world.with_one_endpoint() else {
                return;
            };
            let first = forwarded(&rig, &sealed(datagram(world.client, world.vip, 33)));
            let (ours, endpoint) = ends(&first);
            assert_eq!((ours.ip(), endpoint), (world.ours, world.endpoints[0]));
            let back = forwarded(&rig, &sealed(datagram(endpoint, ours, 0)));
            assert_eq!(ends(&back), (world.vip, world.client));
            // Every length, so that sums come out as anything.
            for length in 0..600 {
                forwarded(&rig, &sealed(datagram(world.client, world.vip, length)));
            }
            let mut bare = sealed(datagram(world.client, world.vip, 33));
            let at = checksum_at(&bare);
            bare[at..at + 2].fill(0);
            let (action, after) = show(&rig, &bare);
            assert_eq!((action, &after[at..at + 2]), (REDIRECT, &[0, 0][..]));
            assert_eq!(rig.reason(Reason::Opened), 1);
        }
    });
}

#[test]
fn packets_to_a_vip_that_make_no_sense_are_dropped_and_others_are_the_hosts() {
    on_a_router(|| {
        for world in World::both() {
            let Some(rig) = world.with_one_endpoint() else {
                return;
            };
            let whole = world.to_vip(SYN).bytes();
            let (network, transport) = if world.vip.is_ipv4() {
                (20, 20)
            } else {
                (40, 20)
            };
            let mut malformed = Vec::new();
            for length in 14 + network..14 + network + transport {
                malformed.push(whole[..length].to_vec());
            }
            for flags in [SYN | FIN, SYN | RST, 0] {
                malformed.push(world.to_vip(flags).bytes());
            }
            let mut short_header = whole.clone();
            short_header[14 + network + 12] = 0x40;
            malformed.push(short_header);
            let mut long_datagram = datagram(world.client, world.vip, 10);
            long_datagram[14 + network + 5] = 200;
            malformed.push(long_datagram);
            for frame in &malformed {
                let (action, after) = show(&rig, frame);
                assert_eq!((action, &after), (DROP, frame));
            }
            assert_eq!(rig.reason(Reason::Malformed), malformed.len() as u64);

            // To an address that is no VIP they are none of ours.
            let other = SocketAddr::new(world.ours, 80);
            passed(&rig, &Packet::new(world.client, other, SYN | FIN).bytes());
            // Neither is a port nobody is served at, nor a fragment, nor a packet at its last hop.
            let closed = SocketAddr::new(world.vip.ip(), 81);
            passed(&rig, &Packet::new(world.client, closed, SYN).bytes());
            passed(&rig, &world.to_vip(SYN).fragment(0x2000).bytes());
            let mut last = sealed(whole.clone());
            last[if world.vip.is_ipv4() { 22 } else { 21 }] = 1;
            passed(&rig, &last);
            assert_eq!(rig.reason(Reason::Fragment), 1);
            // Nor a segment of a connection nobody knows.
            passed(&rig, &sealed(world.to_vip(ACK).bytes()));
            assert_eq!(rig.reason(Reason::NoConnection), 1);
            assert_eq!(rig.reason(Reason::Opened), 0);
        }
    });
}

#[test]
fn extension_headers_are_not_walked() {
    on_a_router(|| {
        let world = World::v6();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        passed(&rig, &world.to_vip(SYN).extension_header().bytes());
    });
}

#[test]
fn without_a_way_or_an_endpoint_the_host_gets_the_packet() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        assert!(ip("neigh del 10.9.0.2 dev endpoint"));
        let syn = sealed(world.to_vip(SYN).bytes());
        passed(&rig, &syn);
        assert_eq!(rig.reason(Reason::NoNeighbour), 1);
        std::fs::write("/proc/sys/net/ipv4/conf/lo/forwarding", "0").expect("our own");
        passed(&rig, &syn);
        assert_eq!(rig.reason(Reason::NotForwarding), 1);
        let nobody = world.service(Transport::Tcp, &[]);
        rig.dataplane.serve(&[nobody]).expect("there is room");
        passed(&rig, &syn);
        assert_eq!(rig.reason(Reason::NoEndpoint), 1);
        assert_eq!(rig.tables.score[0].read().opened, 0);
    });
}

#[test]
fn a_connection_stays_with_an_endpoint_that_is_removed_and_new_ones_go_elsewhere() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        let standing = ends(&forwarded(&rig, &sealed(world.to_vip(SYN).bytes())));
        let other = world.service(Transport::Tcp, &[1]);
        rig.dataplane.serve(&[other]).expect("there is room");
        let data = sealed(world.to_vip(ACK).payload(10).bytes());
        assert_eq!(ends(&forwarded(&rig, &data)), standing);
        let client = at("10.8.0.2:40001");
        let fresh = Packet::new(client, world.vip, SYN).bytes();
        assert_eq!(ends(&forwarded(&rig, &sealed(fresh))).1, world.endpoints[1]);
        // A service that is gone is the host's; its connections go on.
        rig.dataplane.serve(&[]).expect("there is room");
        assert_eq!(ends(&forwarded(&rig, &data)), standing);
        passed(
            &rig,
            &Packet::new(at("10.8.0.2:40002"), world.vip, SYN).bytes(),
        );
    });
}

#[test]
fn a_port_is_used_anew_after_the_connection_has_ended() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        let (ours, endpoint) = ends(&forwarded(&rig, &sealed(world.to_vip(SYN).bytes())));
        let back = |flags| sealed(Packet::new(endpoint, ours, flags).bytes());
        forwarded(&rig, &back(SYN | ACK));
        forwarded(&rig, &sealed(world.to_vip(FIN | ACK).bytes()));
        assert_eq!(rig.tables.score[0].read().closed, 0, "one side is open");
        forwarded(&rig, &back(FIN | ACK));
        // The last acknowledgment still finds its way.
        assert_eq!(
            ends(&forwarded(&rig, &sealed(world.to_vip(ACK).bytes()))),
            (ours, endpoint)
        );
        assert_eq!(rig.tables.score[0].read().closed, 1);
        forwarded(&rig, &sealed(world.to_vip(SYN).bytes()));
        let score = rig.tables.score[0].read();
        assert_eq!((score.opened, score.closed, score.refused), (2, 1, 0));
        assert_eq!(rig.reason(Reason::Opened), 2);
    });
}

#[test]
fn an_endpoint_that_refuses_is_told_from_one_that_ends_a_connection() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        let (ours, endpoint) = ends(&forwarded(&rig, &sealed(world.to_vip(SYN).bytes())));
        let reset = sealed(Packet::new(endpoint, ours, RST | ACK).bytes());
        forwarded(&rig, &reset);
        // Sent again it says nothing new.
        forwarded(&rig, &reset);
        let score = rig.tables.score[0].read();
        assert_eq!((score.refused, score.closed), (1, 1));
        let (ours, _) = ends(&forwarded(&rig, &sealed(world.to_vip(SYN).bytes())));
        let back = |flags| sealed(Packet::new(endpoint, ours, flags).bytes());
        forwarded(&rig, &back(SYN | ACK));
        forwarded(&rig, &back(RST));
        let score = rig.tables.score[0].read();
        assert_eq!((score.accepted, score.refused, score.closed), (1, 1, 2));
    });
}

/// Shares of new connections, each from another port.
fn share_of_first(rig: &Rig, world: World, connections: u16) -> f64 {
    let mut first = 0;
    for number in 0..connections {
        let client = SocketAddr::new(world.client.ip(), 1024 + number);
        let syn = sealed(Packet::new(client, world.vip, SYN).bytes());
        let (_, endpoint) = ends(&forwarded(rig, &syn));
        first += u32::from(endpoint == world.endpoints[0]);
    }
    f64::from(first) / f64::from(connections)
}

#[test]
fn of_two_draws_the_better_score_wins() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = rig() else { return };
        let both = world.service(Transport::Tcp, &[0, 1]);
        rig.dataplane.serve(&[both]).expect("there is room");
        // Health in 2^-16, latency in 2^-20 s.
        let score = |health: u64, latency: u64| health << 32 | latency;
        let set = |row: usize, packed| rig.tables.score[row].packed.store(packed, Relaxed);
        set(0, score(65_536, 0));
        set(1, score(60_000, 0));
        let healthier = share_of_first(&rig, world, 2000);
        assert!((0.71..0.79).contains(&healthier), "3 of 4: {healthier}");
        set(0, score(65_536, 200_000));
        set(1, score(65_536, 100_000));
        let slower = share_of_first(&rig, world, 2000);
        assert!((0.21..0.29).contains(&slower), "1 of 4: {slower}");
    });
}

#[test]
fn draws_are_by_weight() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = rig() else { return };
        let mut both = world.service(Transport::Tcp, &[0, 1]);
        both.endpoints[0].weight = 3;
        rig.dataplane.serve(&[both]).expect("there is room");
        let share = share_of_first(&rig, world, 4000);
        // Equal scores: the second draw decides.
        assert!((0.71..0.79).contains(&share), "3 of 4: {share}");
    });
}

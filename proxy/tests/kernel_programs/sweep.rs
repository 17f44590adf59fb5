//! Connections of L4 services that end without a word: they are forgotten, and counted as open no longer.

use std::time::Duration;

use weir::moment::Moment;
use weir::runtime::clock;

use crate::packet::{ACK, FIN, Packet, SYN};
use crate::rig::Rig;
use crate::sealed::{datagram, ends, sealed};
use crate::services::{forwarded, passed};
use crate::world::{World, on_a_router};

const IDLE: Duration = Duration::from_secs(600);

/// All of a table as small as the tests' in one call.
fn sweep(rig: &Rig, now: Moment) {
    let swept = rig.dataplane.sweep(now, IDLE);
    swept.expect("the kernel tells of its table");
}

fn open(rig: &Rig) -> u64 {
    let score = rig.tables.score[0].read();
    score.opened - score.closed
}

#[test]
fn connections_are_forgotten_in_both_directions_once_nobody_uses_them() {
    on_a_router(|| {
        for world in World::both() {
            let Some(rig) = world.with_one_endpoint() else {
                return;
            };
            let syn = forwarded(&rig, &sealed(world.to_vip(SYN).bytes()));
            let (ours, endpoint) = ends(&syn);
            let back = |flags| sealed(Packet::new(endpoint, ours, flags).bytes());
            forwarded(&rig, &back(SYN | ACK));
            let mut silent = world;
            silent.client.set_port(40_001);
            forwarded(&rig, &sealed(silent.to_vip(SYN).bytes()));
            let exchange = sealed(datagram(world.client, world.vip, 10));
            forwarded(&rig, &exchange);

            let now = clock::now();
            for _ in 0..2 {
                sweep(&rig, now + Duration::from_secs(50));
                assert_eq!(open(&rig), 2, "all of them are young");
            }
            sweep(&rig, now + Duration::from_secs(70));
            assert_eq!(open(&rig), 1, "one has not been accepted");
            sweep(&rig, now + Duration::from_secs(590));
            assert_eq!(open(&rig), 1);
            forwarded(&rig, &sealed(world.to_vip(ACK).bytes()));
            forwarded(&rig, &back(ACK));

            sweep(&rig, now + Duration::from_secs(610));
            assert_eq!(open(&rig), 0);
            passed(&rig, &sealed(world.to_vip(ACK).bytes()));
            passed(&rig, &back(ACK));
            sweep(&rig, now + Duration::from_secs(2000));
            let score = rig.tables.score[0].read();
            assert_eq!((score.opened, score.closed), (2, 2), "each once");
        }
    });
}

#[test]
fn connections_that_have_ended_are_counted_once() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        let syn = forwarded(&rig, &sealed(world.to_vip(SYN).bytes()));
        let (ours, endpoint) = ends(&syn);
        for packet in [
            Packet::new(endpoint, ours, SYN | ACK),
            world.to_vip(FIN | ACK),
            Packet::new(endpoint, ours, FIN | ACK),
        ] {
            forwarded(&rig, &sealed(packet.bytes()));
        }
        for seconds in [0, 70, 700] {
            sweep(&rig, clock::now() + Duration::from_secs(seconds));
            let score = rig.tables.score[0].read();
            assert_eq!((score.opened, score.closed), (1, 1));
        }
        // Nothing of it is left.
        passed(&rig, &sealed(world.to_vip(ACK).bytes()));
    });
}

#[test]
fn connections_that_made_room_for_others_are_not_counted_as_open() {
    const MANY: u16 = 4000;
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        for port in 1..=MANY {
            let mut client = world;
            client.client.set_port(20_000 + port);
            forwarded(&rig, &sealed(client.to_vip(SYN).bytes()));
        }
        assert_eq!(open(&rig), u64::from(MANY));
        sweep(&rig, clock::now());
        // The table has 1024 elements, two for a connection, not all of them of the same.
        let left = open(&rig);
        assert!((1..=1024).contains(&left), "{left}");
        sweep(&rig, clock::now());
        assert_eq!(open(&rig), left, "those that stand are");
    });
}

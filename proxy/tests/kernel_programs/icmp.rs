//! ICMP errors about packets of L4 services: whoever sent the packet gets one that quotes it as it was sent.

use std::net::{IpAddr, SocketAddr};

use weir_common::Reason;

use crate::packet::{ACK, Packet, SYN};
use crate::sealed::{datagram, ends, hops, is_v4, sealed, sum};
use crate::services::{REDIRECT, forwarded, passed, show};
use crate::world::{World, at, on_a_router};

/// A router on the way to an endpoint or to a client.
fn router(world: World) -> IpAddr {
    match world.vip {
        SocketAddr::V4(_) => at("10.20.0.1:0").ip(),
        SocketAddr::V6(_) => at("[fd20::1]:0").ip(),
    }
}

/// "Too large, no more than 1400 bytes" and "nobody is there".
fn kinds(world: World) -> [[u8; 2]; 2] {
    match world.vip {
        SocketAddr::V4(_) => [[3, 4], [11, 0]],
        SocketAddr::V6(_) => [[2, 0], [1, 4]],
    }
}

/// An error from `router` that quotes so many bytes of the IP packet in `about`.
fn error(router: IpAddr, kind: [u8; 2], about: &[u8], quoted: usize) -> Vec<u8> {
    let to = SocketAddr::new(ends(about).0.ip(), 0);
    // The frame of a segment whose header is 20 bytes; what follows its IP header is replaced.
    let quote = &about[14..about.len().min(14 + quoted)];
    let mut frame = Packet::new(SocketAddr::new(router, 0), to, ACK).bytes();
    let header = if is_v4(about) { 34 } else { 54 };
    frame.truncate(header);
    frame.extend([kind[0], kind[1], 0, 0, 0, 0, 0x05, 0x78]);
    frame.extend(quote);
    let length = (frame.len() - header) as u16;
    match is_v4(about) {
        true => {
            frame[16..18].copy_from_slice(&(20 + length).to_be_bytes());
            frame[23] = 1;
            let checksum = !sum(&frame[14..34], 0);
            frame[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        false => {
            frame[18..20].copy_from_slice(&length.to_be_bytes());
            frame[20] = 58;
        }
    }
    let checksum = !checksum_of(&frame);
    frame[header + 2..header + 4].copy_from_slice(&checksum.to_be_bytes());
    frame
}

/// All ones in an error whose checksum is right.
fn checksum_of(frame: &[u8]) -> u16 {
    match is_v4(frame) {
        true => sum(&frame[34..], 0),
        false => {
            let pseudo = sum(&frame[22..54], (frame.len() - 54) as u32 + 58);
            sum(&frame[54..], pseudo.into())
        }
    }
}

fn addresses(frame: &[u8]) -> (IpAddr, IpAddr) {
    let (source, destination) = ends(frame);
    (source.ip(), destination.ip())
}

/// The packet as it was after one hop, whole; what an error should quote.
fn a_hop_later(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    match is_v4(&frame) {
        true => frame[22] -= 1,
        false => frame[21] -= 1,
    }
    sealed(frame)
}

/// Shows an error about `sent`, which came in as `was`, and checks that its sender is told of just that.
fn told(world: World, rig: &crate::rig::Rig, was: &[u8], sent: &[u8]) {
    let header = if is_v4(was) { 20 } else { 40 };
    for kind in kinds(world) {
        for quoted in [header + 8, header + 20, sent.len() - 14] {
            let frame = error(router(world), kind, sent, quoted);
            let (action, after) = show(rig, &frame);
            assert_eq!(action, REDIRECT, "{:?}", rig.dataplane.reasons());
            assert_eq!(after.len(), frame.len());
            let (from, to) = ends(was);
            assert_eq!(addresses(&after), (to.ip(), from.ip()), "{quoted}");
            assert_eq!(hops(&after), hops(&frame) - 1);
            assert_eq!(checksum_of(&after), 0xffff, "{quoted} of {after:x?}");
            let quote = &after[14 + header + 8..];
            let whole = &a_hop_later(was)[14..];
            assert_eq!(quote, &whole[..quote.len()], "{quoted}");
            if is_v4(was) {
                assert_eq!(sum(&after[14..34], 0), 0xffff, "the outer header");
            }
        }
    }
}

#[test]
fn errors_about_packets_and_answers_tell_their_senders() {
    on_a_router(|| {
        for world in World::both() {
            let Some(rig) = world.with_one_endpoint() else {
                return;
            };
            let segments = [
                sealed(world.to_vip(SYN).bytes()),
                sealed(world.to_vip(ACK).payload(700).bytes()),
                sealed(datagram(world.client, world.vip, 700)),
                sealed(datagram(world.client, world.vip, 0)),
            ];
            for was in segments {
                let sent = forwarded(&rig, &was);
                told(world, &rig, &was, &sent);
            }
            let (ours, endpoint) = ends(&forwarded(&rig, &sealed(world.to_vip(ACK).bytes())));
            let was = sealed(Packet::new(endpoint, ours, ACK).payload(700).bytes());
            told(world, &rig, &was, &forwarded(&rig, &was));
            assert_eq!(rig.reason(Reason::IcmpTranslated), 5 * 6);
        }
    });
}

#[test]
fn a_datagram_without_a_checksum_is_quoted_without_one() {
    on_a_router(|| {
        let world = World::v4();
        let Some(rig) = world.with_one_endpoint() else {
            return;
        };
        let mut was = sealed(datagram(world.client, world.vip, 50));
        was[40..42].fill(0);
        let (_, sent) = show(&rig, &was);
        let frame = error(router(world), [3, 4], &sent, 28);
        let (action, after) = show(&rig, &frame);
        assert_eq!((action, checksum_of(&after)), (REDIRECT, 0xffff));
        assert_eq!(after[14 + 20 + 8 + 20 + 6..][..2], [0, 0]);
    });
}

#[test]
fn other_messages_are_the_hosts() {
    on_a_router(|| {
        for world in World::both() {
            let Some(rig) = world.with_one_endpoint() else {
                return;
            };
            let sent = forwarded(&rig, &sealed(world.to_vip(SYN).bytes()));
            let [kind, _] = kinds(world);
            let good = error(router(world), kind, &sent, 1000);
            // Cut anywhere before the quoted ports end.
            let header = if is_v4(&good) { 20 } else { 40 };
            for length in 14 + header..14 + header + 8 + header + 4 {
                passed(&rig, &good[..length]);
            }
            // An echo request.
            let echo = if is_v4(&good) { [8, 0] } else { [128, 0] };
            passed(&rig, &error(router(world), echo, &sent, 1000));
            // About a connection nobody knows.
            let (ours, endpoint) = ends(&sent);
            let stranger = SocketAddr::new(ours.ip(), 9);
            let strange = sealed(Packet::new(stranger, endpoint, SYN).bytes());
            passed(&rig, &error(router(world), kind, &strange, 1000));
            // To somebody who cannot have sent the quoted packet.
            let mut stray = good.clone();
            stray[if is_v4(&good) { 33 } else { 53 }] ^= 1;
            passed(&rig, &stray);
            // At its last hop.
            let mut last = good.clone();
            last[if is_v4(&good) { 22 } else { 21 }] = 1;
            passed(&rig, &last);
            assert_eq!(rig.reason(Reason::IcmpTranslated), 0);
        }
    });
}

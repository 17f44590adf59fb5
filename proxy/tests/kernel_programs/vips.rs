//! Who gets a connection to a virtual address: lookups as the kernel makes them, by test run, and connections over a
//! loopback that has whole prefixes.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use weir::runtime::dataplane::{Covered, Lookup, Steered};
use weir::runtime::ring::Listener;
use weir_common::Reason;

use crate::namespace::{ip, on_a_loopback_of_its_own};
use crate::rig::{Rig, now_ns};

const TCP: u32 = 6;
const UDP: u32 = 17;

/// The sockets of one listener for two workers, on a loopback, for addresses elsewhere.
struct Virtual {
    sockets: Vec<TcpListener>,
    steered: Steered,
}

impl Virtual {
    fn new(rig: &Rig, loopback: &str) -> Self {
        let loopback: IpAddr = loopback.parse().expect("an address");
        let first = Listener::bind(SocketAddr::new(loopback, 0)).expect("loopback");
        let second = Listener::bind(first.address()).expect("the same address");
        let both = [&first, &second];
        let steered = rig.dataplane.steer_vip(&both.map(AsFd::as_fd));
        let sockets = both.map(|listener| {
            let socket: OwnedFd = listener.as_fd().try_clone_to_owned().expect("a descriptor");
            let socket = TcpListener::from(socket);
            socket.set_nonblocking(true).expect("it is a socket");
            socket
        });
        Self {
            sockets: sockets.into(),
            steered: steered.expect("there is a program"),
        }
    }

    fn covers(&self, first: &str, prefix_len: u8, last_port: u16) -> Covered {
        Covered {
            first: first.parse().expect("an address"),
            prefix_len,
            last_port,
            listener: self.steered.vip_row(),
        }
    }

    fn accepted(&self) -> [usize; 2] {
        [0, 1].map(|worker| std::iter::from_fn(|| self.sockets[worker].accept().ok()).count())
    }
}

fn lookup(protocol: u32, to: &str) -> Lookup {
    let to: SocketAddr = to.parse().expect("an address");
    let lookup = Lookup {
        protocol,
        local_port: to.port().into(),
        remote_port: 40_000_u16.to_be(),
        ..Lookup::default()
    };
    match to.ip() {
        IpAddr::V4(to) => Lookup {
            family: libc::AF_INET as u32,
            local_ip4: to.to_bits().to_be(),
            ..lookup
        },
        IpAddr::V6(to) => {
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().zip(to.octets().as_chunks().0) {
                *word = u32::from_ne_bytes(*bytes);
            }
            Lookup {
                family: libc::AF_INET6 as u32,
                local_ip6: words,
                ..lookup
            }
        }
    }
}

/// Every worker has just spoken, and has these many connections.
fn say(rig: &Rig, connections: [u64; 2]) {
    for ((row, given), connections) in rig
        .tables
        .worker
        .iter()
        .zip(rig.tables.steered.iter())
        .zip(connections)
    {
        let given = given.connections.load(Relaxed);
        row.steered_seen.store(given, Relaxed);
        row.accepting.store(1, Relaxed);
        row.connections.store(connections, Relaxed);
        row.due_ns.store(u64::MAX, Relaxed);
        row.heartbeat_ns.store(now_ns(), Relaxed);
    }
}

/// Whose listener the lookup finds. A test run says only that there is one, so that each has its turn to be the only one
/// with sockets.
fn found(rig: &Rig, all: &[Covered], lookup: &Lookup) -> Option<Covered> {
    let candidates = all.iter().filter(|one| one.listener.is_some());
    let mut found = candidates.filter(|candidate| {
        let alone = |one: &Covered| Covered {
            listener: one.listener.filter(|_| one == *candidate),
            ..*one
        };
        rig.dataplane
            .publish_vips(&all.iter().map(alone).collect::<Vec<_>>());
        let found = rig.dataplane.look_up(lookup);
        found.expect("the program runs")
    });
    let first = found.next().copied();
    assert_eq!(found.next(), None, "one lookup, one listener");
    first
}

#[test]
fn each_lookup_finds_the_listener_of_the_longest_prefix_that_has_its_port() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::with_workers(2) else {
            return;
        };
        let vip = Virtual::new(&rig, "127.0.0.1");
        let six = Virtual::new(&rig, "::1");
        let (wide, narrow, ordinary) = (
            vip.covers("10.0.0.0:8000", 8, 8999),
            vip.covers("10.1.0.0:8080", 16, 8080),
            Covered::ordinary("10.1.0.1:8080".parse().expect("an address")),
        );
        let six = six.covers("[2001:db8::]:80", 32, 80);
        let all = [wide, narrow, ordinary, six];
        for (protocol, to, expected) in [
            (TCP, "10.2.3.4:8000", Some(wide)),
            (TCP, "10.2.3.4:8999", Some(wide)),
            (TCP, "10.2.3.4:7999", None),
            (TCP, "10.2.3.4:9000", None),
            (TCP, "10.1.255.255:8080", Some(narrow)),
            (TCP, "10.1.255.255:8081", Some(wide)),
            (TCP, "10.1.0.1:8080", None),
            (TCP, "10.1.0.1:8081", Some(wide)),
            (TCP, "9.255.255.255:8080", None),
            (TCP, "11.0.0.0:8080", None),
            (UDP, "10.2.3.4:8000", None),
            (TCP, "[2001:db8:ffff::1]:80", Some(six)),
            (TCP, "[2001:db8:ffff::1]:81", None),
            (TCP, "[2001:db9::1]:80", None),
            (UDP, "[2001:db8::1]:80", None),
        ] {
            assert_eq!(found(&rig, &all, &lookup(protocol, to)), expected, "{to}");
        }
        assert_eq!(rig.reason(Reason::ToVip), 6);
        assert_eq!(rig.reason(Reason::VipUnserved), 0);
    });
}

#[test]
fn connections_to_any_address_of_a_prefix_come_to_the_less_loaded_worker() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::with_workers(2) else {
            return;
        };
        assert!(ip("route add local 10.99.0.0/16 dev lo"));
        let vip = Virtual::new(&rig, "127.0.0.1");
        rig.dataplane
            .publish_vips(&[vip.covers("10.99.0.0:8000", 16, 8099)]);
        for number in 0..20 {
            say(&rig, [100, 0]);
            let to = SocketAddr::from(([10, 99, number, 7], 8000 + u16::from(number)));
            TcpStream::connect(to).expect("it is listened for");
        }
        let [first, second] = vip.accepted();
        assert_eq!(first + second, 20);
        assert_eq!(second, 20);
        assert_eq!(rig.reason(Reason::SteeredByLoad), 20);
    });
}

#[test]
fn a_virtual_listener_that_goes_is_replaced_by_nobody_or_the_next() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::with_workers(2) else {
            return;
        };
        assert!(ip("route add local 10.99.0.0/16 dev lo"));
        let target: SocketAddr = "10.99.1.1:80".parse().expect("an address");
        let (one, two) = (
            Virtual::new(&rig, "127.0.0.1"),
            Virtual::new(&rig, "127.0.0.1"),
        );
        say(&rig, [0, 0]);
        rig.dataplane
            .publish_vips(&[one.covers("10.99.0.0:80", 16, 80)]);
        let early = TcpStream::connect(target).expect("it is listened for");
        rig.dataplane
            .publish_vips(&[two.covers("10.99.0.0:80", 16, 80)]);
        TcpStream::connect(target).expect("it is listened for");
        let total = |vip: &Virtual| vip.accepted().iter().sum::<usize>();
        assert_eq!((total(&one), total(&two)), (1, 1));
        drop(early);

        assert!(two.steered.turn_away());
        let refused = TcpStream::connect(target).expect_err("it closes");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        rig.dataplane.publish_vips(&[]);
        let refused = TcpStream::connect(target).expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_virtual_address_whose_sockets_are_gone_is_left_to_ordinary_ones() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::with_workers(2) else {
            return;
        };
        assert!(ip("route add local 10.99.0.0/16 dev lo"));
        let vip = Virtual::new(&rig, "127.0.0.1");
        rig.dataplane
            .publish_vips(&[vip.covers("10.99.0.0:80", 16, 80)]);
        drop(vip.sockets);
        let ordinary = TcpListener::bind("10.99.1.1:80").expect("the route makes it local");
        TcpStream::connect("10.99.1.1:80").expect("it is listened on");
        ordinary.accept().expect("it is there");
        assert!(rig.reason(Reason::VipUnserved) > 0);
    });
}

//! Which socket a new connection finds. The kernel has no test run for programs that choose sockets: connections over a
//! loopback are made, and the rows workers would write are written by hand.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use weir::runtime::dataplane::Steered;
use weir::runtime::ring::Listener;
use weir_common::{LISTENER_GROUPS, Reason, Worker};

use crate::namespace::on_a_loopback_of_its_own;
use crate::rig::{Rig, now_ns};

/// Two workers that listen on one address.
struct Pair {
    rig: Rig,
    sockets: Vec<TcpListener>,
    steered: Steered,
    address: SocketAddr,
}

impl Pair {
    fn new() -> Option<Self> {
        let rig = Rig::with_workers(2)?;
        let (sockets, steered) = listen(&rig);
        let address = sockets[0].local_addr().expect("it is bound");
        Some(Self {
            rig,
            sockets,
            steered,
            address,
        })
    }

    /// Writes a worker's row: it has just spoken, and will again in a minute.
    fn say(&self, worker: usize, adjust: impl FnOnce(&mut Worker)) {
        let (now, row) = (now_ns(), &self.rig.tables.worker[worker]);
        let mut said = row.read();
        said.heartbeat_ns = now;
        said.due_ns = now + 60_000_000_000;
        said.accepting = 1;
        adjust(&mut said);
        row.heartbeat_ns.store(said.heartbeat_ns, Relaxed);
        row.due_ns.store(said.due_ns, Relaxed);
        row.connections.store(said.connections, Relaxed);
        row.loop_lag_ns.store(said.loop_lag_ns, Relaxed);
        row.accepting.store(said.accepting, Relaxed);
        row.steered_seen.store(said.steered_seen, Relaxed);
    }

    /// A worker that has seen all it was given, and has these many connections.
    fn looked(&self, worker: usize, connections: u64) {
        let given = self.rig.tables.steered[worker].read().connections;
        self.say(worker, |row| {
            row.connections = connections;
            row.steered_seen = given;
        });
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).expect("somebody listens")
    }

    /// Connections waiting for each worker, taken.
    fn accepted(&self) -> [usize; 2] {
        [0, 1].map(|worker| std::iter::from_fn(|| self.sockets[worker].accept().ok()).count())
    }
}

fn listen(rig: &Rig) -> (Vec<TcpListener>, Steered) {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let first = Listener::bind(loopback).expect("loopback");
    let second = Listener::bind(first.address()).expect("the same address");
    let both = [&first, &second];
    let steered = rig.dataplane.steer(&both.map(AsFd::as_fd));
    let sockets = both.map(|listener| -> TcpListener {
        let socket: OwnedFd = listener.as_fd().try_clone_to_owned().expect("a descriptor");
        let socket = TcpListener::from(socket);
        socket.set_nonblocking(true).expect("it is a socket");
        socket
    });
    let steered = steered.expect("there is a program").expect("and room");
    (sockets.into(), steered)
}

#[test]
fn a_connection_goes_to_the_worker_with_fewer() {
    on_a_loopback_of_its_own(|| {
        let Some(pair) = Pair::new() else { return };
        for _ in 0..20 {
            pair.looked(0, 100);
            pair.looked(1, 10);
            pair.connect();
        }
        assert_eq!(pair.accepted(), [0, 20]);
        assert_eq!(pair.rig.reason(Reason::SteeredByLoad), 20);
        assert_eq!(pair.rig.tables.steered[1].read().connections, 20);
    });
}

#[test]
fn equal_workers_get_about_the_same() {
    on_a_loopback_of_its_own(|| {
        let Some(pair) = Pair::new() else { return };
        for _ in 0..100 {
            pair.looked(0, 5);
            pair.looked(1, 5);
            pair.connect();
        }
        let [first, second] = pair.accepted();
        assert_eq!(first + second, 100);
        assert!(first.abs_diff(second) < 50, "{first} and {second}");
    });
}

#[test]
fn long_turns_and_late_news_count_as_load() {
    on_a_loopback_of_its_own(|| {
        let Some(pair) = Pair::new() else { return };
        for _ in 0..20 {
            pair.looked(0, 10);
            pair.looked(1, 10);
            pair.say(0, |row| row.loop_lag_ns = 1_000_000);
            pair.connect();
        }
        assert_eq!(pair.accepted(), [0, 20]);
        pair.say(0, |row| row.loop_lag_ns = 0);
        for _ in 0..20 {
            pair.looked(0, 10);
            // It speaks, but has not when it was to.
            pair.looked(1, 10);
            pair.say(1, |row| row.due_ns = row.heartbeat_ns - 5_000_000);
            pair.connect();
        }
        assert_eq!(pair.accepted(), [20, 0]);
    });
}

#[test]
fn who_does_not_look_is_given_no_more_before_others_have_as_many() {
    on_a_loopback_of_its_own(|| {
        let Some(pair) = Pair::new() else { return };
        pair.looked(0, 0);
        for _ in 0..20 {
            pair.looked(1, 0);
            pair.connect();
        }
        let [first, _] = pair.accepted();
        assert!(first <= 1, "{first} to the one that never looked");
    });
}

#[test]
fn silence_of_one_is_no_load_and_silence_of_all_leaves_it_to_the_kernel() {
    on_a_loopback_of_its_own(|| {
        let Some(pair) = Pair::new() else { return };
        for _ in 0..10 {
            pair.looked(0, 1_000);
            pair.say(1, |row| row.heartbeat_ns -= 1_100_000_000);
            pair.connect();
        }
        assert_eq!(pair.accepted(), [10, 0]);
        pair.say(0, |row| row.accepting = 0);
        for _ in 0..64 {
            pair.connect();
        }
        let [first, second] = pair.accepted();
        assert!(first > 0 && second > 0, "{first} and {second}");
        assert_eq!(pair.rig.reason(Reason::LoadStale), 64);
    });
}

#[test]
fn what_is_queued_at_a_socket_that_closes_moves_to_another() {
    on_a_loopback_of_its_own(|| {
        let Some(mut pair) = Pair::new() else { return };
        pair.looked(0, 0);
        pair.say(1, |row| row.accepting = 0);
        let clients: Vec<TcpStream> = (0..5).map(|_| pair.connect()).collect();
        pair.looked(1, 0);
        drop(pair.sockets.remove(0));
        let accepted: Vec<_> = std::iter::from_fn(|| pair.sockets[0].accept().ok()).collect();
        assert_eq!(accepted.len(), clients.len());
        assert_eq!(pair.rig.reason(Reason::Migrated), 5);
        // The socket that is gone is found empty, and the other one serves.
        pair.looked(0, 0);
        pair.looked(1, 1_000);
        pair.connect();
        assert!(pair.sockets[0].accept().is_ok());
    });
}

#[test]
fn a_listener_that_closes_refuses_who_comes_and_keeps_who_is_there() {
    on_a_loopback_of_its_own(|| {
        let Some(pair) = Pair::new() else { return };
        pair.looked(0, 0);
        pair.looked(1, 0);
        let early = pair.connect();
        assert!(pair.steered.turn_away());
        let late = TcpStream::connect_timeout(&pair.address, Duration::from_secs(5));
        let refused = late.expect_err("it closes");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(pair.accepted().iter().sum::<usize>(), 1);
        assert_eq!(pair.rig.reason(Reason::TurnedAway), 1);
        drop(early);
    });
}

#[test]
fn listeners_do_not_get_into_each_others_way() {
    on_a_loopback_of_its_own(|| {
        let Some(pair) = Pair::new() else { return };
        let (others, steered) = listen(&pair.rig);
        pair.looked(0, 0);
        pair.looked(1, 0);
        assert!(steered.turn_away());
        pair.connect();
        assert_eq!(pair.accepted().iter().sum::<usize>(), 1);
        drop((others, steered));
        pair.connect();
        assert_eq!(pair.accepted().iter().sum::<usize>(), 1);
    });
}

#[test]
fn more_listeners_than_places_are_served_by_the_kernels_hash() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::with_workers(2) else {
            return;
        };
        let all: Vec<_> = (0..LISTENER_GROUPS).map(|_| listen(&rig)).collect();
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let one_more = Listener::bind(loopback).expect("loopback");
        let refused = rig.dataplane.steer(&[one_more.as_fd()]);
        assert!(matches!(refused, Some(Err(_))));
        drop(all);
        let accepted = rig.dataplane.steer(&[one_more.as_fd()]);
        assert!(matches!(accepted, Some(Ok(_))), "places are used again");
    });
}

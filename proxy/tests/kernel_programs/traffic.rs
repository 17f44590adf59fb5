//! Real connections over a loopback of our own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use aya::programs::{SchedClassifier, TcAttachType};
use weir::runtime::dataplane::{Hook, Interface};

use crate::namespace::on_a_loopback_of_its_own;
use crate::rig::{Ends, Rig};

const THINKING: Duration = Duration::from_millis(30);

#[test]
fn real_traffic_is_timed_over_ipv4() {
    on_a_loopback_of_its_own(|| exchange_is_measured("127.0.0.1:0"));
}

#[test]
fn real_traffic_is_timed_over_ipv6() {
    on_a_loopback_of_its_own(|| exchange_is_measured("[::1]:0"));
}

fn exchange_is_measured(listen: &str) {
    let Some(mut rig) = Rig::open(16, vec!["lo".to_owned()]) else {
        return;
    };
    let listener = TcpListener::bind(listen).expect("a port is free");
    let endpoint = listener.local_addr().expect("it is bound");
    let server = thread::spawn(move || answer_after(listener, THINKING));
    let peer = Ends {
        proxy: endpoint,
        endpoint,
    }
    .peer();
    rig.dataplane.identify(peer);

    let mut stream = TcpStream::connect(endpoint).expect("it listens");
    let local = stream.local_addr().expect("it is connected");
    let slot = rig.flows.register(local, peer).expect("there is room");
    // Larger than any segment, so that it leaves in several.
    let request = vec![b'x'; REQUEST];
    stream.write_all(&request).expect("the endpoint reads");
    let mut response = Vec::new();
    stream.read_to_end(&mut response).expect("it answers");
    drop(stream);
    server.join().expect("the endpoint did as told");

    let sample = rig.sample(slot);
    assert_eq!(sample.exchange, 1);
    let waited = Duration::from_nanos(sample.first_byte_ns);
    assert!((THINKING..THINKING * 2).contains(&waited), "{waited:?}");
    let wire = rig.wire();
    assert_eq!((wire.opened, wire.connect_count), (1, 1));
    assert!(wire.connect_ns_sum > 0);
    assert_eq!((wire.started, wire.finished), (1, 1));
    assert_eq!(wire.bytes_out, REQUEST as u64);
    assert_eq!(wire.bytes_in, response.len() as u64);
    // Whether the kernel probes with the last segment once more depends on the machine's load.
    assert_eq!((wire.closed, wire.resets), (1, 0));
    rig.flows.release(slot);
}

const REQUEST: usize = 200_000;

fn answer_after(listener: TcpListener, thinking: Duration) {
    let (mut stream, _) = listener.accept().expect("somebody connects");
    let mut request = vec![0; REQUEST];
    stream.read_exact(&mut request).expect("a whole request");
    thread::sleep(thinking);
    // Byte by byte, so that it trickles.
    stream.set_nodelay(true).expect("an open socket");
    for byte in b"response" {
        stream.write_all(&[*byte]).expect("the client reads");
    }
}

#[test]
fn links_are_gone_with_the_dataplane_that_attached_them() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::open(16, vec!["lo".to_owned()]) else {
            return;
        };
        let status = rig.dataplane.status();
        let [loopback] = &status[..] else {
            panic!("one interface was named");
        };
        assert_eq!(loopback.attached, Ok(Hook::Tcx));
        assert_eq!(links(), 2);
        drop(rig);
        // Unloading waits for packets under way.
        let deadline = Instant::now() + Duration::from_secs(5);
        while links() > 0 {
            assert!(Instant::now() < deadline, "still attached");
            thread::sleep(Duration::from_millis(5));
        }
    });
}

fn links() -> usize {
    [TcAttachType::Egress, TcAttachType::Ingress]
        .map(|side| SchedClassifier::query_tcx("lo", side))
        .map(|programs| programs.expect("this kernel has tcx").1.len())
        .iter()
        .sum()
}

#[test]
fn clsact_filters_stand_beside_others_and_are_removed_with_the_dataplane() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::new() else { return };
        let tc = |words: &str| {
            let tc = Command::new("tc").args(words.split(' ')).output();
            String::from_utf8(tc.expect("iproute2 brings tc").stdout).expect("text")
        };
        let filters = || {
            let egress = tc("filter show dev lo egress");
            let ingress = tc("filter show dev lo ingress");
            let lines = egress.lines().chain(ingress.lines());
            lines.filter(|line| line.contains("wire_")).count()
        };
        tc("qdisc add dev lo clsact");
        tc("filter add dev lo egress protocol all u32 match u32 0 0");

        // Every kernel we test on has tcx, so the older hook is asked for by name.
        let loopback = Interface::named("lo").expect("every namespace has one");
        let attached = rig.dataplane.attach_by(&loopback, Hook::Clsact);
        attached.expect("the kernel has the qdisc");
        assert_eq!(filters(), 2);
        drop(rig);
        assert_eq!(filters(), 0);
        assert!(tc("filter show dev lo egress").contains("u32"));
    });
}

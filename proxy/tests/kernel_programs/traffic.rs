//! Real connections over a loopback of our own.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::rig::{Ends, Rig, skip};

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
fn programs_are_gone_with_the_process_that_attached_them() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::open(16, vec!["lo".to_owned()]) else {
            return;
        };
        assert!(
            rig.dataplane
                .status()
                .iter()
                .all(|one| one.attached.is_ok())
        );
        drop(rig);
        // Unloading waits for packets under way.
        let deadline = Instant::now() + Duration::from_secs(5);
        while attached_to_loopback() > 0 {
            assert!(Instant::now() < deadline, "still attached");
            thread::sleep(Duration::from_millis(5));
        }
    });
}

fn attached_to_loopback() -> usize {
    let query = aya::programs::SchedClassifier::query_tcx;
    [
        aya::programs::TcAttachType::Egress,
        aya::programs::TcAttachType::Ingress,
    ]
    .map(|side| query("lo", side).expect("this kernel has tcx").1.len())
    .iter()
    .sum()
}

/// Runs a test in a network namespace that ends with its thread.
fn on_a_loopback_of_its_own(test: impl FnOnce() + Send + 'static) {
    let name = thread::current().name().unwrap_or("a test").to_owned();
    let inside = move || {
        // SAFETY: the call takes no pointer; it moves this thread alone, which has nothing open in the old namespace.
        let left = unsafe { libc::unshare(libc::CLONE_NEWNET) };
        if left != 0 {
            return skip("a network namespace of its own, which takes root");
        }
        let up = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        if !up.is_ok_and(|status| status.success()) {
            return skip("the ip command of iproute2");
        }
        test();
    };
    let thread = thread::Builder::new().name(name).spawn(inside);
    let done = thread.expect("a thread can be made").join();
    if let Err(panic) = done {
        std::panic::resume_unwind(panic);
    }
}

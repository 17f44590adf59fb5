//! Descriptors that run out: accepting rests, and goes on when there are some. The limit holds for a whole process, so
//! the worker runs in one of its own: this test once more, told so by its environment.

use std::collections::VecDeque;
use std::env;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::cores::Echo;
use crate::running::Running;
use crate::{PATIENCE, client, has_ring};

const THIS: &str = "descriptors::accepting_rests_while_descriptors_are_short";
const IS_CHILD: &str = "WEIR_TEST_SHORT_OF_DESCRIPTORS";
/// Descriptors left to the worker, for itself and its clients.
const LEFT: u64 = 12;
const CLIENTS: usize = 20;

#[test]
fn accepting_rests_while_descriptors_are_short() {
    if !has_ring() {
        return;
    }
    if env::var_os(IS_CHILD).is_some() {
        return run_short_of_descriptors();
    }
    let mut child = start_child();
    let worker = address_of(&mut child);
    let mut clients: VecDeque<TcpStream> = (0..CLIENTS).map(|_| client(worker)).collect();
    for stream in &mut clients {
        stream
            .write_all(b"x")
            .expect("the kernel took the connection");
    }
    let at_once = Duration::from_millis(500);
    let served = (0..CLIENTS).find(|&place| !is_served(&mut clients[place], at_once));
    let served = served.expect("one that has to wait");
    assert!(served > 0, "none is served");

    // Each that leaves makes room for the one that has waited longest.
    while clients.len() > served {
        clients.pop_front();
        assert!(is_served(&mut clients[served - 1], PATIENCE));
    }
    drop(clients);
    drop(child.stdin.take());
    let status = child.wait().expect("it ends");
    assert!(status.success(), "{status}");
}

fn is_served(stream: &mut TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).expect("a timeout");
    stream.read_exact(&mut [0]).is_ok()
}

fn start_child() -> Child {
    Command::new(env::current_exe().expect("this test"))
        .args(["--exact", THIS, "--nocapture"])
        .env(IS_CHILD, "")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this test once more")
}

fn address_of(child: &mut Child) -> SocketAddr {
    let stderr = BufReader::new(child.stderr.take().expect("piped"));
    let mut lines = stderr.lines().map_while(Result::ok);
    let address = lines.find_map(|line| line.strip_prefix("listening on ")?.parse().ok());
    thread::spawn(move || lines.for_each(|line| eprintln!("worker: {line}")));
    address.expect("the worker says where it listens")
}

/// The worker's process: until its input ends.
fn run_short_of_descriptors() {
    // Before it begins to accept: the kernel remembers the limit of that moment.
    let lowest_free = File::open("/dev/null").expect("a descriptor").as_raw_fd();
    let limit = Rlimit {
        current: Some(lowest_free as u64 + LEFT),
        ..getrlimit(Resource::Nofile)
    };
    setrlimit(Resource::Nofile, limit).expect("a lower limit");
    let running = Running::start(Echo::default());
    eprintln!("listening on {}", running.address);
    let mut input = Vec::new();
    std::io::stdin()
        .read_to_end(&mut input)
        .expect("the end of input");
    running.wait_until_idle();
    let said = running.drain();
    assert!(said.accepts_failed > 0, "{said:?}");
}

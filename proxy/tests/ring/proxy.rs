//! The whole of a worker: HTTP through the real ring.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use weir::balance::shared::{SharedTables, Sizes};
use weir::balance::{Balancer, EndpointRows, Figures, Weight};
use weir::exchange::{Proxy, Settings};
use weir::metrics::WorkerCounters;
use weir::moment::Moment;
use weir::snapshot::{Plan, Snapshot, Target};

use crate::running::Running;
use crate::{PATIENCE, client, has_ring, nowhere, read_pattern, write_pattern};

struct Serving {
    running: Running,
    tables: SharedTables,
    snapshot: Arc<Snapshot>,
    counters: Arc<WorkerCounters>,
}

impl Serving {
    fn start(endpoint: SocketAddr, settings: Settings) -> Self {
        let tables = SharedTables::anonymous(Sizes {
            capacity: 1,
            workers: 1,
            cpus: 1,
            flows: 1,
        });
        let mut rows = EndpointRows::new(tables.clone());
        // Any address: the plan only says who serves the worker's first listener.
        let plan = Plan::quick(&[endpoint], &[Target::at(endpoint, Weight::ONE)]);
        let snapshot = Snapshot::new(1, plan, &mut rows).expect("a row");
        let snapshot = Arc::new(snapshot);
        let counters = Arc::new(WorkerCounters::default());
        let core = Proxy::new(
            snapshot.clone(),
            settings,
            Balancer::new(tables.clone(), 0, 0x5eed),
            tables.samples.clone(),
            counters.clone(),
        );
        Self {
            running: Running::start(core),
            tables,
            snapshot,
            counters,
        }
    }

    /// Ends the worker: nothing is pending, and every lease ended in one way.
    fn end(self) -> [u64; 3] {
        self.running.drain();
        let endpoint = &self.snapshot.backends()[0].endpoints()[0];
        let leases = Figures::read(&self.tables, endpoint, Moment::from_nanos(0)).leases;
        assert_eq!(leases.pending, 0);
        assert_eq!(
            leases.picked,
            leases.succeeded + leases.failed + leases.neutral
        );
        assert_eq!(self.counters.downstream_active.value(), 0);
        assert_eq!(self.counters.upstream_active.value(), 0);
        [leases.succeeded, leases.failed, leases.neutral]
    }
}

/// An endpoint that hands each connection to `serve`.
fn endpoint(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

/// Answers every request, which has no body, with its path.
fn echo_paths(stream: TcpStream) {
    let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
    while let Some(path) = read_head(&mut reader) {
        let length = path.len();
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{path}");
        if (&stream).write_all(answer.as_bytes()).is_err() {
            return;
        }
    }
}

/// The second word of a head's first line; `None` at the end of the stream.
fn read_head(reader: &mut impl BufRead) -> Option<String> {
    let mut word = None;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line == "\r\n" {
            return word;
        }
        word = word.or_else(|| Some(line.split(' ').nth(1)?.to_owned()));
    }
}

fn ask(stream: &mut TcpStream, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a write");
    let mut reader = BufReader::new(stream);
    assert_eq!(read_head(&mut reader).as_deref(), Some("200"));
    let mut body = vec![0; path.len()];
    reader.read_exact(&mut body).expect("a body");
    String::from_utf8(body).expect("text")
}

#[test]
fn many_short_connections_are_served_and_leave_nothing_behind() {
    if !has_ring() {
        return;
    }
    let serving = Serving::start(endpoint(echo_paths), Settings::default());
    let address = serving.running.address;
    thread::scope(|scope| {
        for number in 0..4 {
            scope.spawn(move || {
                for turn in 0..500 {
                    let path = format!("/{number}/{turn}");
                    assert_eq!(ask(&mut client(address), &path), path);
                }
            });
        }
    });
    // What stays are idle connections to the endpoint: no more than there were clients at a time.
    serving
        .running
        .wait_until(|said| said.gauges.connections <= 8);
    assert!(serving.counters.upstream_opened.value() < 100);
    assert_eq!(serving.end(), [2000, 0, 0]);
}

#[test]
fn a_body_larger_than_all_buffers_goes_through_a_slow_reader() {
    if !has_ring() {
        return;
    }
    const LENGTH: usize = 48 << 20;
    let address = endpoint(|mut stream| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {LENGTH}\r\n\r\n");
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        read_head(&mut reader).expect("a request");
        stream.write_all(head.as_bytes()).expect("a write");
        write_pattern(&mut stream, LENGTH);
        let _ = stream.read(&mut [0]);
    });
    let serving = Serving::start(address, Settings::default());
    let mut stream = client(serving.running.address);
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("a write");
    thread::sleep(Duration::from_millis(300));
    let mut byte = [0];
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).expect("a head");
        head.push(byte[0]);
    }
    read_pattern(&mut stream, LENGTH);
    drop(stream);
    assert_eq!(serving.end(), [1, 0, 0]);
}

#[test]
fn a_client_that_leaves_takes_its_exchange_with_it_at_once() {
    if !has_ring() {
        return;
    }
    let (gone, is_gone) = std::sync::mpsc::channel();
    let address = endpoint(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        read_head(&mut reader).expect("a request");
        // It never answers; it waits for the end.
        let ended = stream.read(&mut [0]);
        gone.send(ended.is_err()).expect("the test is there");
    });
    let serving = Serving::start(address, Settings::default());
    let mut stream = client(serving.running.address);
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("a write");
    let counters = &serving.counters;
    serving
        .running
        .wait_until(|_| counters.upstream_bytes_out.value() > 0);
    drop(stream);
    let was_reset = is_gone
        .recv_timeout(PATIENCE)
        .expect("the endpoint hears of it");
    assert!(was_reset, "by a reset");
    serving.running.wait_until_idle();
    assert_eq!(serving.end(), [0, 0, 1]);
}

#[test]
fn a_refused_endpoint_is_a_bad_gateway() {
    if !has_ring() {
        return;
    }
    let serving = Serving::start(nowhere(), Settings::default());
    let mut stream = client(serving.running.address);
    for _ in 0..20 {
        stream
            .write_all(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
            .expect("a write");
        let status = read_head(&mut BufReader::new(&stream));
        assert_eq!(status.as_deref(), Some("502"));
    }
    drop(stream);
    assert_eq!(serving.end(), [0, 20, 0]);
}

#[test]
fn deadlines_come_without_any_other_event() {
    if !has_ring() {
        return;
    }
    let address = endpoint(|mut stream| {
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let settings = Settings {
        first_byte: Duration::from_millis(200),
        ..Settings::default()
    };
    let serving = Serving::start(address, settings);
    let mut stream = client(serving.running.address);
    stream
        .write_all(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("a write");
    let status = read_head(&mut BufReader::new(&stream));
    assert_eq!(status.as_deref(), Some("504"));
    drop(stream);
    assert_eq!(serving.end(), [0, 1, 0]);
}

#[test]
fn a_drain_waits_for_what_runs_and_for_nothing_else() {
    if !has_ring() {
        return;
    }
    let (answer, may_answer) = std::sync::mpsc::channel::<()>();
    let may_answer = Arc::new(std::sync::Mutex::new(may_answer));
    let address = endpoint(move |mut stream| {
        let mut reader = BufReader::new(stream.try_clone().expect("a descriptor"));
        while let Some(path) = read_head(&mut reader) {
            if path == "/slow" {
                let _ = may_answer.lock().expect("one at a time").recv();
            }
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        }
    });
    let serving = Serving::start(address, Settings::default());
    let (mut idle, mut busy) = (
        client(serving.running.address),
        client(serving.running.address),
    );
    idle.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("a write");
    let mut response = BufReader::new(idle.try_clone().expect("a descriptor"));
    assert_eq!(read_head(&mut response).as_deref(), Some("200"));
    response.read_exact(&mut [0; 2]).expect("a body");
    busy.write_all(b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
        .expect("a write");
    let requests = &serving.counters.requests;
    serving.running.wait_until(|_| requests.value() == 2);

    serving.running.begin_drain();
    assert_eq!(idle.read(&mut [0]).expect("an orderly end"), 0);
    assert!(!serving.running.ends_within(Duration::from_millis(100)));
    let late = TcpStream::connect(serving.running.address);
    assert!(late.is_err(), "nobody is accepted any more");

    answer.send(()).expect("the endpoint waits");
    let mut text = String::new();
    busy.read_to_string(&mut text)
        .expect("the response and the end");
    assert!(
        text.contains("Connection: close\r\n") && text.ends_with("ok"),
        "{text}"
    );
    drop(busy);
    assert_eq!(serving.end(), [2, 0, 0]);
}

#[test]
fn requests_sent_ahead_that_fill_more_than_a_buffer_are_answered_in_order() {
    if !has_ring() {
        return;
    }
    const REQUESTS: usize = 4000;
    let serving = Serving::start(endpoint(echo_paths), Settings::default());
    let mut stream = client(serving.running.address);
    let requests: String = (0..REQUESTS)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nHost: a\r\nX-Filler: 0123456789\r\n\r\n"))
        .collect();
    let mut writer = stream.try_clone().expect("a descriptor");
    let writing = thread::spawn(move || writer.write_all(requests.as_bytes()));
    let mut reader = BufReader::new(&mut stream);
    for number in 0..REQUESTS {
        assert_eq!(read_head(&mut reader).as_deref(), Some("200"));
        let path = format!("/{number}");
        let mut body = vec![0; path.len()];
        reader.read_exact(&mut body).expect("a body");
        assert_eq!(body, path.as_bytes());
    }
    writing.join().expect("it ends").expect("all is written");
    drop(stream);
    assert_eq!(serving.end(), [REQUESTS as u64, 0, 0]);
}

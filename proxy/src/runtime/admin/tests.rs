//! A real thread on real loopback sockets, asked as people ask it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

use super::dump::ConfigDump;
use super::explain::{Explanation, StateName};
use super::*;
use crate::balance::shared::{SharedTables, Sizes};
use crate::balance::{Balancer, EndpointRows, Outcome, Weight};
use crate::metrics::{EbpfStatus, Serving};
use crate::runtime::clock;
use crate::runtime::reload::Reloads;
use crate::snapshot::{Plan, Snapshot, Target};

const ANY_PORT: Option<SocketAddr> = Some(SocketAddr::new(
    std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
    0,
));

struct Admin {
    addresses: AdminAddresses,
    readiness: Readiness,
    quits: Arc<AtomicUsize>,
    _thread: AdminThread,
}

/// One endpoint, which failed once.
fn observed() -> Observed {
    let tables = SharedTables::anonymous(Sizes {
        capacity: 1,
        workers: 1,
        cpus: 1,
        flows: 1,
    });
    let targets = [Target::at(([10, 0, 0, 1], 80).into(), Weight::new(7))];
    let listen = [([0, 0, 0, 0], 8080).into()];
    let mut rows = EndpointRows::new(tables.clone());
    let snapshot =
        Snapshot::new(1, Plan::quick(&listen, &targets), &mut rows).expect("rows enough");
    let now = clock::now();
    let mut balancer = Balancer::new(tables.clone(), 0, 1);
    let lease = balancer
        .pick(&snapshot.backends()[0], now)
        .expect("an endpoint");
    balancer.finish(lease, Outcome::Failure, now);
    Observed {
        instance: "blue".into(),
        started: now,
        serving: Arc::new(Serving::new(Arc::new(snapshot), 0)),
        tables,
        workers: vec![Arc::default()],
        access_log: None,
        ebpf: Box::new(EbpfStatus::default),
    }
}

fn start() -> Admin {
    let sockets = AdminSockets::bind(
        &AdminAddresses {
            admin: ANY_PORT,
            metrics: ANY_PORT,
            readiness: ANY_PORT,
        },
        |_| None,
    )
    .expect("loopback has free ports");
    let addresses = sockets.addresses();
    let readiness = Readiness::default();
    let quits = Arc::new(AtomicUsize::new(0));
    let control = Control {
        observed: observed(),
        readiness: readiness.clone(),
        reloads: Reloads::new(None, None).0,
        shutdown: Box::new({
            let quits = quits.clone();
            move || {
                quits.fetch_add(1, SeqCst);
            }
        }),
    };
    Admin {
        addresses,
        readiness,
        quits,
        _thread: AdminThread::start(sockets, control).expect("a thread"),
    }
}

/// The status and the body.
fn ask(address: Option<SocketAddr>, request: &str) -> (String, String) {
    let mut stream = TcpStream::connect(address.expect("switched on")).expect("a listener");
    write!(stream, "{request} HTTP/1.0\r\n\r\n").expect("a reader");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head");
    let status = head.split(' ').nth(1).expect("a status");
    (status.to_owned(), body.to_owned())
}

#[test]
fn the_dump_says_what_is_configured_and_what_is_known() {
    let admin = start();
    let text = fetch_dump(admin.addresses.admin.expect("switched on")).expect("a dump");
    let dump: ConfigDump = serde_json::from_str(&text).expect("its own format");
    assert_eq!(dump.instance, "blue");
    assert_eq!(dump.listeners[0].backends, ["default/default"]);
    let endpoint = &dump.backends[0].endpoints[0];
    assert_eq!(endpoint.endpoint, "10.0.0.1:80");
    assert_eq!(endpoint.weight, 7);
    assert_eq!(endpoint.health_score, 0.7);
    assert_eq!(endpoint.attempts.failed, 1);
    assert_eq!(endpoint.latency_ms, None);
}

#[test]
fn an_explanation_says_how_endpoints_stand() {
    let admin = start();
    let address = admin.addresses.admin.expect("switched on");
    let text = fetch(address, "/explain?backend=default%2Fdefault&picks=0").expect("an answer");
    let explanation: Explanation = serde_json::from_str(&text).expect("its own format");
    let endpoint = &explanation.backends[0].endpoints[0];
    assert_eq!(endpoint.endpoint, "10.0.0.1:80");
    assert_eq!(endpoint.state, StateName::Candidate);
    assert_eq!((endpoint.terms.score, endpoint.chance), (0.7, 1.0));
    assert_eq!(explanation.backends[0].method.as_deref(), Some("p2c"));
}

#[test]
fn a_backend_that_is_not_there_cannot_be_explained() {
    let admin = start();
    let address = admin.addresses.admin.expect("switched on");
    let error = fetch(address, "/explain?backend=shop&picks=0").expect_err("no such backend");
    assert_eq!(
        error.to_string(),
        "no backend `shop`; there is: default/default"
    );
    let (status, body) = ask(Some(address), "GET /explain?backend=default&picks=many");
    assert_eq!((&*status, &*body), ("400", "picks: write 0 to 1000\n"));
}

#[test]
fn metrics_and_health_answer_on_their_own_addresses() {
    let admin = start();
    let (status, body) = ask(admin.addresses.metrics, "GET /metrics");
    assert_eq!(status, "200");
    assert!(body.contains("weir_endpoint_health{"), "{body}");
    assert_eq!(
        ask(admin.addresses.admin, "GET /healthz"),
        ("200".into(), "ok\n".into())
    );
    assert_eq!(ask(admin.addresses.admin, "GET /metrics").0, "404");
}

#[test]
fn readiness_follows_the_proxy() {
    let admin = start();
    let status = || ask(admin.addresses.readiness, "GET /healthz/ready").0;
    assert_eq!(status(), "503");
    admin.readiness.set(true);
    assert_eq!(status(), "200");
    admin.readiness.set(false);
    assert_eq!(status(), "503");
}

#[test]
fn only_a_post_to_quitquitquit_shuts_down() {
    let admin = start();
    assert_eq!(ask(admin.addresses.admin, "GET /quitquitquit").0, "405");
    assert_eq!(admin.quits.load(SeqCst), 0);
    assert_eq!(ask(admin.addresses.admin, "POST /quitquitquit").0, "200");
    assert_eq!(admin.quits.load(SeqCst), 1);
}

#[test]
fn a_port_in_use_is_an_error_that_names_flag_and_address() {
    let taken = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = taken.local_addr().expect("bound");
    let error = AdminSockets::bind(
        &AdminAddresses {
            admin: None,
            metrics: Some(address),
            readiness: None,
        },
        |_| None,
    )
    .expect_err("the port is taken");
    let text = error.to_string();
    assert!(text.contains(&format!("--metrics {address}")), "{text}");
    assert!(text.contains("--metrics off"), "{text}");
}

#[test]
fn what_is_switched_off_does_not_listen() {
    let sockets = AdminSockets::bind(
        &AdminAddresses {
            admin: None,
            metrics: None,
            readiness: None,
        },
        |_| None,
    )
    .expect("nothing to bind");
    assert_eq!(sockets.addresses().admin, None);
}

#[test]
fn the_sockets_are_free_again_once_the_thread_is_dropped() {
    let admin = start();
    let address = admin.addresses.admin.expect("switched on");
    // A connection kept open must not hold the thread up.
    let _idle = TcpStream::connect(address).expect("a listener");
    drop(admin);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn nobody_at_the_admin_address_is_an_error_with_address_and_cause() {
    let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let address = free.local_addr().expect("bound");
    drop(free);
    let text = fetch_dump(address).expect_err("nobody there").to_string();
    assert!(text.contains(&address.to_string()), "{text}");
    assert!(text.contains("refused"), "{text}");
}

#[test]
fn somebody_else_at_the_admin_address_is_told_apart() {
    let admin = start();
    let error = fetch_dump(admin.addresses.metrics.expect("switched on"));
    let text = error.expect_err("no dump there").to_string();
    assert!(text.contains("404"), "{text}");
}

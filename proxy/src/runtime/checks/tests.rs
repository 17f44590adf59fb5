//! Checks of real listeners on loopback.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use super::probe::{Fault, ask};
use super::*;
use crate::check::{HttpQuestion, Question, StatusRange};

fn check(question: Question) -> ActiveCheck {
    ActiveCheck {
        question,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(5),
        healthy_threshold: 1,
        unhealthy_threshold: 1,
    }
}

fn http() -> ActiveCheck {
    check(Question::Http(HttpQuestion {
        path: "/healthz".into(),
        host: None,
        expected: [StatusRange::DEFAULT].into(),
    }))
}

/// Asks an endpoint that answers with these bytes, whatever it is asked.
fn ask_one_that_says(answer: &'static str, check: &ActiveCheck) -> Result<(), Fault> {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("somebody asks");
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(answer.as_bytes());
    });
    block_on(ask(address, check))
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

#[test]
fn the_final_status_decides() {
    for passing in [
        "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        "HTTP/1.0 204 No Content\r\n\r\n",
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 302 Found\r\nContent-Length: 9\r\n\r\nno",
    ] {
        ask_one_that_says(passing, &http()).expect(passing);
    }
    let fault = ask_one_that_says("HTTP/1.1 500 Oh\r\n\r\n", &http()).expect_err("a 500");
    let said = fault.to_string();
    assert_eq!(
        said,
        "GET /healthz expecting 200-399, but the status is 500"
    );
    assert!(!fault.is_ours());
}

#[test]
fn what_is_no_answer_fails() {
    let closed = ask_one_that_says("", &http());
    assert!(
        matches!(closed, Err(Fault::Closed | Fault::Broken(_))),
        "{closed:?}"
    );
    let garbage = ask_one_that_says("220 mail.example ESMTP\r\n\r\n", &http());
    assert!(matches!(garbage, Err(Fault::Malformed(_))), "{garbage:?}");
}

#[test]
fn a_connection_is_enough_for_a_check_by_tcp() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    block_on(ask(address, &check(Question::Tcp))).expect("somebody listens");
    drop(listener);
    let refused = block_on(ask(address, &check(Question::Tcp)));
    assert!(matches!(&refused, Err(Fault::Connect(_))), "{refused:?}");
}

#[test]
fn an_endpoint_that_takes_too_long_fails() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("bound");
    let impatient = ActiveCheck {
        timeout: Duration::from_millis(20),
        ..http()
    };
    let answer = block_on(ask(address, &impatient));
    assert!(matches!(answer, Err(Fault::Timeout(_))), "{answer:?}");
}

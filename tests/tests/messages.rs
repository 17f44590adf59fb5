//! Requests and responses go through unchanged: bodies of either framing, responses without one, keep-alive,
//! pipelining, HTTP/1.0, and the fields that are for one hop only.

use std::io;
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::Result;
use weir_tests::endpoint::scripts::{answers_after, echo, script};
use weir_tests::endpoint::{Exchange, Next};
use weir_tests::message::{Framing, Head};
use weir_tests::pattern;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};

const NEEDS: &[Need] = &[Need::Root];

#[test]
fn bodies_of_either_framing_come_back_as_they_went() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(echo)])?;
    let mut client = scenario.client()?;
    for length in [0, 1, 100, 16 * 1024, 64 * 1024 + 1, 200_000] {
        let body = pattern::at(7, length);
        let answer = client.request("POST", "/", "", body)?;
        assert_eq!(answer.status(), 200);
        assert!(answer.body == body, "{length} bytes with a length");

        let mut message =
            b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
        for piece in body.chunks(3000) {
            message.extend_from_slice(format!("{:x};note=1\r\n", piece.len()).as_bytes());
            message.extend_from_slice(piece);
            message.extend_from_slice(b"\r\n");
        }
        message.extend_from_slice(b"0\r\n\r\n");
        client.wire.send(&message)?;
        let answer = client.response("POST")?;
        assert_eq!(answer.status(), 200);
        assert_eq!(answer.head.field("transfer-encoding"), Some("chunked"));
        assert!(answer.body == body, "{length} bytes in chunks");
    }
    let seen = scenario.endpoints[0].seen();
    assert_eq!(seen.requests(), 12);
    assert_eq!(seen.connections(), 1, "one client needs one connection");
    Ok(())
}

#[test]
fn responses_without_a_body_leave_the_connection_usable() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(|exchange| {
        let reply: &[u8] = match exchange.head.target() {
            "/204" => b"HTTP/1.1 204 No Content\r\n\r\n",
            "/304" => b"HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\netag: \"x\"\r\n\r\n",
            "/head" => b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n",
            _ => b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
        };
        exchange.send(reply)?;
        Ok(Next::Keep)
    })])?;
    let mut client = scenario.client()?;
    assert_eq!(client.get("/204")?.status(), 204);
    let not_modified = client.get("/304")?;
    assert_eq!(not_modified.status(), 304);
    assert_eq!(not_modified.head.field("etag"), Some("\"x\""));
    let head = client.request("HEAD", "/head", "", b"")?;
    assert_eq!(head.head.field("content-length"), Some("1000"));
    assert_eq!(client.get("/after")?.text(), "ok");
    assert_eq!(scenario.endpoints[0].seen().connections(), 1);
    Ok(())
}

#[test]
fn pipelined_requests_are_answered_in_order_and_none_is_lost() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(|exchange| {
        let target = exchange.head.target().to_owned();
        exchange.respond(200, target.as_bytes())
    })])?;
    let mut client = scenario.client()?;
    let requests: String = (0..200)
        .map(|number| format!("GET /{number} HTTP/1.1\r\nhost: a\r\n\r\n"))
        .collect();
    client.wire.send(requests.as_bytes())?;
    for number in 0..200 {
        assert_eq!(client.response("GET")?.text(), format!("/{number}"));
    }
    Ok(())
}

#[test]
fn the_client_decides_whether_its_connection_stays() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![answers_after(Duration::ZERO)])?;
    let mut closing = scenario.client()?;
    let answer = closing.request("GET", "/", "connection: close\r\n", b"")?;
    assert_eq!(answer.status(), 200);
    assert!(closing.is_closed());

    let mut old = scenario.client()?;
    old.wire.send(b"GET / HTTP/1.0\r\n\r\n")?;
    assert_eq!(old.response("GET")?.status(), 200);
    assert!(old.is_closed(), "HTTP/1.0 closes unless asked otherwise");

    let mut old = scenario.client()?;
    for _ in 0..2 {
        old.wire
            .send(b"GET / HTTP/1.0\r\nconnection: keep-alive\r\n\r\n")?;
        assert_eq!(old.response("GET")?.status(), 200);
    }
    Ok(())
}

#[test]
fn a_body_that_ends_with_the_endpoints_connection_arrives_whole() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(|exchange| {
        exchange.send(b"HTTP/1.1 200 OK\r\n\r\n")?;
        for _ in 0..10 {
            exchange.send(&[b'z'; 10_000])?;
        }
        Ok(Next::Close)
    })])?;
    let mut client = scenario.client()?;
    for _ in 0..2 {
        let answer = client.get("/")?;
        assert_eq!(answer.head.field("transfer-encoding"), Some("chunked"));
        assert_eq!(answer.body.len(), 100_000, "and the connection stays");
    }
    // An HTTP/1.0 client knows no chunks: for it the connection ends the body.
    let mut old = scenario.client()?;
    old.wire.send(b"GET / HTTP/1.0\r\n\r\n")?;
    let (head, framing) = old.response_head("GET")?;
    assert_eq!(framing, Framing::UntilClose, "{head:?}");
    assert_eq!(old.wire.read_body(framing, |_| {})?, 100_000);
    Ok(())
}

#[test]
fn fields_for_one_hop_stay_on_it_and_the_client_is_named() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let heads: Arc<Mutex<Vec<Head>>> = Arc::default();
    let kept = heads.clone();
    let scenario = Scenario::plain(vec![script(move |exchange| {
        kept.lock().expect("no panic").push(exchange.head.clone());
        exchange.send(
            b"HTTP/1.1 200 OK\r\nconnection: x-hop\r\nx-hop: 1\r\nx-end: 2\r\n\
              keep-alive: timeout=5\r\ncontent-length: 0\r\n\r\n",
        )?;
        Ok(Next::Keep)
    })])?;
    let mut client = scenario.client()?;
    let fields = "connection: x-mine, keep-alive\r\nx-mine: 1\r\nx-yours: 2\r\nproxy-connection: keep-alive\r\n\
                  te: trailers, gzip\r\nupgrade: h2c\r\n";
    let answer = client.request("GET", "/path?query=1", fields, b"")?;
    assert_eq!(answer.head.field("x-hop"), None);
    assert_eq!(answer.head.field("keep-alive"), None);
    assert_eq!(answer.head.field("x-end"), Some("2"));

    let heads = heads.lock().expect("no panic");
    let head = &heads[0];
    assert_eq!(head.start, "GET /path?query=1 HTTP/1.1");
    assert_eq!(head.field("x-mine"), None);
    assert_eq!(head.field("proxy-connection"), None);
    assert_eq!(head.field("upgrade"), None);
    assert_eq!(head.field("x-yours"), Some("2"));
    assert_eq!(head.all("host").collect::<Vec<_>>(), ["weir.test"]);
    Ok(())
}

#[test]
fn interim_responses_are_passed_on_in_order() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(continues)])?;
    let mut client = scenario.client()?;
    client
        .wire
        .send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 5\r\n\r\n")?;
    let statuses: Vec<u16> =
        std::iter::repeat_with(|| Ok(client.response_head("POST")?.0.status()))
            .take(2)
            .collect::<io::Result<_>>()?;
    assert_eq!(statuses, [100, 103]);
    client.wire.send(b"hello")?;
    assert_eq!(client.response("POST")?.text(), "hello");
    Ok(())
}

fn continues(exchange: &mut Exchange<'_>) -> io::Result<Next> {
    exchange.send(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    exchange.send(b"HTTP/1.1 103 Early Hints\r\nlink: </a.css>\r\n\r\n")?;
    echo(exchange)
}

//! Endpoints that break the rules or do not answer: each gives its own status within its deadline, and costs nobody
//! else anything.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;
use weir_tests::client;
use weir_tests::endpoint::Next;
use weir_tests::endpoint::scripts::{answers_after, never_answer, script};
use weir_tests::scenario::{PORT, Scenario};
use weir_tests::skip::{Need, can_run};
use weir_tests::topology::Star;
use weir_tests::wait::becomes_true;
use weir_tests::weir::{Options, Weir};

const NEEDS: &[Need] = &[Need::Root];

/// Far above any deadline the scenarios set, far below a hang.
const PROMPT: Duration = Duration::from_secs(5);

#[test]
fn an_endpoint_that_closes_within_its_head_gives_502() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    for end in [Next::Close, Next::Reset] {
        let scenario = Scenario::plain(vec![script(move |exchange| {
            exchange.send(b"HTTP/1.1 200 OK\r\nconte")?;
            Ok(end)
        })])?;
        let mut client = scenario.client()?;
        let start = Instant::now();
        let answer = client.get("/")?;
        assert_eq!(answer.status(), 502, "{end:?}: {}", answer.text());
        assert!(start.elapsed() < PROMPT);
        // The fault was not the client's: its connection stays.
        assert_eq!(client.get("/")?.status(), 502);
    }
    Ok(())
}

#[test]
fn an_endpoint_that_closes_within_a_body_ends_the_clients_connection_short() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let heads: [&[u8]; 2] = [
        b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n0123456789",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\na\r\n0123456789\r\n",
    ];
    for head in heads {
        let scenario = Scenario::plain(vec![script(move |exchange| {
            exchange.send(head)?;
            // Long enough for these bytes to be on their way before the end is known.
            std::thread::sleep(Duration::from_millis(100));
            Ok(Next::Close)
        })])?;
        let mut client = scenario.client()?;
        client.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
        let (_, framing) = client.response_head("GET")?;
        let mut came = Vec::new();
        let ended = client
            .wire
            .read_body(framing, |piece| came.extend_from_slice(piece));
        assert!(ended.is_err(), "a short body must not look whole");
        assert_eq!(came, b"0123456789", "what came before the end is passed on");
        let failed = becomes_true(PROMPT, || {
            scenario
                .dump()
                .is_ok_and(|dump| dump[0].attempts.failed == 1 && dump[0].pending == 0)
        });
        assert!(failed, "a truncated body is a failure of the endpoint");
    }
    Ok(())
}

#[test]
fn an_endpoint_that_never_answers_gives_504_at_its_deadline() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::start(vec![script(never_answer)], |_, mut options| {
        options.more = words(&["--first-byte-timeout", "300ms"]);
        options
    })?;
    let mut client = scenario.client()?;
    let start = Instant::now();
    let answer = client.get("/")?;
    assert_eq!(answer.status(), 504, "{}", answer.text());
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(300), "{waited:?}");
    assert!(waited < PROMPT, "{waited:?}");
    let dump = &scenario.dump()?[0];
    assert_eq!((dump.attempts.failed, dump.pending), (1, 0));
    Ok(())
}

#[test]
fn an_endpoint_that_refuses_gives_502_and_one_that_is_silent_504() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let star = Star::new(1)?;
    let host = &star.endpoints[0];
    let listen = SocketAddr::new(star.proxy_address(), PORT);
    let start = |to: SocketAddr| {
        let mut options = Options::new(listen, [to]);
        options.more = words(&["--connect-timeout", "300ms"]);
        Weir::start(&star.proxy.place(), &options)
    };
    let get = || client::get(&star.client.namespace.place(), listen, "/");

    let refusing = start(SocketAddr::new(host.address(), 9))?;
    assert_eq!(get()?.status(), 502);
    drop(refusing);

    // The kernel drops the handshakes of a listener whose queue is full, as a black hole would.
    let full = host
        .namespace
        .place()
        .run(|| full_listener(host.address()))?;
    let _silent = start(full.listener.local_addr()?)?;
    let began = Instant::now();
    assert_eq!(get()?.status(), 504);
    assert!(began.elapsed() < PROMPT, "{:?}", began.elapsed());
    Ok(())
}

struct FullListener {
    listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

fn full_listener(address: std::net::IpAddr) -> Result<FullListener> {
    use socket2::{Domain, Socket, Type};
    let socket = Socket::new(
        Domain::for_address(SocketAddr::new(address, 0)),
        Type::STREAM,
        None,
    )?;
    socket.bind(&SocketAddr::new(address, 0).into())?;
    socket.listen(0)?;
    let listener: TcpListener = socket.into();
    let target = listener.local_addr()?;
    let mut waiting = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&target, Duration::from_millis(200)) {
        waiting.push(stream);
    }
    Ok(FullListener {
        listener,
        _waiting: waiting,
    })
}

#[test]
fn with_every_endpoint_drained_the_answer_is_503() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::start(vec![answers_after(Duration::ZERO)], |_, mut options| {
        options.to = options.to.iter().map(|to| format!("{to}@0")).collect();
        options
    })?;
    let mut client = scenario.client()?;
    assert_eq!(client.get("/")?.status(), 503);
    assert_eq!(scenario.endpoints[0].seen().requests(), 0);
    Ok(())
}

#[test]
fn an_idle_connection_that_died_meanwhile_costs_no_request() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    // Announces keep-alive, and closes all the same.
    let scenario = Scenario::plain(vec![script(|exchange| {
        exchange.respond(200, b"once")?;
        Ok(Next::Close)
    })])?;
    let mut client = scenario.client()?;
    for _ in 0..50 {
        assert_eq!(client.get("/")?.status(), 200);
    }
    Ok(())
}

#[test]
fn a_response_that_comes_before_the_request_ended_is_passed_on() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(|exchange| {
        exchange
            .send(b"HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\nconnection: close\r\n\r\nbig")?;
        Ok(Next::Close)
    })])?;
    let mut client = scenario.client()?;
    client
        .wire
        .send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000\r\n\r\nfirst bytes")?;
    let answer = client.response("POST")?;
    assert_eq!(answer.status(), 413);
    assert_eq!(answer.text(), "big");
    Ok(())
}

#[test]
fn a_client_that_goes_away_takes_its_attempt_along() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let scenario = Scenario::plain(vec![script(never_answer)])?;
    let mut client = scenario.client()?;
    client.wire.send(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")?;
    let pending = |count| {
        becomes_true(PROMPT, || {
            scenario.dump().is_ok_and(|dump| dump[0].pending == count)
        })
    };
    assert!(pending(1), "the attempt is under way");
    drop(client);
    assert!(pending(0), "and is given up with its client");
    let attempts = &scenario.dump()?[0].attempts;
    assert_eq!((attempts.failed, attempts.neutral), (0, 1));
    Ok(())
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

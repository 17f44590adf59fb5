//! Requests that are not passed on: each has its status, ends the connection where its bytes cannot be trusted any
//! more, and touches no endpoint.

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;

#[test]
fn what_two_hops_could_read_differently_is_refused_and_the_connection_ended() {
    let long_uri = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(17_000));
    let field = format!("A: {}\r\n", "x".repeat(1000));
    let long_head = format!("GET / HTTP/1.1\r\nHost: a\r\n{}", field.repeat(70));
    let many_fields = format!(
        "GET / HTTP/1.1\r\nHost: a\r\n{}\r\n",
        "A: b\r\n".repeat(200)
    );
    let rows = [
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "length-and-coding",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
            400,
            "length-repeated",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n",
            400,
            "length-invalid",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
            400,
            "coding-invalid",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
            501,
            "coding-unknown",
        ),
        (
            "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
            400,
            "coding-in-http10",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n",
            400,
            "field-fold",
        ),
        ("GET / HTTP/1.1\r\nHost: a\nA: b\r\n\r\n", 400, "bare-lf"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nA: \0\r\n\r\n",
            400,
            "control-byte",
        ),
        (
            "GET / HTTP/1.1\r\nHost : a\r\n\r\n",
            400,
            "space-before-colon",
        ),
        ("GET / HTTP/1.1\r\n\r\n", 400, "host-missing"),
        (
            "GET / HTTP/2.0\r\nHost: a\r\n\r\n",
            505,
            "version-unsupported",
        ),
        (
            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
            501,
            "connect-unsupported",
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\n\r\n",
            417,
            "expectation-unsupported",
        ),
        (&long_uri, 414, "uri-too-long"),
        (&long_head, 431, "head-too-large"),
        (&many_fields, 431, "too-many-fields"),
    ];
    for (request, status, cause) in rows {
        let mut world = World::new();
        let client = world.client();
        world.send(client, format!("{request}{}", get("/smuggled")));
        let answer = world.read(client);
        assert_local_reply(&answer, status, cause);
        assert!(says_close(&answer), "{cause}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{cause}");
        assert_eq!(world.ending(client), Ending::Shutdown, "{cause}");
        assert!(world.upstreams.is_empty(), "{cause}");
        assert_eq!(world.figures(0).leases.picked, 0);
    }
}

#[test]
fn a_refusal_can_be_read_although_the_client_goes_on_sending() {
    let mut world = World::new();
    let client = world.client();
    world.stall(client);
    world.send(client, "NONSENSE\r\n\r\n");
    for _ in 0..100 {
        world.send(client, [b'x'; 10_000]);
    }
    assert!(!world.is_paused(client));
    let queued = world.queued(client);
    world.let_through(client, queued);
    assert_local_reply(&world.read(client), 400, "request-line");
    world.finish(client);
    assert_eq!(world.ending(client), Ending::Close);
}

#[test]
fn a_byte_that_can_never_be_right_is_refused_at_once() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, "\x16\x03\x01\x00\x00");
    assert_local_reply(&world.read(client), 400, "control-byte");
}

#[test]
fn nothing_to_pick_is_unavailable_and_costs_no_connection() {
    for weights in [vec![], vec![0], vec![0, 0]] {
        let mut world = World::of(Setup {
            weights,
            ..Setup::default()
        });
        let client = world.client();
        for asked in 1..3 {
            world.send(client, get("/"));
            let answer = world.read(client);
            assert_local_reply(&answer, 503, "no-endpoint");
            assert!(!says_close(&answer));
            assert_eq!(world.counters.no_endpoint.value(), asked);
        }
        assert!(world.is_open(client) && world.upstreams.is_empty());
    }
}

#[test]
fn a_drained_endpoint_gets_nothing() {
    let mut world = World::of(Setup {
        weights: vec![0, 3, 1],
        ..Setup::default()
    });
    let client = world.client();
    for _ in 0..50 {
        world.send(client, get("/"));
        world.answer(&ok(""));
    }
    assert_eq!(world.figures(0).leases.picked, 0);
    assert!(world.figures(1).leases.picked > world.figures(2).leases.picked);
}

#[test]
fn an_upload_nobody_can_take_ends_the_connection() {
    let mut world = World::of(Setup {
        weights: vec![0],
        ..Setup::default()
    });
    let client = world.client();
    let post = with_body("POST", "0123456789");
    world.send(client, &post[..post.len() - 5]);
    let answer = world.read(client);
    assert_local_reply(&answer, 503, "no-endpoint");
    assert!(says_close(&answer));
    assert_eq!(world.ending(client), Ending::Shutdown);
}

#[test]
fn the_answer_to_a_head_request_has_no_body() {
    let mut world = World::of(Setup {
        weights: vec![0],
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
    let answer = world.read(client);
    assert_local_reply(&answer, 503, "no-endpoint");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    assert!(!answer.contains("Content-Length: 0"), "{answer}");
}

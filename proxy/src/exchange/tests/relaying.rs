//! One request, one response: what goes in comes out, byte for byte, on connections that are kept or ended as both
//! sides asked.

use std::time::Duration;

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;

#[test]
fn a_request_reaches_the_endpoint_and_its_response_the_client() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        "GET /a?b=c HTTP/1.1\r\nHost: a\r\nAccept: x\r\n\r\n",
    );
    let endpoint = world.endpoint();
    assert_eq!(
        world.read(endpoint),
        "GET /a?b=c HTTP/1.1\r\nHost: a\r\nAccept: x\r\n\
         X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n"
    );
    let response = "HTTP/1.1 200 Fine\r\nServer: s\r\nContent-Length: 5\r\n\r\nhello";
    world.send(endpoint, response);
    assert_eq!(world.read(client), response);
    assert_eq!(world.outcomes(), [1, 0, 0]);
    assert!(world.is_open(client) && world.is_open(endpoint));
}

#[test]
fn both_connections_carry_the_next_request() {
    let mut world = World::new();
    let client = world.client();
    for number in 0..3 {
        world.send(client, get(format_args!("/{number}")));
        let endpoint = world.endpoint();
        assert_eq!(
            world.read(endpoint),
            forwarded(&get(format_args!("/{number}")))
        );
        world.send(endpoint, ok("x"));
        assert_eq!(world.read(client), ok("x"));
    }
    assert_eq!(world.upstreams.len(), 1);
    assert_eq!(world.counters.upstream_reused.value(), 2);
}

#[test]
fn requests_at_the_same_time_have_connections_of_their_own() {
    let mut world = World::new();
    let clients = [world.client(), world.client()];
    for (client, path) in clients.into_iter().zip(["/0", "/1"]) {
        world.send(client, get(path));
    }
    let [first, second] = world.upstreams[..] else {
        panic!("two connections, not {}", world.upstreams.len());
    };
    assert_eq!(world.figures(0).leases.pending, 2);
    world.send(second, ok("second"));
    world.send(first, ok("first"));
    assert_eq!(world.read(clients[0]), ok("first"));
    assert_eq!(world.read(clients[1]), ok("second"));
}

#[test]
fn the_connection_used_last_is_used_next() {
    let mut world = World::new();
    let clients = [world.client(), world.client()];
    for client in clients {
        world.send(client, get("/"));
    }
    let [first, second] = world.upstreams[..] else {
        panic!("two connections");
    };
    world.send(second, ok(""));
    world.send(first, ok(""));
    world.read(first);
    world.send(clients[1], get("/again"));
    assert_eq!(world.read(first), forwarded(&get("/again")));
}

#[test]
fn the_endpoint_is_told_of_the_request_while_the_connection_is_made() {
    let mut world = World::of(Setup {
        connects: Connects::Hang,
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    assert_eq!(world.figures(0).leases.pending, 1);
    let endpoint = world.endpoint();
    assert_eq!(world.queued(endpoint), forwarded(&get("/")).len());
    world.connects = Connects::Succeed;
    world.settle();
    assert_eq!(world.read(endpoint), forwarded(&get("/")));
    world.send(endpoint, ok(""));
}

#[test]
fn a_client_that_asks_to_close_is_answered_and_closed() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let endpoint = world.endpoint();
    assert_eq!(world.read(endpoint), forwarded(&get("/")));
    world.send(endpoint, ok("x"));
    let answer = world.read(client);
    assert!(
        says_close(&answer) && answer.ends_with("\r\n\r\nx"),
        "{answer}"
    );
    assert_eq!(world.ending(client), Ending::Shutdown);
    assert!(world.is_open(endpoint), "the endpoint's connection stays");
    world.finish(client);
    assert_eq!(world.ending(client), Ending::Close);
}

#[test]
fn an_endpoint_that_asks_to_close_is_not_used_again() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(
        endpoint,
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
    );
    assert_eq!(world.read(client), ok("x"), "the client's connection stays");
    assert_eq!(world.ending(endpoint), Ending::Close);
    world.send(client, get("/"));
    assert_ne!(world.endpoint(), endpoint);
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn an_http_1_0_client_is_closed_unless_it_asks_to_stay() {
    for (ask, stays) in [("", false), ("Connection: keep-alive\r\n", true)] {
        let mut world = World::new();
        let client = world.client();
        world.send(client, format!("GET / HTTP/1.0\r\nHost: a\r\n{ask}\r\n"));
        let endpoint = world.endpoint();
        assert_eq!(
            world.read(endpoint),
            forwarded(&get("/")),
            "always HTTP/1.1"
        );
        world.send(endpoint, ok("x"));
        let answer = world.read(client);
        assert_eq!(says_close(&answer), !stays, "{answer}");
        assert_eq!(answer.contains("Connection: keep-alive\r\n"), stays);
        assert_eq!(world.is_open(client), stays);
        assert!(world.is_open(endpoint));
    }
}

#[test]
fn an_http_1_0_request_without_a_host_names_the_endpoint() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, "GET / HTTP/1.0\r\n\r\n");
    let endpoint = world.endpoint();
    let request = world.read(endpoint);
    assert!(
        request.starts_with("GET / HTTP/1.1\r\nHost: 10.0.0.1:8080\r\n"),
        "{request}"
    );
}

#[test]
fn an_idle_client_connection_costs_no_lease() {
    let mut world = World::new();
    let client = world.client();
    world.advance(Duration::from_secs(10));
    assert_eq!(world.figures(0).leases.picked, 0);
    assert!(world.upstreams.is_empty());
    world.finish(client);
    assert_eq!(world.ending(client), Ending::Close);
}

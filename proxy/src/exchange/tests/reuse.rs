//! Idle connections to endpoints may be dead without our knowing. A request put on one is sent again if that cannot do
//! anything twice - once, on a fresh connection - and never otherwise.

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::seam::ConnId;
use crate::seam::ConnectFault;

/// A client, and an idle connection to the endpoint.
fn warm() -> (World, ConnId, ConnId) {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, ok(""));
    world.read(client);
    world.read(endpoint);
    (world, client, endpoint)
}

/// What a request that was put on a dying connection comes to: what the client is told at once, and what is sent again.
fn after_death(pieces: &[&str]) -> (String, String) {
    let (mut world, client, idle) = warm();
    for piece in pieces {
        world.send(client, piece);
    }
    assert_ne!(world.read(idle), "", "the idle connection was used");
    world.finish(idle);
    let fresh = world.endpoint();
    let again = if fresh == idle {
        String::new()
    } else {
        assert_eq!(world.counters.stale_retries.value(), 1);
        let again = world.read(fresh);
        world.send(fresh, ok("again"));
        again
    };
    (world.read(client), again)
}

#[test]
fn a_get_is_sent_again() {
    for end in [World::finish, World::reset] {
        let (mut world, client, idle) = warm();
        world.send(client, get("/again"));
        assert_eq!(world.read(idle), forwarded(&get("/again")));
        end(&mut world, idle);
        assert_eq!(world.read(client), "", "the client notices nothing");
        let fresh = world.endpoint();
        assert_ne!(fresh, idle);
        assert_eq!(world.read(fresh), forwarded(&get("/again")));
        world.send(fresh, ok("x"));
        assert_eq!(world.read(client), ok("x"));
        assert_eq!(world.outcomes(), [2, 0, 0], "one lease for both sends");
        assert!(world.ending(idle) >= Ending::Close);
    }
}

#[test]
fn a_put_is_sent_again_with_its_body() {
    let put = with_body("PUT", "0123456789");
    let (answer, again) = after_death(&[&put]);
    assert_eq!(answer, ok("again"));
    assert_eq!(again, forwarded(&put));
}

#[test]
fn what_had_left_of_a_put_is_sent_again_and_the_rest_once() {
    let (mut world, client, idle) = warm();
    let put = with_body("PUT", "0123456789");
    let (start, rest) = put.split_at(put.len() - 4);
    world.send(client, start);
    world.finish(idle);
    let fresh = world.endpoint();
    assert_eq!(world.read(fresh), forwarded(start));
    world.send(client, rest);
    assert_eq!(world.read(fresh), rest);
    world.send(fresh, ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_put_whose_body_was_too_long_to_keep_is_not_sent_again() {
    let put = with_body("PUT", &"x".repeat(70_000));
    let (answer, again) = after_death(&[&put]);
    assert_local_reply(&answer, 502, "upstream-closed");
    assert_eq!(again, "");
}

#[test]
fn a_post_is_not_sent_again_once_any_of_its_body_has_left() {
    let (answer, again) = after_death(&[&with_body("POST", "order")]);
    assert_local_reply(&answer, 502, "upstream-closed");
    assert_eq!(again, "");
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (answer, again) = after_death(&[chunked, "1\r\n"]);
    assert_local_reply(&answer, 502, "upstream-closed");
    assert_eq!(again, "");
}

#[test]
fn a_post_none_of_whose_body_has_left_is_sent_again() {
    let (mut world, client, idle) = warm();
    let post = with_body("POST", "order");
    let (head, body) = post.split_at(post.len() - 5);
    world.send(client, head);
    world.finish(idle);
    let fresh = world.endpoint();
    assert_eq!(world.read(fresh), forwarded(head));
    world.send(client, body);
    assert_eq!(world.read(fresh), body);
    world.send(fresh, ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_post_without_a_body_is_not_sent_again() {
    for post in [
        "POST / HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
        "ORDER / HTTP/1.1\r\nHost: a\r\n\r\n",
    ] {
        let (answer, again) = after_death(&[post]);
        assert_local_reply(&answer, 502, "upstream-closed");
        assert_eq!(again, "", "{post}");
    }
}

#[test]
fn a_request_is_not_sent_a_third_time() {
    let (mut world, client, idle) = warm();
    world.send(client, get("/again"));
    world.finish(idle);
    let fresh = world.endpoint();
    world.finish(fresh);
    assert_local_reply(&world.read(client), 502, "upstream-closed");
    assert_eq!(world.endpoint(), fresh);
    assert_eq!(world.counters.stale_retries.value(), 1);
    assert_eq!(world.outcomes(), [1, 1, 0]);
}

#[test]
fn a_request_that_came_back_with_anything_is_not_sent_again() {
    let interim = "HTTP/1.1 103 Early Hints\r\n\r\n";
    for start in ["H", "HTTP/1.1 200 OK\r\n", interim] {
        let (mut world, client, idle) = warm();
        world.send(client, get("/"));
        world.send(idle, start);
        world.finish(idle);
        let answer = world.read(client);
        let answer = answer.strip_prefix(interim).unwrap_or(&answer);
        assert_local_reply(answer, 502, "upstream-closed");
        assert_eq!(world.endpoint(), idle, "{start}");
    }
}

#[test]
fn a_fresh_connection_that_dies_is_no_reason_to_send_again() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.finish(endpoint);
    assert_local_reply(&world.read(client), 502, "upstream-closed");
    assert_eq!(world.endpoint(), endpoint);
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn a_request_sent_again_may_find_nobody() {
    let (mut world, client, idle) = warm();
    world.send(client, get("/"));
    world.connects = Connects::Fail(ConnectFault::Endpoint);
    world.finish(idle);
    assert_local_reply(&world.read(client), 502, "connect-failed");
    assert_eq!(world.outcomes(), [1, 1, 0]);
}

#[test]
fn an_idle_connection_the_endpoint_closes_is_not_used() {
    for end in [World::finish, World::reset] {
        let (mut world, client, idle) = warm();
        end(&mut world, idle);
        assert!(world.ending(idle) >= Ending::Close);
        world.send(client, get("/"));
        let fresh = world.endpoint();
        assert_ne!(fresh, idle);
        world.send(fresh, ok(""));
        assert_eq!(world.counters.stale_retries.value(), 0);
        assert_eq!(world.outcomes(), [2, 0, 0]);
    }
}

#[test]
fn bytes_nobody_asked_for_end_an_idle_connection() {
    let (mut world, client, idle) = warm();
    world.send(idle, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    assert!(world.ending(idle) >= Ending::Close);
    world.send(client, get("/"));
    let fresh = world.endpoint();
    assert_ne!(fresh, idle);
    world.send(fresh, ok("good"));
    assert_eq!(world.read(client), ok("good"));
}

#[test]
fn bytes_behind_a_response_end_the_connection_and_reach_nobody() {
    let mut world = World::new();
    let clients = [world.client(), world.client()];
    world.send(clients[0], get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, format!("{}{}", ok("good"), ok("evil")));
    assert_eq!(world.read(clients[0]), ok("good"));
    assert!(world.ending(endpoint) >= Ending::Close);
    world.send(clients[1], get("/"));
    assert_ne!(world.endpoint(), endpoint);
    assert_eq!(world.read(clients[1]), "");
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn an_idle_connection_is_closed_before_its_endpoint_would() {
    let (mut world, client, idle) = warm();
    world.advance(seconds(29));
    assert!(world.is_open(idle));
    world.advance(seconds(1));
    assert_eq!(world.ending(idle), Ending::Close);
    world.send(client, get("/"));
    assert_ne!(world.endpoint(), idle);
}

#[test]
fn each_endpoint_has_idle_connections_of_its_own() {
    let mut world = World::of(Setup {
        weights: vec![1, 1, 1],
        ..Setup::default()
    });
    let client = world.client();
    for _ in 0..100 {
        world.send(client, get("/"));
        world.answer(&ok(""));
    }
    assert_eq!(world.upstreams.len(), 3, "one connection each is enough");
    let picked: Vec<u64> = (0..3)
        .map(|place| world.figures(place).leases.picked)
        .collect();
    assert!(picked.iter().all(|picked| *picked > 0), "{picked:?}");
    assert_eq!(picked.iter().sum::<u64>(), 100);
}

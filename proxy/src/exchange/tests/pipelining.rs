//! Requests ahead of their turn: answered in order, none lost, and none mistaken for the body of another.

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;

#[test]
fn requests_that_come_together_are_answered_one_after_the_other() {
    let mut world = World::new();
    let client = world.client();
    let requests: String = (0..5)
        .map(|number| get(format_args!("/{number}")))
        .collect();
    world.send(client, requests);
    for number in 0..5 {
        let endpoint = world.endpoint();
        assert_eq!(
            world.read(endpoint),
            forwarded(&get(format_args!("/{number}"))),
            "one at a time"
        );
        let answer = ok(&format!("answer {number}"));
        world.send(endpoint, &answer);
        assert_eq!(world.read(client), answer);
    }
    assert_eq!(world.counters.requests.value(), 5);
    assert_eq!(world.outcomes(), [5, 0, 0]);
}

#[test]
fn the_next_request_may_begin_behind_a_body_and_end_later() {
    let mut world = World::new();
    let client = world.client();
    let next = with_body("PUT", "second");
    let (start, rest) = next.split_at(20);
    world.send(client, format!("{}{start}", with_body("POST", "first")));
    let endpoint = world.endpoint();
    assert_eq!(world.read(endpoint), forwarded(&with_body("POST", "first")));
    assert!(world.is_paused(client), "nothing more is wanted for now");
    world.send(client, rest);
    world.send(endpoint, ok("1"));
    assert_eq!(world.read(client), ok("1"));
    assert_eq!(world.read(endpoint), forwarded(&next));
    world.send(endpoint, ok("2"));
    assert_eq!(world.read(client), ok("2"));
    assert!(world.is_open(client) && !world.is_paused(client));
}

#[test]
fn empty_lines_between_requests_are_ignored() {
    let mut world = World::new();
    let client = world.client();
    for _ in 0..3 {
        world.send(client, format!("\r\n{}\r\n", get("/")));
        let endpoint = world.endpoint();
        world.read(endpoint);
        world.send(endpoint, ok(""));
        assert_eq!(world.read(client), ok(""));
    }
}

#[test]
fn a_request_after_a_refused_one_is_not_served() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n{}",
            get("/next")
        ),
    );
    let answer = world.read(client);
    assert_local_reply(&answer, 400, "host-repeated");
    assert_eq!(answer.matches("HTTP/1.1 ").count(), 1);
    assert!(says_close(&answer));
    assert!(world.upstreams.is_empty());
    world.send(client, get("/next"));
    assert_eq!(world.read(client), "");
}

#[test]
fn a_refused_request_does_not_overtake_the_answer_before_it() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, format!("{}GARBAGE\r\n\r\n", get("/")));
    assert_eq!(world.read(client), "");
    let endpoint = world.endpoint();
    world.send(endpoint, ok("first"));
    let answers = world.read(client);
    let (first, second) = answers.split_at(ok("first").len());
    assert_eq!(first, ok("first"));
    assert_local_reply(second, 400, "request-line");
    assert_eq!(world.ending(client), Ending::Shutdown);
    assert!(world.is_open(endpoint));
}

#[test]
fn every_request_is_answered_while_nothing_can_be_picked() {
    let mut world = World::of(Setup {
        weights: vec![0],
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/").repeat(3));
    let answers = world.read(client);
    assert_eq!(answers.matches("HTTP/1.1 503 ").count(), 3);
    assert!(world.is_open(client));
}

#[test]
fn requests_behind_one_that_asks_to_close_are_not_served() {
    let mut world = World::new();
    let client = world.client();
    let last = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    world.send(client, format!("{last}{}", get("/never")));
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    assert!(says_close(&world.read(client)));
    world.advance(seconds(1));
    assert_eq!(world.counters.requests.value(), 1);
}

#[test]
fn requests_behind_an_answer_that_ends_with_the_connection_are_not_served() {
    let mut world = World::new();
    let client = world.client();
    let old = "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n";
    world.send(client, old.repeat(2));
    let endpoint = world.endpoint();
    world.send(endpoint, "HTTP/1.1 200 OK\r\n\r\nx");
    world.finish(endpoint);
    assert_eq!(
        world.read(client),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nx"
    );
    assert_eq!(world.counters.requests.value(), 1);
}

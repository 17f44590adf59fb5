//! Interim responses: passed on in order, never counted for the final one, and not without end.

use super::wire::Ending;
use super::world::World;
use super::*;

const EARLY_HINTS: &str = "HTTP/1.1 103 Early Hints\r\nLink: </style>\r\n\r\n";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

#[test]
fn a_client_that_waits_for_a_continue_gets_it_from_the_endpoint() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    let endpoint = world.endpoint();
    let head = world.read(endpoint);
    assert!(head.contains("\r\nExpect: 100-continue\r\n"), "{head}");
    assert_eq!(world.read(client), "", "nothing on the endpoint's behalf");
    world.send(endpoint, CONTINUE);
    assert_eq!(world.read(client), CONTINUE);
    world.send(client, "body");
    assert_eq!(world.read(endpoint), "body");
    world.send(endpoint, ok("x"));
    assert_eq!(world.read(client), ok("x"));
    assert!(world.is_open(client) && world.is_open(endpoint));
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn a_client_that_waits_may_be_refused_instead() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n",
    );
    let endpoint = world.endpoint();
    let refusal = "HTTP/1.1 413 Content Too Large\r\nContent-Length: 0\r\n\r\n";
    world.send(endpoint, refusal);
    assert_eq!(world.read(client), refusal);
    assert_eq!(world.ending(client), Ending::Shutdown);
    assert!(
        world.ending(endpoint) >= Ending::Close,
        "it may still wait for the body"
    );
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn early_hints_come_before_the_final_response() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, EARLY_HINTS);
    assert_eq!(world.read(client), EARLY_HINTS);
    world.send(endpoint, format!("{EARLY_HINTS}{}", ok("x")));
    assert_eq!(world.read(client), format!("{EARLY_HINTS}{}", ok("x")));
    assert!(world.is_open(client) && world.is_open(endpoint));
}

#[test]
fn an_http_1_0_client_is_spared_interim_responses() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, "GET / HTTP/1.0\r\nHost: a\r\n\r\n");
    let endpoint = world.endpoint();
    world.send(endpoint, EARLY_HINTS);
    assert_eq!(world.read(client), "");
    world.send(endpoint, ok("x"));
    assert!(world.read(client).starts_with("HTTP/1.1 200 OK\r\n"));
}

#[test]
fn an_endpoint_that_never_gets_to_the_point_is_broken() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, EARLY_HINTS.repeat(1000));
    let answer = world.read(client);
    let (hints, answer) = answer.split_at(answer.rfind("HTTP/1.1").expect("an answer"));
    assert_eq!(hints, EARLY_HINTS.repeat(16));
    assert_local_reply(answer, 502, "too-many-interim-responses");
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn interim_responses_that_trickle_do_not_move_the_deadline() {
    let mut world = World::with_settings(|settings| settings.first_byte = seconds(10));
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    for _ in 0..9 {
        world.advance(seconds(1));
        world.send(endpoint, EARLY_HINTS);
    }
    world.read(client);
    world.advance(seconds(1));
    assert_local_reply(&world.read(client), 504, "first-byte-timeout");
}

#[test]
fn a_switch_nobody_asked_for_is_refused() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\n\r\n");
    let endpoint = world.endpoint();
    assert_eq!(world.read(endpoint), forwarded(&get("/")));
    world.send(
        endpoint,
        "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    );
    assert_local_reply(&world.read(client), 502, "response-head-invalid");
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

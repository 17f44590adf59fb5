//! Connections that become something else than HTTP.

use super::setup::Setup;
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::metrics::{ResponseClass, Unmirrored};
use crate::route::{Filters, Fraction, Handling, Mirror, Rules, Split, Timeouts};
use crate::seam::ConnId;

const SWITCHES: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

fn asks(fields: &str) -> String {
    format!("GET /chat HTTP/1.1\r\nHost: a\r\n{fields}\r\n")
}

fn asks_for_websocket() -> String {
    asks("Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\nSec-WebSocket-Version: 13\r\n")
}

/// A client and an endpoint that have switched.
fn tunnel(setup: Setup) -> (World, ConnId, ConnId) {
    let mut world = World::of(setup);
    let client = world.client();
    world.send(client, asks_for_websocket());
    let endpoint = world.endpoint();
    world.read(endpoint);
    world.send(endpoint, SWITCHES);
    assert_eq!(world.read(client), SWITCHES);
    (world, client, endpoint)
}

#[test]
fn bytes_go_both_ways_once_the_endpoint_has_switched() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, asks_for_websocket());
    let endpoint = world.endpoint();
    let arrived = world.read(endpoint);
    assert!(
        arrived.contains("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"),
        "{arrived}"
    );
    assert!(arrived.contains("\r\nSec-WebSocket-Version: 13\r\n"));
    world.send(client, "too early");
    assert_eq!(world.read(endpoint), "", "it has not switched");
    world.send(endpoint, format!("{SWITCHES}hello"));
    assert_eq!(world.read(client), format!("{SWITCHES}hello"));
    assert_eq!(world.read(endpoint), "too early");
    for text in ["GET / HTTP/1.1\r\n\r\n", "\0\u{1}"] {
        world.send(client, text);
        assert_eq!(world.read(endpoint), text);
        world.send(endpoint, text);
        assert_eq!(world.read(client), text);
    }
    assert_eq!(world.counters.tunnels.value(), 1);
    assert_eq!(world.counters.requests.value(), 1);
    let informational = world.counters.responses.of(ResponseClass::Informational);
    assert_eq!(informational.value(), 1);
    assert_eq!(world.figures(0).leases.pending, 1, "as long as it is open");
}

#[test]
fn each_side_may_end_its_own_first() {
    let (mut world, client, endpoint) = tunnel(Setup::default());
    world.send(client, "last words");
    world.finish(client);
    assert_eq!(world.ending(endpoint), Ending::Shutdown);
    assert_eq!(world.read(endpoint), "last words");
    world.send(endpoint, "answer");
    assert_eq!(world.read(client), "answer");
    world.finish(endpoint);
    assert!(!world.is_open(client) && !world.is_open(endpoint));
    assert_eq!(world.outcomes(), [1, 0, 0]);

    let (mut world, client, endpoint) = tunnel(Setup::default());
    world.send(endpoint, "last words");
    world.finish(endpoint);
    assert_eq!(world.ending(client), Ending::Shutdown);
    world.send(client, "answer");
    assert_eq!(world.read(endpoint), "answer");
    world.finish(client);
    assert!(!world.is_open(client) && !world.is_open(endpoint));
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn a_reset_of_either_side_is_passed_on() {
    let (mut world, client, endpoint) = tunnel(Setup::default());
    world.reset(client);
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 0, 1]);

    let (mut world, client, endpoint) = tunnel(Setup::default());
    world.reset(endpoint);
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn an_endpoint_that_does_not_switch_answers_as_always() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, asks_for_websocket());
    world.send(client, get("/next"));
    world.answer(&ok("no"));
    assert_eq!(world.read(client), ok("no"));
    world.answer(&ok("next"));
    assert_eq!(world.read(client), ok("next"));
    assert!(world.is_open(client));
}

#[test]
fn only_a_client_that_can_mean_it_asks_for_another_protocol() {
    for request in [
        asks("Upgrade: websocket\r\n"),
        asks("Upgrade: websocket\r\nConnection: close\r\n"),
        asks("Upgrade: h2c\r\nConnection: Upgrade\r\n"),
        asks("Upgrade: HTTP/2.0\r\nConnection: Upgrade\r\n"),
        asks("Upgrade: TLS/1.0\r\nConnection: Upgrade\r\n"),
        asks("Upgrade: a, b\r\nConnection: Upgrade\r\n"),
        asks("Upgrade: a\r\nUpgrade: b\r\nConnection: Upgrade\r\n"),
        asks("Upgrade: \r\nConnection: Upgrade\r\n"),
        asks("Upgrade: a\r\nConnection: Upgrade\r\nContent-Length: 1\r\n") + "x",
        asks("Upgrade: a\r\nConnection: Upgrade\r\n").replace("/1.1", "/1.0"),
    ] {
        let mut world = World::new();
        let client = world.client();
        world.send(client, &request);
        let arrived = world.busy_endpoint_read();
        assert!(!arrived.contains("Upgrade"), "{request}{arrived}");
        world.send(world.endpoint(), SWITCHES);
        assert_local_reply(&world.read(client), 502, "response-head-invalid");
    }
}

#[test]
fn an_endpoint_switches_to_what_was_asked_for_or_is_broken() {
    for (asked, given) in [
        ("websocket", "Upgrade: chat\r\n"),
        ("websocket", "Upgrade: websocket, chat\r\n"),
        ("websocket", "Upgrade: websocket\r\nUpgrade: chat\r\n"),
        ("websocket", "Upgrade: websocket/13\r\n"),
        ("websocket", "Upgrade: \r\n"),
        ("websocket", ""),
    ] {
        let mut world = World::new();
        let client = world.client();
        world.send(
            client,
            asks(&format!("Upgrade: {asked}\r\nConnection: Upgrade\r\n")),
        );
        let answer = format!("HTTP/1.1 101 \r\nConnection: Upgrade\r\n{given}\r\n");
        world.send(world.endpoint(), answer);
        assert_local_reply(&world.read(client), 502, "response-head-invalid");
        assert_eq!(world.outcomes(), [0, 1, 0], "{given}");
        assert_eq!(world.counters.tunnels.value(), 0);
    }
    for (asked, given) in [("Chat/2", "chat/2"), ("chat/2", "CHAT")] {
        let mut world = World::new();
        let client = world.client();
        world.send(
            client,
            asks(&format!("Upgrade: {asked}\r\nConnection: Upgrade\r\n")),
        );
        let answer = format!("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: {given}\r\n\r\n");
        world.send(world.endpoint(), &answer);
        assert_eq!(world.read(client), answer);
    }
}

#[test]
fn a_tunnel_in_which_nothing_moves_is_closed_after_its_time() {
    let mut setup = Setup::default();
    setup.settings.tunnel = seconds(300);
    setup.rules = Rules::always(Handling {
        timeouts: Timeouts {
            request: Some(seconds(10)),
            backend_request: Some(seconds(10)),
        },
        ..Split::one(0).into()
    });
    let (mut world, client, endpoint) = tunnel(setup);
    for _ in 0..3 {
        world.advance(seconds(299));
        world.send(endpoint, "ping");
        assert_eq!(world.read(client), "ping");
        world.advance(seconds(299));
        world.send(client, "pong");
        assert_eq!(world.read(endpoint), "pong");
    }
    world.advance(seconds(299));
    assert!(world.is_open(client) && world.is_open(endpoint));
    world.advance(seconds(1));
    assert!(!world.is_open(client) && !world.is_open(endpoint));
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn a_side_that_stops_reading_stops_the_other_and_is_given_up() {
    let (mut world, client, endpoint) = tunnel(Setup::default());
    world.stall(client);
    let piece = "x".repeat(64 * 1024);
    for _ in 0..8 {
        if !world.is_paused(endpoint) {
            world.send(endpoint, &piece);
        }
    }
    assert!(world.is_paused(endpoint));
    world.advance(seconds(60));
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn the_kernel_measures_the_switch_and_nothing_after_it() {
    let setup = Setup {
        is_measured: true,
        ..Setup::default()
    };
    let (world, _, endpoint) = tunnel(setup);
    assert!(world.is_unmeasured(endpoint));
}

#[test]
fn what_asks_for_another_protocol_is_not_mirrored() {
    let mirror = Mirror {
        backend: 1,
        fraction: Fraction::ALL,
        filters: None,
    };
    let filters = Filters {
        mirrors: vec![mirror],
        ..Filters::default()
    };
    let setup = Setup {
        mirrors: 1,
        rules: Rules::always(Handling {
            filters: Some(std::sync::Arc::new(filters)),
            ..Split::one(0).into()
        }),
        ..Setup::default()
    };
    let (world, ..) = tunnel(setup);
    assert_eq!(world.counters.unmirrored.of(Unmirrored::Upgrade).value(), 1);
}

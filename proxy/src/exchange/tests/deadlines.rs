//! Nothing waits for ever, and who is waited for is who is blamed.

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::seam::{ConnId, Core};

/// Short of the deadline nothing happens; then it does.
fn reaches(world: &mut World, length: Duration, conn: ConnId) {
    world.advance(length - millis(1));
    assert!(world.is_open(conn), "too early");
    assert_eq!(world.read(conn), "", "too early");
    world.advance(millis(1));
}

#[test]
fn an_idle_client_is_closed_without_a_word() {
    let mut world = World::with_settings(|settings| settings.idle = seconds(7));
    let client = world.client();
    reaches(&mut world, seconds(7), client);
    assert_eq!(world.ending(client), Ending::Close);
    assert_eq!(world.read(client), "");
}

#[test]
fn the_idle_deadline_begins_anew_after_each_response() {
    let mut world = World::with_settings(|settings| settings.idle = seconds(7));
    let client = world.client();
    for _ in 0..3 {
        world.advance(seconds(6));
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        world.send(endpoint, ok(""));
        world.read(client);
    }
    reaches(&mut world, seconds(7), client);
    assert_eq!(world.ending(client), Ending::Close);
}

#[test]
fn a_head_must_come_whole_in_time_however_it_trickles() {
    let mut world = World::with_settings(|settings| settings.head = seconds(10));
    let client = world.client();
    world.advance(seconds(60));
    let request = get("/trickle");
    for byte in request.as_bytes()[..10].chunks(1) {
        world.send(client, byte);
        world.advance(millis(999));
    }
    assert_eq!(world.read(client), "");
    world.advance(millis(10));
    let answer = world.read(client);
    assert_local_reply(&answer, 408, "request-timeout");
    assert!(says_close(&answer));
    assert_eq!(world.ending(client), Ending::Shutdown);
    assert!(world.upstreams.is_empty());
}

#[test]
fn empty_lines_do_not_keep_an_idle_client() {
    let mut world = World::with_settings(|settings| settings.idle = seconds(7));
    let client = world.client();
    world.send(client, "\r\n");
    world.advance(seconds(6));
    world.send(client, "\r\n");
    world.advance(seconds(1));
    assert_eq!(world.ending(client), Ending::Close);
}

#[test]
fn a_connection_that_does_not_come_to_stand_is_given_up() {
    let mut world = World::of(Setup {
        connects: Connects::Hang,
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    reaches(&mut world, seconds(5), client);
    assert_local_reply(&world.read(client), 504, "connect-timeout");
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 1, 0]);
    assert_eq!(world.counters.upstream_connect_failed.value(), 1);
    assert!(world.is_open(client), "it may ask again");
}

#[test]
fn an_endpoint_that_does_not_answer_is_given_up() {
    let mut world = World::with_settings(|settings| settings.first_byte = seconds(10));
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    reaches(&mut world, seconds(10), client);
    assert_local_reply(&world.read(client), 504, "first-byte-timeout");
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 1, 0]);
    assert!(world.is_open(client), "it may ask again");
}

#[test]
fn a_head_that_trickles_from_the_endpoint_does_not_move_the_deadline() {
    let mut world = World::with_settings(|settings| settings.first_byte = seconds(10));
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    for byte in b"HTTP/1.1 ".chunks(1) {
        world.advance(seconds(1));
        world.send(endpoint, byte);
    }
    world.advance(seconds(1));
    assert_local_reply(&world.read(client), 504, "first-byte-timeout");
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn an_idle_connection_whose_endpoint_is_silent_is_no_reason_to_send_again() {
    let mut world = World::with_settings(|settings| settings.first_byte = seconds(10));
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, ok(""));
    world.read(client);
    world.send(client, get("/"));
    world.advance(seconds(10));
    assert_local_reply(&world.read(client), 504, "first-byte-timeout");
    assert_eq!(world.endpoint(), endpoint);
}

#[test]
fn a_long_upload_does_not_shorten_the_endpoints_time() {
    let mut world = World::with_settings(|settings| settings.first_byte = seconds(10));
    let client = world.client();
    let request = with_body("POST", "0123456789");
    let (start, rest) = request.split_at(request.len() - 10);
    world.send(client, start);
    let endpoint = world.endpoint();
    for byte in rest.as_bytes().chunks(1) {
        world.advance(seconds(9));
        assert_eq!(world.read(client), "");
        world.send(client, byte);
    }
    reaches(&mut world, seconds(10), client);
    assert_local_reply(&world.read(client), 504, "first-byte-timeout");
    assert_eq!(world.ending(endpoint), Ending::Abort);
}

#[test]
fn a_slow_client_is_not_the_endpoints_fault() {
    let mut world = World::with_settings(|settings| {
        settings.first_byte = seconds(10);
        settings.stall = seconds(30);
    });
    let client = world.client();
    let request = with_body("POST", "0123456789");
    world.send(client, &request[..request.len() - 1]);
    let endpoint = world.endpoint();
    reaches(&mut world, seconds(30), client);
    let answer = world.read(client);
    assert_local_reply(&answer, 408, "request-timeout");
    assert!(says_close(&answer));
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn an_endpoint_that_does_not_take_the_request_is_given_up() {
    let mut world = World::with_settings(|settings| settings.first_byte = seconds(10));
    let client = world.client();
    world.connects = Connects::Hang;
    world.send(client, with_body("POST", "0123456789"));
    let endpoint = world.endpoint();
    world.stall(endpoint);
    world.connects = Connects::Succeed;
    world.settle();
    world.advance(seconds(5));
    world.let_through(endpoint, 5);
    reaches(&mut world, seconds(10), client);
    assert_local_reply(&world.read(client), 504, "first-byte-timeout");
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn a_response_that_stops_in_the_middle_is_cut_off() {
    let mut world = World::with_settings(|settings| settings.stall = seconds(20));
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    let response = ok("0123456789");
    world.send(endpoint, &response[..response.len() - 2]);
    world.read(client);
    world.advance(seconds(19));
    world.send(endpoint, "8");
    assert_eq!(world.read(client), "8");
    reaches(&mut world, seconds(20), client);
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn a_response_that_trickles_goes_on_for_ever() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(
        endpoint,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    world.read(client);
    for _ in 0..100 {
        world.advance(seconds(59));
        world.send(endpoint, "1\r\n.\r\n");
        assert_eq!(world.read(client), "1\r\n.\r\n");
    }
    world.send(endpoint, "0\r\n\r\n");
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn a_client_that_does_not_take_its_response_is_cut_off_and_the_endpoint_not_blamed() {
    let mut world = World::with_settings(|settings| settings.stall = seconds(20));
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.stall(client);
    world.send(
        endpoint,
        "HTTP/1.1 200 OK\r\nContent-Length: 10000000\r\n\r\n",
    );
    for _ in 0..40 {
        world.send(endpoint, [b'x'; 10_000]);
    }
    assert!(world.is_paused(endpoint));
    world.advance(seconds(19));
    world.let_through(client, 1);
    world.advance(seconds(19));
    assert!(world.is_open(client));
    world.advance(seconds(1));
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn an_endpoint_that_waits_for_the_rest_of_an_upload_is_not_blamed() {
    let mut world = World::with_settings(|settings| settings.stall = seconds(20));
    let client = world.client();
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    world.send(client, format!("{chunked}3\r\none\r\n"));
    let endpoint = world.endpoint();
    // It has begun to answer and goes on when it hears more.
    world.send(
        endpoint,
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    world.read(client);
    world.advance(seconds(20));
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.ending(endpoint), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn a_client_that_does_not_leave_after_the_last_response_is_closed() {
    let mut world = World::with_settings(|settings| settings.linger = seconds(2));
    let client = world.client();
    world.send(
        client,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    assert_eq!(world.ending(client), Ending::Shutdown);
    world.advance(millis(1999));
    world.send(client, "what it still sends is thrown away");
    assert_eq!(world.ending(client), Ending::Shutdown);
    world.advance(millis(1));
    assert_eq!(world.ending(client), Ending::Close);
}

#[test]
fn a_client_that_still_reads_its_last_response_is_given_time() {
    let mut world = World::with_settings(|settings| settings.linger = seconds(2));
    let client = world.client();
    world.send(
        client,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let endpoint = world.endpoint();
    world.stall(client);
    world.send(endpoint, ok(&"x".repeat(1000)));
    for _ in 0..10 {
        world.advance(millis(1999));
        world.let_through(client, 10);
        assert_eq!(world.ending(client), Ending::Shutdown);
    }
}

#[test]
fn a_closing_connection_that_takes_no_bytes_is_reset() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
    );
    let endpoint = world.endpoint();
    world.stall(client);
    world.send(endpoint, ok("x"));
    world.advance(seconds(2));
    assert_eq!(world.ending(client), Ending::Close);
    world.advance(seconds(60));
    assert_eq!(world.ending(client), Ending::Abort);
}

#[test]
fn the_proxy_asks_to_be_woken_only_while_it_waits_for_something() {
    let mut world = World::new();
    assert_eq!(world.proxy.next_deadline(), None);
    let client = world.client();
    assert_eq!(world.proxy.next_deadline(), Some(world.now + seconds(75)));
    world.reset(client);
    world.advance(seconds(75));
    assert_eq!(world.proxy.next_deadline(), None);
}

#[test]
fn connections_that_are_gone_leave_no_heap_of_deadlines() {
    let mut world = World::new();
    let stays = world.client();
    for _ in 0..2000 {
        let client = world.client();
        world.finish(client);
    }
    let kept = world.proxy.deadlines.entries();
    assert!(kept < 1200, "{kept} deadlines of one connection");
    world.advance(seconds(75));
    assert_eq!(
        world.ending(stays),
        Ending::Close,
        "its own was not forgotten"
    );
}

//! Endpoints that break: a 502 while the client can still be told, a reset when it cannot, and a failure counted.

use super::setup::{Connects, Setup};
use super::wire::Ending;
use super::world::World;
use super::*;
use crate::metrics::ResponseClass;
use crate::seam::ConnectFault;

/// What the client is told when the endpoint sends this and closes.
fn told_after(bytes: impl AsRef<[u8]>) -> (String, World) {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, bytes);
    if world.is_open(endpoint) {
        world.finish(endpoint);
    }
    assert_eq!(world.outcomes(), [0, 1, 0]);
    (world.read(client), world)
}

#[test]
fn a_refused_connection_is_a_bad_gateway() {
    let mut world = World::of(Setup {
        connects: Connects::Fail(ConnectFault::Endpoint),
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    assert_local_reply(&world.read(client), 502, "connect-failed");
    assert_eq!(world.outcomes(), [0, 1, 0]);
    assert_eq!(world.counters.upstream_connect_failed.value(), 1);

    world.connects = Connects::Succeed;
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, ok("x"));
    assert_eq!(
        world.read(client),
        ok("x"),
        "the client's connection goes on"
    );
}

#[test]
fn a_host_without_descriptors_sheds_and_does_not_blame_the_endpoint() {
    let mut world = World::of(Setup {
        connects: Connects::Fail(ConnectFault::Host),
        ..Setup::default()
    });
    let client = world.client();
    world.send(client, get("/"));
    assert_local_reply(&world.read(client), 503, "host-exhausted");
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn an_upload_to_a_refused_connection_ends_the_clients() {
    let mut world = World::of(Setup {
        connects: Connects::Fail(ConnectFault::Endpoint),
        ..Setup::default()
    });
    let client = world.client();
    let post = with_body("POST", "0123456789");
    world.send(client, &post[..post.len() - 1]);
    let answer = world.read(client);
    assert_local_reply(&answer, 502, "connect-failed");
    assert!(
        says_close(&answer),
        "the rest of the body could not be told apart"
    );
    assert_eq!(world.ending(client), Ending::Shutdown);
}

#[test]
fn an_endpoint_that_closes_before_or_in_its_head_is_a_bad_gateway() {
    let response = ok("hello");
    for cut in [0, 1, 9, 17, response.len() - 6] {
        let (answer, world) = told_after(&response[..cut]);
        assert_local_reply(&answer, 502, "upstream-closed");
        assert!(!says_close(&answer), "the client may ask again");
        drop(world);
    }
}

#[test]
fn an_endpoint_that_closes_in_its_body_cuts_the_client_off() {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for start in [&ok("hello")[..41], chunked] {
        let (answer, world) = told_after(start);
        assert_eq!(answer, start);
        let client = *world.wires.keys().next().expect("a client");
        assert_eq!(
            world.ending(client),
            Ending::Abort,
            "it must not pass for whole"
        );
    }
}

#[test]
fn a_head_that_is_none_is_a_bad_gateway() {
    for garbage in [
        "nonsense\r\n\r\n",
        "HTTP/1.1 200 OK\nContent-Length: 0\n\n",
        "HTTP/1.1 999 Odd\r\n\r\n",
        "HTTP/2.0 200 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
        "\0\0\0\0",
    ] {
        let (answer, world) = told_after(garbage);
        assert_local_reply(&answer, 502, "response-head-invalid");
        assert_eq!(world.ending(world.endpoint()), Ending::Abort, "{garbage}");
    }
}

#[test]
fn a_head_too_large_is_a_bad_gateway() {
    let field = format!("A: {}\r\n", "x".repeat(1000));
    let head = format!("HTTP/1.1 200 OK\r\n{}", field.repeat(70));
    let (answer, _world) = told_after(head);
    assert_local_reply(&answer, 502, "response-head-invalid");
}

#[test]
fn a_reset_after_the_whole_response_takes_nothing_back() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, ok("hello"));
    world.reset(endpoint);
    assert_eq!(world.read(client), ok("hello"));
    assert_eq!(world.outcomes(), [1, 0, 0]);
    assert!(world.is_open(client));
}

#[test]
fn an_endpoint_that_answers_and_stops_reading_is_heard() {
    let mut world = World::new();
    let client = world.client();
    let post = with_body("POST", &"x".repeat(1000));
    world.send(client, &post[..500]);
    let endpoint = world.endpoint();
    world.stall(endpoint);
    world.send(client, &post[500..900]);
    // Its socket refuses the rest; what it sent before comes later.
    world.tell(endpoint, super::wire::News::SendFailed);
    world.send(client, &post[900..950]);
    assert_eq!(world.read(client), "");
    let refusal =
        "HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno";
    world.send(endpoint, refusal);
    let answer = world.read(client);
    assert!(
        answer.starts_with("HTTP/1.1 413 ") && answer.ends_with("no"),
        "{answer}"
    );
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn every_status_from_500_on_is_a_failure_and_429_is_none() {
    for (status, outcomes) in [
        (200, [1, 0, 0]),
        (404, [1, 0, 0]),
        (429, [1, 0, 0]),
        (499, [1, 0, 0]),
        (500, [0, 1, 0]),
        (503, [0, 1, 0]),
        (599, [0, 1, 0]),
    ] {
        let mut world = World::new();
        let client = world.client();
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        let response = format!("HTTP/1.1 {status} Any\r\nContent-Length: 0\r\n\r\n");
        world.send(endpoint, &response);
        assert_eq!(world.read(client), response, "passed on as it is");
        assert_eq!(world.outcomes(), outcomes, "{status}");
        assert!(world.is_open(endpoint), "the connection did its part");
    }
}

#[test]
fn the_fifth_failure_in_a_row_ejects_an_endpoint() {
    let mut world = World::of(Setup {
        weights: vec![1, 1],
        ..Setup::default()
    });
    let client = world.client();
    let mut failures = 0;
    while world.figures(0).ejected_for.is_none() {
        world.send(client, get("/"));
        if world.busy_endpoint_place() == 0 {
            failures += 1;
            world.answer("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
        } else {
            world.answer(&ok(""));
        }
        assert!(failures <= 5, "five are enough");
    }
    assert_eq!(failures, 5);
    assert_eq!(world.figures(0).ejected_for, Some(seconds(3)));
    for _ in 0..50 {
        world.send(client, get("/"));
        assert_eq!(world.busy_endpoint_place(), 1, "nobody goes there");
        world.answer(&ok(""));
    }
    world.advance(seconds(3));
    let mut returned = false;
    for _ in 0..200 {
        world.send(client, get("/"));
        returned |= world.busy_endpoint_place() == 0;
        world.answer(&ok(""));
    }
    assert!(returned, "it is tried again");
}

#[test]
fn traffic_goes_on_when_all_are_ejected() {
    let mut world = World::of(Setup {
        connects: Connects::Fail(ConnectFault::Endpoint),
        ..Setup::default()
    });
    let client = world.client();
    for _ in 0..8 {
        world.send(client, get("/"));
        assert_local_reply(&world.read(client), 502, "connect-failed");
    }
    assert!(world.figures(0).ejected_for.is_some());
    world.connects = Connects::Succeed;
    world.send(client, get("/"));
    world.answer(&ok("x"));
    assert_eq!(world.read(client), ok("x"));
}

#[test]
fn a_body_broken_where_its_head_ends_is_a_bad_gateway() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for broken in ["zz\r\n", "1\r\nxy", "1\r\nx\r\n1;a=b\r\ny\r\n-1\r\n"] {
        let (told, world) = told_after(format!("{head}{broken}"));
        assert_local_reply(&told, 502, "response-body-invalid");
        assert!(!told.contains("200 OK"), "{told}");
        assert_eq!(
            world.counters.responses.of(ResponseClass::Success).value(),
            0
        );

        for split in [10, head.len() - 1] {
            let mut world = World::new();
            let client = world.client();
            world.send(client, get("/"));
            let endpoint = world.endpoint();
            world.read(endpoint);
            world.send(endpoint, &head[..split]);
            world.send(endpoint, format!("{}{broken}", &head[split..]));
            assert_local_reply(&world.read(client), 502, "response-body-invalid");
            // The client's connection is as good as before.
            world.send(client, get("/"));
            world.answer(&ok("x"));
            assert_eq!(world.read(client), ok("x"));
        }
    }
}

//! Bodies of every framing, in both directions.

use super::wire::Ending;
use super::world::World;
use super::*;

const CHUNKED_POST: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";

/// The request head a chunked upload is passed on with.
const CHUNKED_POST_FORWARDED: &str = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
    X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n";

const CHUNKED_OK: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

#[test]
fn bodies_of_stated_length_are_passed_on_as_they_come() {
    let mut world = World::new();
    let client = world.client();
    let request = with_body("POST", "question");
    let (start, rest) = request.split_at(request.len() - 5);
    world.send(client, start);
    let endpoint = world.endpoint();
    assert_eq!(world.read(endpoint), forwarded(start));
    world.send(client, rest);
    assert_eq!(world.read(endpoint), rest);

    let response = ok("answer");
    let (start, rest) = response.split_at(response.len() - 3);
    world.send(endpoint, start);
    assert_eq!(world.read(client), start);
    world.send(endpoint, rest);
    assert_eq!(world.read(client), rest);
    assert!(world.is_open(client) && world.is_open(endpoint));
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn chunked_bodies_are_passed_on_with_their_chunks_and_trailers() {
    let body = "5\r\nhello\r\nb\r\n and so on \r\n0\r\nX-Sum: 1\r\n\r\n";
    let mut world = World::new();
    let client = world.client();
    world.send(client, format!("{CHUNKED_POST}{body}"));
    let endpoint = world.endpoint();
    assert_eq!(
        world.read(endpoint),
        format!("{CHUNKED_POST_FORWARDED}{body}")
    );
    world.send(endpoint, format!("{CHUNKED_OK}{body}"));
    assert_eq!(world.read(client), format!("{CHUNKED_OK}{body}"));
    assert!(world.is_open(client) && world.is_open(endpoint));
}

#[test]
fn chunk_extensions_end_here() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        format!("{CHUNKED_POST}3;a=\"b\"\r\nabc\r\n0;c\r\n\r\n"),
    );
    let endpoint = world.endpoint();
    let plain = "3\r\nabc\r\n0\r\n\r\n";
    assert_eq!(
        world.read(endpoint),
        format!("{CHUNKED_POST_FORWARDED}{plain}")
    );
    world.send(endpoint, format!("{CHUNKED_OK}3;x\r\nabc\r\n0\r\n\r\n"));
    assert_eq!(world.read(client), format!("{CHUNKED_OK}{plain}"));
}

#[test]
fn an_http_1_0_client_gets_the_payload_alone_and_the_end_of_the_connection() {
    let mut world = World::new();
    let client = world.client();
    world.send(
        client,
        "GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    );
    let endpoint = world.endpoint();
    world.send(
        endpoint,
        format!("{CHUNKED_OK}5\r\nhello\r\n6\r\n world\r\n0\r\nX-Sum: 1\r\n\r\n"),
    );
    assert_eq!(
        world.read(client),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello world"
    );
    assert_eq!(world.ending(client), Ending::Shutdown);
    assert!(world.is_open(endpoint), "its body was whole");
}

#[test]
fn a_body_that_ends_with_the_connection_ends_in_chunks_for_who_knows_them() {
    let mut world = World::new();
    let client = world.client();
    for body in ["", "x", "0123456789abcdef"] {
        world.send(client, get("/"));
        let endpoint = world.endpoint();
        world.send(endpoint, format!("HTTP/1.1 200 OK\r\n\r\n{body}"));
        world.send(endpoint, "second");
        let first = match body {
            "" => String::new(),
            body => format!("{:x}\r\n{body}\r\n", body.len()),
        };
        assert_eq!(
            world.read(client),
            format!("{CHUNKED_OK}{first}6\r\nsecond\r\n")
        );
        world.finish(endpoint);
        assert_eq!(world.read(client), "0\r\n\r\n");
        assert!(world.is_open(client));
        assert_eq!(world.ending(endpoint), Ending::Close);
    }
    assert_eq!(world.outcomes(), [3, 0, 0]);
}

#[test]
fn a_body_that_ends_with_the_connection_ends_both_where_chunks_are_not_known() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let endpoint = world.endpoint();
    world.send(endpoint, "HTTP/1.1 200 OK\r\n\r\nfirst ");
    world.send(endpoint, "second");
    assert_eq!(
        world.read(client),
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nfirst second"
    );
    assert!(world.is_open(client));
    world.finish(endpoint);
    assert_eq!(world.ending(client), Ending::Shutdown);
    assert_eq!(world.ending(endpoint), Ending::Close);
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn a_reset_does_not_pass_for_the_end_of_a_body() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, "HTTP/1.1 200 OK\r\n\r\nfirst ");
    world.reset(endpoint);
    assert_eq!(world.ending(client), Ending::Abort);
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn responses_without_a_body_end_with_their_head() {
    let rows = [
        ("HEAD", "200 OK", "Content-Length: 500\r\n"),
        ("HEAD", "200 OK", "Transfer-Encoding: chunked\r\n"),
        ("HEAD", "200 OK", ""),
        ("GET", "204 No Content", ""),
        ("GET", "304 Not Modified", "Content-Length: 500\r\n"),
        ("GET", "200 OK", "Content-Length: 0\r\n"),
    ];
    for (method, status, fields) in rows {
        let mut world = World::new();
        let client = world.client();
        world.send(client, format!("{method} / HTTP/1.1\r\nHost: a\r\n\r\n"));
        let endpoint = world.endpoint();
        let response = format!("HTTP/1.1 {status}\r\n{fields}\r\n");
        world.send(endpoint, &response);
        let answer = world.read(client);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")));
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        assert_eq!(world.outcomes(), [1, 0, 0], "{method} {status} {fields}");

        world.send(client, get("/next"));
        assert_eq!(world.endpoint(), endpoint, "{method} {status} {fields}");
        world.send(endpoint, ok("next"));
        assert_eq!(world.read(client), ok("next"));
    }
}

#[test]
fn a_malformed_request_body_is_the_clients_fault() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, format!("{CHUNKED_POST}3\r\nabc\r\n"));
    let endpoint = world.endpoint();
    world.send(client, "nonsense\r\n");
    let answer = world.read(client);
    assert_local_reply(&answer, 400, "chunk-size-invalid");
    assert!(says_close(&answer));
    assert_eq!(
        world.ending(endpoint),
        Ending::Abort,
        "it must not pass for whole"
    );
    assert_eq!(world.outcomes(), [0, 0, 1]);
}

#[test]
fn a_malformed_response_body_is_the_endpoints_fault() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, get("/"));
    let endpoint = world.endpoint();
    world.send(endpoint, format!("{CHUNKED_OK}3\r\nabc\r\n"));
    world.send(endpoint, "nonsense\r\n");
    assert_eq!(world.read(client), format!("{CHUNKED_OK}3\r\nabc\r\n"));
    assert_eq!(
        world.ending(client),
        Ending::Abort,
        "it must not pass for whole"
    );
    assert_eq!(world.outcomes(), [0, 1, 0]);
}

#[test]
fn a_response_that_comes_before_the_request_has_ended_is_passed_on() {
    let mut world = World::new();
    let client = world.client();
    let request = with_body("POST", "0123456789");
    let (start, rest) = request.split_at(request.len() - 4);
    world.send(client, start);
    let endpoint = world.endpoint();
    world.send(endpoint, ok("enough"));
    assert_eq!(world.read(client), ok("enough"));
    assert_eq!(world.outcomes(), [1, 0, 0]);
    assert_eq!(
        world.ending(client),
        Ending::Shutdown,
        "its bytes cannot be told apart any more"
    );
    assert!(world.ending(endpoint) >= Ending::Close);
    world.read(endpoint);
    world.send(client, rest);
    assert_eq!(world.read(endpoint), "");
    assert!(!world.wires[&client].is_gone(), "the client may still read");
}

#[test]
fn what_an_endpoint_has_answered_without_reading_is_not_kept_for_it() {
    let mut world = World::new();
    let client = world.client();
    let request = with_body("POST", "0123456789");
    world.send(client, &request[..request.len() - 8]);
    let endpoint = world.endpoint();
    world.stall(endpoint);
    world.send(client, &request[request.len() - 8..request.len() - 4]);
    world.send(endpoint, ok("enough"));
    assert_eq!(world.read(client), ok("enough"));
    assert_eq!(
        world.ending(endpoint),
        Ending::Abort,
        "it would never read it"
    );
    assert_eq!(world.outcomes(), [1, 0, 0]);
}

#[test]
fn an_endpoint_that_has_not_read_all_gets_the_next_request_on_another_connection() {
    let mut world = World::new();
    let client = world.client();
    let request = with_body("POST", "0123456789");
    world.send(client, &request[..request.len() - 4]);
    let endpoint = world.endpoint();
    world.stall(endpoint);
    world.send(client, &request[request.len() - 4..]);
    world.send(endpoint, ok("enough"));
    assert_eq!(world.read(client), ok("enough"));
    assert!(world.is_open(client), "all of its request has come");
    world.send(client, get("/"));
    assert_ne!(world.endpoint(), endpoint);
    assert_eq!(world.ending(endpoint), Ending::Abort);
}

#[test]
fn the_request_goes_on_while_its_response_comes() {
    let mut world = World::new();
    let client = world.client();
    world.send(client, format!("{CHUNKED_POST}3\r\none\r\n"));
    let endpoint = world.endpoint();
    world.read(endpoint);
    world.send(endpoint, format!("{CHUNKED_OK}3\r\nONE\r\n"));
    world.send(client, "3\r\ntwo\r\n0\r\n\r\n");
    assert_eq!(world.read(endpoint), "3\r\ntwo\r\n0\r\n\r\n");
    world.send(endpoint, "3\r\nTWO\r\n0\r\n\r\n");
    assert_eq!(
        world.read(client),
        format!("{CHUNKED_OK}3\r\nONE\r\n3\r\nTWO\r\n0\r\n\r\n")
    );
    assert!(world.is_open(client) && world.is_open(endpoint));
}

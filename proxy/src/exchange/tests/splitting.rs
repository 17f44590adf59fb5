//! Bytes come in any pieces: what is passed on is the same.

use super::world::World;
use super::*;

const REQUESTS: &str = "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
    3;x=\"y\"\r\nabc\r\n0\r\nT: u\r\n\r\nPUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nxyz";

/// To the first request, then to the second.
const RESPONSES: [&str; 2] = [
    "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
     2\r\nok\r\n0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nno",
];

/// What reached the endpoint and what reached the client.
#[derive(Debug, PartialEq, Eq)]
struct Passed {
    requests: String,
    responses: String,
}

/// Each text is sent in pieces that end at the cuts, and at its end.
fn pieces<'a>(text: &'a str, cuts: &'a [usize]) -> impl Iterator<Item = &'a str> {
    let ends = cuts.iter().copied().filter(|cut| *cut < text.len());
    let mut start = 0;
    ends.chain([text.len()]).map(move |end| {
        let piece = &text[start..end];
        start = end;
        piece
    })
}

fn passed(request_cuts: &[usize], response_cuts: &[usize]) -> Passed {
    let mut world = World::new();
    let client = world.client();
    for piece in pieces(REQUESTS, request_cuts) {
        world.send(client, piece);
    }
    let endpoint = world.endpoint();
    for response in RESPONSES {
        for piece in pieces(response, response_cuts) {
            world.send(endpoint, piece);
        }
    }
    assert_eq!(world.outcomes(), [2, 0, 0]);
    assert!(world.is_open(client) && world.is_open(endpoint));
    Passed {
        requests: world.read(endpoint),
        responses: world.read(client),
    }
}

#[test]
fn what_is_passed_on_is_what_came_without_what_ends_here() {
    let added =
        "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n";
    let first = "POST /1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
    let second = "PUT /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n";
    let expected = Passed {
        requests: format!("{first}{added}3\r\nabc\r\n0\r\nT: u\r\n\r\n{second}{added}xyz"),
        responses: RESPONSES.concat(),
    };
    assert_eq!(passed(&[], &[]), expected);
}

/// All ways to cut a text in three with a short piece in the middle.
fn pairs(length: usize) -> impl Iterator<Item = [usize; 2]> {
    const LONGEST: usize = 5;
    (0..=length).flat_map(|first| (first..=first + LONGEST).map(move |second| [first, second]))
}

#[test]
fn requests_cut_anywhere_are_passed_on_the_same() {
    let whole = passed(&[], &[]);
    for cuts in pairs(REQUESTS.len()) {
        assert_eq!(passed(&cuts, &[]), whole, "cut at {cuts:?}");
    }
}

#[test]
fn responses_cut_anywhere_are_passed_on_the_same() {
    let whole = passed(&[], &[]);
    for cuts in pairs(RESPONSES[0].len()) {
        assert_eq!(passed(&[], &cuts), whole, "cut at {cuts:?}");
    }
}

#[test]
fn bytes_that_come_one_by_one_are_passed_on_the_same() {
    let every: Vec<usize> = (0..REQUESTS.len()).collect();
    assert_eq!(passed(&every, &every), passed(&[], &[]));
}

#[test]
fn what_is_refused_is_refused_in_any_pieces() {
    let request = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let answer = |cut: usize| {
        let mut world = World::new();
        let client = world.client();
        world.send(client, &request[..cut]);
        world.send(client, &request[cut..]);
        assert!(world.upstreams.is_empty());
        world.read(client)
    };
    let whole = answer(0);
    assert_local_reply(&whole, 400, "length-and-coding");
    for cut in 1..request.len() {
        assert_eq!(answer(cut), whole, "cut at {cut}");
    }
}

//! Generated input: nothing panics, splits do not matter, and what was accepted means the same to the next hop.

use std::net::{IpAddr, Ipv4Addr};

use proptest::prelude::*;

use super::encode::{write_request, write_response};
use super::*;
use crate::http::{Persistence, RequestFraming, Version};

/// Bytes that look enough like HTTP to get past the first check now and then.
fn http_like() -> impl Strategy<Value = Vec<u8>> {
    let word = prop::sample::select(vec![
        "GET ",
        "POST ",
        "/",
        "/a?b",
        "http://a",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 C\r\n",
        "Host: a\r\n",
        "Host",
        ":",
        ": ",
        "a",
        "\r\n",
        "\r",
        "\n",
        " ",
        "\t",
        "\0",
        "\x7f",
        "Content-Length: 5\r\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "Connection: close, x\r\n",
        "x: y\r\n",
        "5",
        "0",
        ";",
        "\"",
        "5\r\nhello\r\n",
        "0\r\n\r\n",
        "X-Forwarded-For: b\r\n",
        "TE: trailers\r\n",
    ]);
    let piece = prop_oneof![
        9 => word.prop_map(|word| word.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// A head of mostly sound lines, sometimes with a byte changed.
fn head_like(first_lines: &'static [&'static str]) -> impl Strategy<Value = Vec<u8>> {
    let line = prop::sample::select(vec![
        "Content-Length: 5",
        "Content-Length:07",
        "Transfer-Encoding: chunked",
        "Connection: close",
        "Connection: keep-alive, x-a",
        "X-A: 1",
        "x-b:2 ",
        "X-C:",
        "Expect: 100-continue",
        "TE: trailers",
        "Trailer: x",
        "Upgrade: h2c",
        "X-Forwarded-For: c",
        "Cookie: \u{e9}\t;",
    ]);
    let lines = prop::collection::vec(line, 0..5);
    let change = prop::option::weighted(0.3, (any::<prop::sample::Index>(), any::<u8>()));
    let first = prop::sample::select(first_lines);
    (first, lines, change).prop_map(|(first, lines, change)| {
        let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
        let mut bytes = format!("{first}\r\n{lines}\r\n").into_bytes();
        if let Some((index, byte)) = change {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        bytes
    })
}

fn request_like() -> impl Strategy<Value = Vec<u8>> {
    let heads = head_like(&[
        "GET / HTTP/1.1\r\nHost: a",
        "POST /b?c HTTP/1.1\r\nhost:a:80",
        "OPTIONS http://d HTTP/1.1\r\nHost: a",
        "PUT http://d?e HTTP/1.1\r\nX: y\r\nHost: a",
        "X-OWN /f HTTP/1.0",
        "\r\nHEAD / HTTP/1.0\r\nHost: a",
    ]);
    prop_oneof![8 => heads, 1 => http_like(), 1 => anything()]
}

fn response_like() -> impl Strategy<Value = Vec<u8>> {
    let heads = head_like(&[
        "HTTP/1.1 200 OK",
        "HTTP/1.1 204 No Content",
        "HTTP/1.0 404 ",
        "HTTP/1.1 304",
        "HTTP/1.1 103 Early Hints",
    ]);
    prop_oneof![8 => heads, 1 => http_like(), 1 => anything()]
}

fn body_like() -> impl Strategy<Value = Vec<u8>> {
    let changed = (chunked_body(), any::<prop::sample::Index>(), any::<u8>());
    let changed = changed.prop_map(|((mut wire, _), index, byte)| {
        let at = index.index(wire.len());
        wire[at] = byte;
        wire
    });
    prop_oneof![8 => changed, 1 => http_like(), 1 => anything()]
}

fn anything() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

/// Feeds one body in the given pieces: all that is passed on, and where it ended.
fn follow(mut decoder: BodyDecoder, pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), BodyError> {
    let mut passed_on = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() && !decoder.is_complete() {
            let step = decoder.next(rest)?;
            passed_on.extend_from_slice(&rest[step.forward]);
            rest = &rest[step.consumed..];
        }
    }
    Ok((passed_on, decoder.is_complete()))
}

fn forwarding() -> Forwarding<'static> {
    Forwarding {
        client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7)),
        scheme: Scheme::Http,
        fallback_host: b"10.0.0.9",
        edited: Edited::default(),
    }
}

/// A valid field that means nothing to the proxy.
fn plain_field() -> impl Strategy<Value = (String, String)> {
    ("[A-Za-z][A-Za-z0-9_-]{0,12}", "([!-~]([ -~]{0,20}[!-~])?)?")
        .prop_map(|(name, value)| (format!("x-{name}"), value))
}

/// Chunks of data with extensions, in wire form beside their payload.
fn chunked_body() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
    let chunk = (
        prop::collection::vec(any::<u8>(), 1..40),
        "(;[a-z]{1,4}(=(\"[a-z;]{0,3}\"|[a-z]))?)?",
    );
    (
        prop::collection::vec(chunk, 0..6),
        "(x-[a-z]{1,9}: ?[a-z]{0,9}\r\n){0,2}",
    )
        .prop_map(|(chunks, trailers)| {
            let mut wire = Vec::new();
            let mut payload = Vec::new();
            for (data, extension) in chunks {
                wire.extend_from_slice(format!("{:x}{extension}\r\n", data.len()).as_bytes());
                wire.extend_from_slice(&data);
                wire.extend_from_slice(b"\r\n");
                payload.extend_from_slice(&data);
            }
            wire.extend_from_slice(format!("0\r\n{trailers}\r\n").as_bytes());
            (wire, payload)
        })
}

proptest! {
    #[test]
    fn requests_are_passed_on_as_something_that_means_the_same(bytes in request_like()) {
        let Ok(head) = request(&bytes) else { return Ok(()) };
        let mut out = Vec::new();
        write_request(&mut out, &bytes, &head, &forwarding());
        let again = request(&out).expect("a head we wrote");
        prop_assert_eq!(again.length(), out.len());
        prop_assert_eq!(again.framing(), head.framing());
        prop_assert_eq!(again.method_name(&out), head.method_name(&bytes));
        prop_assert_eq!(again.path(&out), head.path(&bytes));
        prop_assert_eq!(again.host(&out), head.host(&bytes).or(Some(b"10.0.0.9")));
        prop_assert_eq!(again.expects_continue(), head.expects_continue());
        prop_assert_eq!(again.persistence(), Persistence::KeepAlive);
        prop_assert_eq!(again.version(), Version::Http11);
        prop_assert_eq!(again.upgrade(&out), head.upgrade(&bytes));
    }

    #[test]
    fn responses_are_passed_on_as_something_that_means_the_same(bytes in response_like(), old_client: bool) {
        let Ok(head) = response(&bytes, Method::Get) else { return Ok(()) };
        let client = if old_client { Version::Http10 } else { Version::Http11 };
        let encoding = ResponseEncoding::new(&head, client, Persistence::KeepAlive);
        let mut out = Vec::new();
        write_response(&mut out, &bytes, &head, encoding, b"");
        let again = response(&out, Method::Get).expect("a head we wrote");
        prop_assert_eq!(again.status(), head.status());
        prop_assert_eq!(again.persistence(), encoding.persistence());
        if encoding.body_form() == BodyForm::Framed {
            prop_assert_eq!(again.framing(), head.framing());
        }
    }

    #[test]
    fn the_scan_finds_what_the_parser_reads(bytes in request_like()) {
        let limits = HeadLimits::default();
        // Without the scan before it, the parser must still cope with anything.
        if let Ok(length) = RequestHead::default().parse(&bytes, &limits) {
            prop_assert_eq!(HeadScan::request().advance(&bytes, &limits), Ok(Some(length)));
        }
        if let Ok(length) = ResponseHead::default().parse(&bytes, Method::Get, &limits) {
            prop_assert_eq!(HeadScan::response().advance(&bytes, &limits), Ok(Some(length)));
        }
    }

    #[test]
    fn splits_of_a_head_do_not_matter(bytes in request_like(), size in 1..70_usize) {
        let limits = HeadLimits::default();
        let mut head = RequestHead::default();
        let whole = head.read(&mut HeadScan::request(), &bytes, &limits);
        let mut scan = HeadScan::request();
        let mut found = Ok(None);
        let mut end = 0;
        while found == Ok(None) && end < bytes.len() {
            end = bytes.len().min(end + size);
            found = head.read(&mut scan, &bytes[..end], &limits);
        }
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn splits_of_a_body_do_not_matter(bytes in body_like(), size in 1..9_usize, payload_only: bool) {
        let form = if payload_only { BodyForm::PayloadOnly } else { BodyForm::Framed };
        let decoder = BodyDecoder::of_request(RequestFraming::Chunked, form);
        let whole = follow(decoder.clone(), &[&bytes]);
        let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
        prop_assert_eq!(follow(decoder, &pieces), whole);
    }

    #[test]
    fn chunked_bodies_keep_their_payload((wire, payload) in chunked_body(), size in 1..70_usize) {
        let of_form = |form| BodyDecoder::of_request(RequestFraming::Chunked, form);
        let pieces: Vec<&[u8]> = wire.chunks(size).collect();
        let bare = follow(of_form(BodyForm::PayloadOnly), &pieces);
        prop_assert_eq!(bare, Ok((payload.clone(), true)));
        // What is passed on with framing is a chunked body of the same payload, without extensions.
        let (framed, complete) = follow(of_form(BodyForm::Framed), &pieces).expect("a valid body");
        prop_assert!(complete);
        prop_assert_eq!(follow(of_form(BodyForm::PayloadOnly), &[&framed]), Ok((payload, true)));
        let step = of_form(BodyForm::Framed).next(&framed).expect("a valid body");
        prop_assert_eq!(step.forward, 0..framed.len());
    }

    #[test]
    fn plain_fields_reach_the_endpoint_in_order(fields in prop::collection::vec(plain_field(), 0..20), space in "[ \t]{0,2}") {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}:{space}{value}{space}\r\n")).collect();
        let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let head = request(bytes.as_bytes()).expect("a valid head");
        let mut out = Vec::new();
        write_request(&mut out, bytes.as_bytes(), &head, &forwarding());
        let written: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let start = format!("GET / HTTP/1.1\r\nHost: a\r\n{written}X-Forwarded-For: ");
        prop_assert!(out.starts_with(start.as_bytes()), "{}", String::from_utf8_lossy(&out));
    }
}

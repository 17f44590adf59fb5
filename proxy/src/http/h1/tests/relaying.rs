//! What a client gets of a response, and of the proxy's own answers.

use std::time::Duration;

use super::encode::write_response;
use super::*;
use crate::http::Persistence::{Close, KeepAlive};
use crate::http::Version::{Http10, Http11};
use crate::http::{Persistence, Status, Version};

/// The head as the client gets it, what happens to the connection, and what of the body follows.
fn relayed(text: &str, client: Version, wish: Persistence) -> (String, Persistence, BodyForm) {
    let head = response(text.as_bytes(), Method::Get).unwrap();
    let encoding = ResponseEncoding::new(&head, client, wish);
    let mut out = Vec::new();
    write_response(&mut out, text.as_bytes(), &head, encoding, b"");
    (
        String::from_utf8(out).unwrap(),
        encoding.persistence(),
        encoding.body_form(),
    )
}

#[test]
fn a_plain_response_passes_as_it_came() {
    let text = "HTTP/1.1 200 Fine\r\nServer: x\r\nContent-Length: 5\r\nSet-Cookie: a=b\r\n\r\n";
    let expected = (text.to_owned(), KeepAlive, BodyForm::Framed);
    assert_eq!(relayed(text, Http11, KeepAlive), expected);
}

#[test]
fn the_connection_is_described_as_the_client_understands_it() {
    const LENGTH: &str = "Content-Length: 5\r\n";
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    const CLOSE: &str = "Connection: close\r\n";
    const STAY: &str = "Connection: keep-alive\r\n";
    let rows = [
        (
            LENGTH,
            Http11,
            KeepAlive,
            LENGTH.to_owned(),
            KeepAlive,
            BodyForm::Framed,
        ),
        (
            LENGTH,
            Http11,
            Close,
            format!("{LENGTH}{CLOSE}"),
            Close,
            BodyForm::Framed,
        ),
        (
            LENGTH,
            Http10,
            KeepAlive,
            format!("{LENGTH}{STAY}"),
            KeepAlive,
            BodyForm::Framed,
        ),
        (
            LENGTH,
            Http10,
            Close,
            format!("{LENGTH}{CLOSE}"),
            Close,
            BodyForm::Framed,
        ),
        (
            CHUNKED,
            Http11,
            KeepAlive,
            CHUNKED.to_owned(),
            KeepAlive,
            BodyForm::Framed,
        ),
        (
            CHUNKED,
            Http11,
            Close,
            format!("{CHUNKED}{CLOSE}"),
            Close,
            BodyForm::Framed,
        ),
        (
            CHUNKED,
            Http10,
            KeepAlive,
            CLOSE.to_owned(),
            Close,
            BodyForm::PayloadOnly,
        ),
        (
            "",
            Http11,
            KeepAlive,
            CHUNKED.to_owned(),
            KeepAlive,
            BodyForm::OwnChunks,
        ),
        (
            "",
            Http10,
            KeepAlive,
            CLOSE.to_owned(),
            Close,
            BodyForm::Framed,
        ),
    ];
    for (lines, client, wish, kept, persistence, form) in rows {
        let text = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
        let expected = format!("HTTP/1.1 200 OK\r\n{kept}\r\n");
        let found = relayed(&text, client, wish);
        assert_eq!(
            found,
            (expected, persistence, form),
            "{lines:?} to {client:?}"
        );
    }
}

#[test]
fn status_lines_are_ours_in_version_and_theirs_in_reason() {
    let rows = [
        ("HTTP/1.0 404 Gone Fishing", "HTTP/1.1 404 Gone Fishing"),
        ("HTTP/1.1 200", "HTTP/1.1 200 "),
        ("HTTP/1.1 200 ", "HTTP/1.1 200 "),
    ];
    for (line, expected) in rows {
        let text = format!("{line}\r\nContent-Length: 5\r\n\r\n");
        let expected = format!("{expected}\r\nContent-Length: 5\r\n\r\n");
        assert_eq!(relayed(&text, Http11, KeepAlive).0, expected, "{line}");
    }
}

#[test]
fn fields_of_the_upstream_hop_end_here() {
    let rows = [
        ("Connection: keep-alive\r\nKeep-Alive: timeout=5", ""),
        ("Connection: x-hop\r\nX-Hop: 1\r\nA: b", "A: b\r\n"),
        ("Connection: content-length", ""),
        ("Upgrade: h2c", ""),
        (
            "Proxy-Authenticate: Basic\r\nProxy-Authentication-Info: x",
            "",
        ),
        ("WWW-Authenticate: Basic", "WWW-Authenticate: Basic\r\n"),
        (
            "Host: a\r\nX-Forwarded-For: b",
            "Host: a\r\nX-Forwarded-For: b\r\n",
        ),
        ("A:b", "A: b\r\n"),
    ];
    for (lines, kept) in rows {
        let text = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{lines}\r\n\r\n");
        let expected = format!("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n{kept}\r\n");
        assert_eq!(relayed(&text, Http11, KeepAlive).0, expected, "{lines:?}");
    }
}

#[test]
fn trailers_are_announced_only_where_they_follow() {
    let text = "HTTP/1.1 200 OK\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n";
    let (head, ..) = relayed(text, Http11, KeepAlive);
    assert_eq!(head, text);
    let (head, ..) = relayed(text, Http10, KeepAlive);
    assert_eq!(head, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
}

#[test]
fn responses_without_a_body_state_no_length_they_must_not() {
    let rows = [
        ("204 No Content", "Content-Length: 0\r\n", ""),
        ("204 No Content", "Transfer-Encoding: chunked\r\n", ""),
        (
            "304 Not Modified",
            "Content-Length: 7\r\n",
            "Content-Length: 7\r\n",
        ),
        ("304 Not Modified", "Transfer-Encoding: chunked\r\n", ""),
    ];
    for (status, lines, kept) in rows {
        let text = format!("HTTP/1.1 {status}\r\n{lines}\r\n");
        let expected = format!("HTTP/1.1 {status}\r\n{kept}\r\n");
        assert_eq!(relayed(&text, Http11, KeepAlive).0, expected, "{status}");
    }
}

#[test]
fn interim_responses_say_nothing_about_the_connection() {
    let text = "HTTP/1.1 103 Early Hints\r\nLink: x\r\nContent-Length: 5\r\n\r\n";
    let (head, ..) = relayed(text, Http11, Close);
    assert_eq!(head, "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n");
}

#[test]
fn our_own_answers_name_their_cause() {
    let reply = LocalReply {
        status: Status::UNAVAILABLE,
        cause: "no-endpoint",
        since_1970: Duration::from_secs(784_111_777),
        location: None,
        request_id: Some("4f2a"),
        head_only: false,
        version: Http11,
        persistence: KeepAlive,
    };
    let written = |reply: LocalReply<'_>| {
        let mut out = Vec::new();
        reply.write(&mut out);
        String::from_utf8(out).unwrap()
    };
    let date = "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let plain = "Content-Type: text/plain\r\n";
    let head = format!(
        "HTTP/1.1 503 Service Unavailable\r\n{date}{plain}Content-Length: 47\r\n\
        x-weir-error: no-endpoint\r\nx-request-id: 4f2a\r\n\r\n"
    );
    let body = "Service Unavailable: no-endpoint, request 4f2a\n";
    assert_eq!(written(reply), format!("{head}{body}"));
    let elsewhere = LocalReply {
        status: Status::FOUND,
        cause: "redirect",
        location: Some(b"https://a/"),
        request_id: None,
        ..reply
    };
    assert_eq!(
        written(elsewhere),
        format!(
            "HTTP/1.1 302 Found\r\n{date}{plain}Content-Length: 16\r\nLocation: https://a/\r\n\r\nFound: redirect\n"
        )
    );
    let of_head = LocalReply {
        head_only: true,
        ..reply
    };
    assert_eq!(written(of_head), head);
    let closing = LocalReply {
        request_id: None,
        persistence: Close,
        ..reply
    };
    assert_eq!(
        written(closing),
        format!(
            "HTTP/1.1 503 Service Unavailable\r\n{date}{plain}Content-Length: 33\r\n\
            x-weir-error: no-endpoint\r\nConnection: close\r\n\r\nService Unavailable: no-endpoint\n"
        )
    );
}

#[test]
fn our_own_answers_are_responses_we_would_accept() {
    for (version, persistence) in [(Http10, Close), (Http10, KeepAlive), (Http11, Close)] {
        for code in [
            301, 302, 303, 307, 308, 400, 408, 414, 417, 431, 501, 502, 503, 504, 505,
        ] {
            let reply = LocalReply {
                status: Status::try_from(code).unwrap(),
                cause: "some-cause",
                since_1970: Duration::MAX,
                location: None,
                request_id: None,
                head_only: false,
                version,
                persistence,
            };
            let mut out = Vec::new();
            reply.write(&mut out);
            let head = response(&out, Method::Get).unwrap();
            assert!(!head.reason(&out).is_empty(), "{code} has no phrase");
            assert_eq!(head.persistence(), persistence);
            let body = out.len() - head.length();
            assert_eq!(
                head.framing(),
                crate::http::ResponseFraming::Length(body as u64)
            );
        }
    }
}

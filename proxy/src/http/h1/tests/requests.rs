//! Which requests are understood, and how the others are refused.

use super::*;
use crate::http::{Persistence, RequestFraming, Version};

#[test]
fn request_lines_are_method_target_and_version() {
    let rows: [(&str, HeadError); 20] = [
        ("GET /", HeadError::RequestLine),
        ("GET", HeadError::RequestLine),
        (" GET / HTTP/1.1", HeadError::RequestLine),
        ("GET  / HTTP/1.1", HeadError::Target),
        ("GET / HTTP/1.1 ", HeadError::RequestLine),
        ("GET /  HTTP/1.1", HeadError::RequestLine),
        ("GET\t/ HTTP/1.1", HeadError::RequestLine),
        ("GET /\tHTTP/1.1", HeadError::Target),
        ("G@T / HTTP/1.1", HeadError::RequestLine),
        ("GET / HTTP/1.1\r", HeadError::RequestLine),
        ("GET / http/1.1", HeadError::RequestLine),
        ("GET / HTTP/1", HeadError::RequestLine),
        ("GET / HTTP/1.10", HeadError::RequestLine),
        ("GET / HTTP/01.1", HeadError::RequestLine),
        ("GET / HTTP/1.2", HeadError::Version),
        ("GET / HTTP/0.9", HeadError::Version),
        ("PRI * HTTP/2.0", HeadError::Target),
        ("PRI / HTTP/2.0", HeadError::Version),
        ("CONNECT a:443 HTTP/1.1", HeadError::Connect),
        ("GET a:443 HTTP/1.1", HeadError::Target),
    ];
    for (line, error) in rows {
        let found = request(format!("{line}\r\nHost: a\r\n\r\n").as_bytes());
        assert_eq!(found.err(), Some(error), "{line:?}");
    }
    let name = "M".repeat(65);
    let found = request(format!("{name} / HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes());
    assert_eq!(found.err(), Some(HeadError::MethodTooLong));
}

#[test]
fn exactly_one_valid_host_is_needed() {
    let rows: [(&str, Option<HeadError>); 12] = [
        ("GET / HTTP/1.1\r\n\r\n", Some(HeadError::HostMissing)),
        ("GET / HTTP/1.0\r\n\r\n", None),
        (
            "GET http://a/ HTTP/1.1\r\n\r\n",
            Some(HeadError::HostMissing),
        ),
        (
            "GET / HTTP/1.1\r\nHost:\r\n\r\n",
            Some(HeadError::HostInvalid),
        ),
        (
            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
            Some(HeadError::HostInvalid),
        ),
        (
            "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
            Some(HeadError::HostInvalid),
        ),
        (
            "GET / HTTP/1.1\r\nHost: u@a\r\n\r\n",
            Some(HeadError::HostInvalid),
        ),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
            Some(HeadError::HostRepeated),
        ),
        (
            "GET / HTTP/1.0\r\nHost: a\r\nhOST: b\r\n\r\n",
            Some(HeadError::HostRepeated),
        ),
        (
            "GET http://u@a/ HTTP/1.1\r\nHost: a\r\n\r\n",
            Some(HeadError::Target),
        ),
        (
            "GET http:///x HTTP/1.1\r\nHost: a\r\n\r\n",
            Some(HeadError::Target),
        ),
        // A Host that will be replaced is still not allowed to be garbage.
        (
            "GET http://a/ HTTP/1.1\r\nHost: a b\r\n\r\n",
            Some(HeadError::HostInvalid),
        ),
    ];
    for (text, error) in rows {
        assert_eq!(request(text.as_bytes()).err(), error, "{text:?}");
    }
}

#[test]
fn an_absolute_target_takes_the_place_of_host() {
    let bytes = b"GET http://b:81/x?y HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = request(bytes).unwrap();
    assert_eq!(head.host(bytes), Some(&b"b:81"[..]));
    assert_eq!(head.path(bytes), b"/x");
    assert_eq!(head.target(bytes), b"http://b:81/x?y");
}

#[test]
fn paths_that_were_left_out_are_the_root() {
    for (target, path) in [
        ("GET http://a", "/"),
        ("GET http://a?q", "/"),
        ("OPTIONS http://a", "*"),
        ("OPTIONS *", "*"),
        ("GET /a/b?c", "/a/b"),
        ("GET /?c", "/"),
    ] {
        let bytes = format!("{target} HTTP/1.1\r\nHost: a\r\n\r\n");
        let head = request(bytes.as_bytes()).unwrap();
        assert_eq!(head.path(bytes.as_bytes()), path.as_bytes(), "{target}");
    }
}

#[test]
fn limits_hold_exactly() {
    let limits = HeadLimits {
        head: 60,
        fields: 2,
        uri: 10,
    };
    let parsed = |text: &str| RequestHead::default().parse(text.as_bytes(), &limits);
    assert_eq!(parsed("GET /123456789 HTTP/1.1\r\nHost: a\r\n\r\n"), Ok(36));
    assert_eq!(
        parsed("GET /123456789a HTTP/1.1\r\nHost: a\r\n\r\n"),
        Err(HeadError::UriTooLong { limit: 10 })
    );
    assert_eq!(parsed("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n"), Ok(33));
    assert_eq!(
        parsed("GET / HTTP/1.1\r\nHost: a\r\nB: c\r\nD: e\r\n\r\n"),
        Err(HeadError::TooManyFields { limit: 2 })
    );
    let sized = |value: usize| {
        format!(
            "GET / HTTP/1.1\r\nHost: a\r\nB: {}\r\n\r\n",
            "x".repeat(value)
        )
    };
    assert_eq!(parsed(&sized(28)), Ok(60));
    assert_eq!(parsed(&sized(29)), Err(HeadError::TooLarge { limit: 60 }));
}

#[test]
fn a_reused_head_forgets_the_last_request() {
    let limits = HeadLimits::default();
    let mut head = RequestHead::default();
    let first = b"POST /x HTTP/1.0\r\nHost: a\r\nTE: trailers\r\nContent-Length: 5\r\nConnection: x\r\n\r\n";
    let second = b"GET / HTTP/1.1\r\nHost: b\r\n\r\n";
    head.parse(first, &limits).unwrap();
    head.parse(second, &limits).unwrap();
    assert_eq!(head.method(), Method::Get);
    assert_eq!(head.version(), Version::Http11);
    assert_eq!(head.host(second), Some(&b"b"[..]));
    assert_eq!(head.fields().len(), 1);
    assert_eq!(head.framing(), RequestFraming::None);
    assert_eq!(head.persistence(), Persistence::KeepAlive);
    assert!(!head.notes.accepts_trailers);
}

#[test]
fn a_head_that_stops_anywhere_is_truncated() {
    let bytes = b"POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nB: c\r\n\r\n";
    let limits = HeadLimits::default();
    for end in 0..bytes.len() {
        let found = RequestHead::default().parse(&bytes[..end], &limits);
        assert_eq!(found, Err(HeadError::Truncated), "at {end}");
    }
}

#[test]
fn each_refusal_has_its_status() {
    let rows: [(&str, u16, &str); 8] = [
        ("GET / HTTP/1.1\r\n\r\n", 400, "host-missing"),
        (
            "GET / HTTP/1.1\r\nHost: a\r\nExpect: x\r\n\r\n",
            417,
            "expectation-unsupported",
        ),
        (
            "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n",
            501,
            "connect-unsupported",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: br, chunked\r\n\r\n",
            501,
            "coding-unknown",
        ),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: br\r\n\r\n",
            400,
            "coding-invalid",
        ),
        (
            "GET / HTTP/3.0\r\nHost: a\r\n\r\n",
            505,
            "version-unsupported",
        ),
        (
            &format!("GET /{} HTTP/1.1\r\n", "x".repeat(17_000)),
            414,
            "uri-too-long",
        ),
        (
            &format!("GET / HTTP/1.1\r\nA: {}", "x".repeat(70_000)),
            431,
            "head-too-large",
        ),
    ];
    for (text, status, cause) in rows {
        let error = request(text.as_bytes()).expect_err(cause);
        assert_eq!((error.status().code(), error.cause()), (status, cause));
    }
}

//! Which response heads are understood, and how their bodies end.

use super::*;
use crate::http::{FramingError, Persistence, ResponseFraming};

#[test]
fn status_lines_are_version_status_and_reason() {
    type Line = (u16, &'static str);
    let rows: [(&str, Result<Line, HeadError>); 19] = [
        ("HTTP/1.1 200 OK", Ok((200, "OK"))),
        ("HTTP/1.0 404 Not Found", Ok((404, "Not Found"))),
        ("HTTP/1.1 200 ", Ok((200, ""))),
        ("HTTP/1.1 200", Ok((200, ""))),
        ("HTTP/1.1 599 \u{fc}", Ok((599, "\u{fc}"))),
        ("HTTP/1.1 100 Continue", Ok((100, "Continue"))),
        ("HTTP/1.1 099 x", Err(HeadError::StatusLine)),
        ("HTTP/1.1 600 x", Err(HeadError::StatusLine)),
        ("HTTP/1.1 2000 x", Err(HeadError::StatusLine)),
        ("HTTP/1.1 20 OK", Err(HeadError::StatusLine)),
        ("HTTP/1.1 +20 x", Err(HeadError::StatusLine)),
        ("HTTP/1.1  200 OK", Err(HeadError::StatusLine)),
        ("HTTP/1.1\t200 OK", Err(HeadError::StatusLine)),
        ("http/1.1 200 OK", Err(HeadError::StatusLine)),
        ("ICY 200 OK      ", Err(HeadError::StatusLine)),
        ("HTTP/2.0 200 OK", Err(HeadError::Version)),
        ("HTTP/1.2 200 OK", Err(HeadError::Version)),
        ("HTTP/1.1 200 a\x01", Err(HeadError::ControlByte)),
        ("HTTP/1.1 101 Switching", Ok((101, "Switching"))),
    ];
    for (line, expected) in rows {
        let bytes = format!("{line}\r\n\r\n");
        let found = response(bytes.as_bytes(), Method::Get).map(|head| {
            let reason = head.reason(bytes.as_bytes());
            (
                head.status().code(),
                String::from_utf8_lossy(reason).into_owned(),
            )
        });
        let expected = expected.map(|(code, reason)| (code, reason.to_owned()));
        assert_eq!(found, expected, "{line:?}");
    }
}

#[test]
fn field_lines_are_as_strict_as_in_requests() {
    let rows: [(&str, HeadError); 6] = [
        ("A : b", HeadError::SpaceBeforeColon),
        ("A: b\r\n c", HeadError::Fold),
        ("A", HeadError::FieldName),
        ("A: b\rc", HeadError::ControlByte),
        ("A: b\nc: d", HeadError::BareLf),
        ("Connection: a b", HeadError::ConnectionInvalid),
    ];
    for (line, error) in rows {
        let bytes = format!("HTTP/1.1 200 OK\r\n{line}\r\n\r\n");
        let found = response(bytes.as_bytes(), Method::Get);
        assert_eq!(found.err(), Some(error), "{line:?}");
    }
}

#[test]
fn a_body_ends_where_its_head_says() {
    use ResponseFraming::{Chunked, Length, None, UntilClose};
    let rows = [
        ("200 OK", "", Method::Get, UntilClose),
        ("200 OK", "Content-Length: 5\r\n", Method::Get, Length(5)),
        ("200 OK", "Content-Length: 0\r\n", Method::Post, Length(0)),
        (
            "200 OK",
            "Transfer-Encoding: chunked\r\n",
            Method::Get,
            Chunked,
        ),
        ("200 OK", "Content-Length: 5\r\n", Method::Head, None),
        (
            "200 OK",
            "Transfer-Encoding: chunked\r\n",
            Method::Head,
            None,
        ),
        ("204 No Content", "", Method::Get, None),
        ("204 No Content", "Content-Length: 5\r\n", Method::Get, None),
        (
            "304 Not Modified",
            "Content-Length: 5\r\n",
            Method::Get,
            None,
        ),
        ("103 Early Hints", "Link: x\r\n", Method::Get, None),
    ];
    for (status, lines, method, framing) in rows {
        let bytes = format!("HTTP/1.1 {status}\r\n{lines}\r\n");
        let head = response(bytes.as_bytes(), method).unwrap();
        assert_eq!(head.framing(), framing, "{status} {lines:?} to {method:?}");
    }
}

#[test]
fn framing_that_could_be_misread_is_refused_even_without_a_body() {
    let rows = [
        (
            "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
            FramingError::LengthAndCoding,
        ),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n",
            FramingError::LengthRepeated,
        ),
        ("Content-Length: 5, 5\r\n", FramingError::LengthInvalid),
        ("Content-Length: -1\r\n", FramingError::LengthInvalid),
        ("Transfer-Encoding: gzip\r\n", FramingError::CodingInvalid),
        (
            "Transfer-Encoding: gzip, chunked\r\n",
            FramingError::CodingUnknown,
        ),
    ];
    for (lines, error) in rows {
        for method in [Method::Get, Method::Head] {
            let bytes = format!("HTTP/1.1 200 OK\r\n{lines}\r\n");
            let found = response(bytes.as_bytes(), method);
            assert_eq!(found.err(), Some(HeadError::Framing(error)), "{lines:?}");
        }
    }
    let old = b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    let error = HeadError::Framing(FramingError::CodingInHttp10);
    assert_eq!(response(old, Method::Get).err(), Some(error));
}

#[test]
fn upstream_connections_persist_unless_something_ends_them() {
    use Persistence::{Close, KeepAlive};
    let rows = [
        ("1.1", "Content-Length: 0\r\n", KeepAlive),
        (
            "1.1",
            "Content-Length: 0\r\nConnection: x, Close\r\n",
            Close,
        ),
        ("1.1", "", Close),
        ("1.1", "Connection: keep-alive\r\n", Close),
        ("1.0", "Content-Length: 0\r\n", Close),
        (
            "1.0",
            "Content-Length: 0\r\nConnection: keep-alive\r\n",
            KeepAlive,
        ),
    ];
    for (version, lines, persistence) in rows {
        let bytes = format!("HTTP/{version} 200 OK\r\n{lines}\r\n");
        let head = response(bytes.as_bytes(), Method::Get).unwrap();
        assert_eq!(head.persistence(), persistence, "{version} {lines:?}");
    }
}

#[test]
fn a_response_that_stops_anywhere_is_truncated() {
    let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nB: c\r\n\r\n";
    let limits = HeadLimits::default();
    for end in 0..bytes.len() {
        let found = ResponseHead::default().parse(&bytes[..end], Method::Get, &limits);
        assert_eq!(found, Err(HeadError::Truncated), "at {end}");
    }
}

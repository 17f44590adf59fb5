//! What the fields of a request say about its body and its connection, and which are refused.

use super::*;
use crate::http::{FramingError, Persistence, RequestFraming};

/// A GET of HTTP/1.1 with these field lines after its `Host`.
fn with_fields(lines: &str) -> Result<RequestHead, HeadError> {
    request(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n").as_bytes())
}

#[test]
fn field_lines_are_refused_rather_than_repaired() {
    let rows: [(&str, HeadError); 17] = [
        ("A : b\r\n", HeadError::SpaceBeforeColon),
        ("A\t: b\r\n", HeadError::SpaceBeforeColon),
        (
            "Transfer-Encoding : chunked\r\n",
            HeadError::SpaceBeforeColon,
        ),
        ("Content-Length : 5\r\n", HeadError::SpaceBeforeColon),
        ("A: b\r\n c\r\n", HeadError::Fold),
        ("A: b\r\n\tc\r\n", HeadError::Fold),
        (
            "Transfer-Encoding:\r\n chunked\r\n",
            HeadError::Framing(FramingError::CodingInvalid),
        ),
        (": b\r\n", HeadError::FieldName),
        ("A\r\n", HeadError::FieldName),
        ("A b\r\n", HeadError::SpaceBeforeColon),
        ("A\x0b: b\r\n", HeadError::FieldName),
        ("\u{e4}: b\r\n", HeadError::FieldName),
        ("A(: b\r\n", HeadError::FieldName),
        ("A: b\rc\r\n", HeadError::ControlByte),
        ("A: b\r\r\n", HeadError::ControlByte),
        ("A: \x01\r\n", HeadError::ControlByte),
        ("A: b\x7f\r\n", HeadError::ControlByte),
    ];
    for (lines, error) in rows {
        assert_eq!(with_fields(lines).err(), Some(error), "{lines:?}");
    }
}

#[test]
fn field_values_may_hold_tabs_and_bytes_beyond_ascii() {
    let lines = "A: b\tc \u{e9}\r\n";
    let bytes = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
    let head = request(bytes.as_bytes()).unwrap();
    let values: Vec<&[u8]> = head.fields().values(bytes.as_bytes(), b"a").collect();
    assert_eq!(values, ["b\tc \u{e9}".as_bytes()]);
}

#[test]
fn framing_that_two_hops_could_misread_is_refused() {
    const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";
    let rows: [(String, FramingError); 13] = [
        (
            format!("Content-Length: 5\r\n{CHUNKED}"),
            FramingError::LengthAndCoding,
        ),
        (
            format!("{CHUNKED}Content-Length: 5\r\n"),
            FramingError::LengthAndCoding,
        ),
        (format!("{CHUNKED}{CHUNKED}"), FramingError::CodingInvalid),
        (
            "Content-Length: 5\r\nContent-Length: 5\r\n".into(),
            FramingError::LengthRepeated,
        ),
        (
            "Content-Length: 5\r\ncontent-length: 6\r\n".into(),
            FramingError::LengthRepeated,
        ),
        (
            "Content-Length: 5, 5\r\n".into(),
            FramingError::LengthInvalid,
        ),
        ("Content-Length:\r\n".into(), FramingError::LengthInvalid),
        ("Content-Length: +5\r\n".into(), FramingError::LengthInvalid),
        (
            "Content-Length: 1 2\r\n".into(),
            FramingError::LengthInvalid,
        ),
        (
            "Transfer-Encoding: xchunked\r\n".into(),
            FramingError::CodingInvalid,
        ),
        (
            "Transfer-Encoding: chunked, identity\r\n".into(),
            FramingError::CodingInvalid,
        ),
        (
            "Transfer-Encoding: gzip, chunked\r\n".into(),
            FramingError::CodingUnknown,
        ),
        (
            "Transfer-Encoding: x\r\nTransfer-Encoding: chunked\r\n".into(),
            FramingError::CodingUnknown,
        ),
    ];
    for (lines, error) in rows {
        let error = HeadError::Framing(error);
        assert_eq!(with_fields(&lines).err(), Some(error), "{lines:?}");
    }
    let old = b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n";
    let error = HeadError::Framing(FramingError::CodingInHttp10);
    assert_eq!(request(old).err(), Some(error));
    let obfuscated = "Transfer-Encoding: \x0bchunked\r\n";
    assert_eq!(with_fields(obfuscated).err(), Some(HeadError::ControlByte));
}

#[test]
fn framing_is_read_from_the_one_field_that_states_it() {
    let rows: [(&str, RequestFraming); 6] = [
        ("", RequestFraming::None),
        ("Content-Length: 0\r\n", RequestFraming::Length(0)),
        ("content-length:12\r\n", RequestFraming::Length(12)),
        ("CONTENT-LENGTH: \t 12 \t\r\n", RequestFraming::Length(12)),
        ("Transfer-Encoding: chunked\r\n", RequestFraming::Chunked),
        ("transfer-encoding:\tCHUNKED\r\n", RequestFraming::Chunked),
    ];
    for (lines, framing) in rows {
        assert_eq!(with_fields(lines).unwrap().framing(), framing, "{lines:?}");
    }
}

#[test]
fn connections_persist_as_version_and_options_say() {
    use Persistence::{Close, KeepAlive};
    let rows = [
        ("1.1", "", KeepAlive),
        ("1.1", "Connection: close\r\n", Close),
        ("1.1", "Connection: Close\r\n", Close),
        ("1.1", "Connection: x, close\r\n", Close),
        ("1.1", "Connection: x\r\nConnection: close\r\n", Close),
        ("1.1", "Connection: keep-alive, close\r\n", Close),
        ("1.1", "Connection: closed\r\n", KeepAlive),
        ("1.1", "Proxy-Connection: close\r\n", KeepAlive),
        ("1.0", "", Close),
        ("1.0", "Connection: keep-alive\r\n", KeepAlive),
        ("1.0", "Connection: Keep-Alive, x\r\n", KeepAlive),
        (
            "1.0",
            "Connection: keep-alive\r\nConnection: close\r\n",
            Close,
        ),
        ("1.0", "Proxy-Connection: keep-alive\r\n", Close),
    ];
    for (version, lines, persistence) in rows {
        let bytes = format!("GET / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        let head = request(bytes.as_bytes()).unwrap();
        assert_eq!(head.persistence(), persistence, "{version} {lines:?}");
    }
}

#[test]
fn connection_must_be_a_list_of_names() {
    for lines in ["Connection: a b\r\n", "Connection: \"close\"\r\n"] {
        assert_eq!(with_fields(lines).err(), Some(HeadError::ConnectionInvalid));
    }
    let flood = format!("Connection: {}\r\n", ["x"; 33].join(","));
    assert_eq!(
        with_fields(&flood).err(),
        Some(HeadError::ConnectionInvalid)
    );
}

#[test]
fn only_a_body_can_be_waited_for() {
    let rows = [
        ("1.1", "Content-Length: 5\r\nExpect: 100-continue\r\n", true),
        (
            "1.1",
            "Expect: 100-Continue\r\nTransfer-Encoding: chunked\r\n",
            true,
        ),
        ("1.1", "Expect: 100-continue\r\n", false),
        ("1.1", "Content-Length: 5\r\n", false),
        (
            "1.0",
            "Content-Length: 5\r\nExpect: 100-continue\r\n",
            false,
        ),
    ];
    for (version, lines, expects) in rows {
        let bytes = format!("POST / HTTP/{version}\r\nHost: a\r\n{lines}\r\n");
        let head = request(bytes.as_bytes()).unwrap();
        assert_eq!(head.expects_continue(), expects, "{version} {lines:?}");
    }
    for lines in [
        "Expect: 200-ok\r\n",
        "Expect: 100-continue, x\r\n",
        "Expect: y 100-continue\r\n",
        "Expect:\r\n",
        "Expect: 100-continue\r\nExpect: 100-continue\r\n",
    ] {
        assert_eq!(
            with_fields(lines).err(),
            Some(HeadError::Expectation),
            "{lines:?}"
        );
    }
}

//! What an endpoint gets of a request.

use std::net::IpAddr;

use super::encode::write_request;
use super::*;

fn forwarded_from(client: &str, text: &str) -> String {
    let head = request(text.as_bytes()).unwrap();
    let forwarding = Forwarding {
        client: client.parse::<IpAddr>().unwrap(),
        scheme: Scheme::Http,
        fallback_host: b"10.0.0.9:8080",
        edited: Edited::default(),
    };
    let mut out = Vec::new();
    write_request(&mut out, text.as_bytes(), &head, &forwarding);
    String::from_utf8(out).unwrap()
}

/// The forwarded head without the forwarding fields it must end with.
fn forwarded(text: &str, host: &str) -> String {
    let out = forwarded_from("192.0.2.7", text);
    let tail = format!(
        "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: {host}\r\n\r\n"
    );
    out.strip_suffix(&tail)
        .unwrap_or_else(|| panic!("{out}"))
        .to_owned()
}

#[test]
fn a_plain_request_passes_as_it_came() {
    let head = "GET /a?b HTTP/1.1\r\nHost: a:80\r\nUser-Agent: curl/8\r\nAccept: */*\r\n";
    assert_eq!(forwarded(&format!("{head}\r\n"), "a:80"), head);
    assert_eq!(forwarded(&format!("\r\n\r\n{head}\r\n"), "a:80"), head);
}

#[test]
fn host_comes_first_and_once() {
    let rows = [
        ("GET / HTTP/1.1\r\nA: b\r\nHost: a\r\nC: d\r\n\r\n", "a"),
        ("GET / HTTP/1.1\r\nhost:a\r\nA: b\r\nC: d\r\n\r\n", "a"),
        (
            "GET http://x:81/ HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\n\r\n",
            "x:81",
        ),
        ("GET / HTTP/1.0\r\nA: b\r\nC: d\r\n\r\n", "10.0.0.9:8080"),
        ("GET / HTTP/1.0\r\nHost: a\r\nA: b\r\nC: d\r\n\r\n", "a"),
    ];
    for (text, host) in rows {
        let expected = format!("GET / HTTP/1.1\r\nHost: {host}\r\nA: b\r\nC: d\r\n");
        assert_eq!(forwarded(text, host), expected, "{text:?}");
    }
}

#[test]
fn targets_are_sent_in_origin_form() {
    let rows = [
        ("GET http://x/a?b", "GET /a?b"),
        ("GET http://x", "GET /"),
        ("GET http://x?q", "GET /?q"),
        ("OPTIONS http://x", "OPTIONS *"),
        ("OPTIONS http://x?q", "OPTIONS /?q"),
        ("OPTIONS http://x/", "OPTIONS /"),
        ("M-SEARCH http://x/", "M-SEARCH /"),
    ];
    for (line, expected) in rows {
        let text = format!("{line} HTTP/1.1\r\nHost: x\r\n\r\n");
        let expected = format!("{expected} HTTP/1.1\r\nHost: x\r\n");
        assert_eq!(forwarded(&text, "x"), expected, "{line}");
    }
    assert_eq!(
        forwarded("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", "x"),
        "OPTIONS * HTTP/1.1\r\nHost: x\r\n"
    );
}

#[test]
fn fields_of_this_hop_end_here() {
    let rows = [
        ("Connection: close", ""),
        ("Connection: keep-alive\r\nKeep-Alive: timeout=5", ""),
        ("Keep-Alive: timeout=5", ""),
        ("Proxy-Connection: keep-alive", ""),
        ("Proxy-Authorization: Basic eA==", ""),
        ("Proxy-Authenticate: Basic", ""),
        ("Upgrade: websocket", ""),
        (
            "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk",
            "",
        ),
        (
            "Connection: X-Hop\r\nX-Hop: 1\r\nx-hop: 2\r\nX-Hop-Not: 3",
            "X-Hop-Not: 3\r\n",
        ),
        (
            "X-Hop: 1\r\nY: z\r\nConnection: close,\tx-HOP ,",
            "Y: z\r\n",
        ),
        (
            "A: 1\r\nConnection: a\r\nB: 2\r\nConnection: b\r\nC: 3",
            "C: 3\r\n",
        ),
        ("TE: gzip", ""),
        ("TE: trailers", "TE: trailers\r\nConnection: TE\r\n"),
        (
            "TE: gzip;q=1, Trailers\r\nConnection: TE",
            "TE: trailers\r\nConnection: TE\r\n",
        ),
        (
            "TE: gzip\r\nTE: trailers",
            "TE: trailers\r\nConnection: TE\r\n",
        ),
        ("Trailer: X-Sum", "Trailer: X-Sum\r\n"),
        ("Connection: trailer\r\nTrailer: X-Sum", ""),
        (
            "Authorization: Basic eA==\r\nCookie: a=b",
            "Authorization: Basic eA==\r\nCookie: a=b\r\n",
        ),
        ("Expect: 100-continue", ""),
    ];
    for (lines, kept) in rows {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
        let expected = format!("GET / HTTP/1.1\r\nHost: a\r\n{kept}");
        assert_eq!(forwarded(&text, "a"), expected, "{lines:?}");
    }
}

#[test]
fn connection_cannot_name_away_framing_or_forwarding() {
    let text = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\
        Connection: host, content-length, x-forwarded-for, x-forwarded-proto, forwarded\r\n\
        X-Forwarded-For: 198.51.100.1\r\nForwarded: for=198.51.100.1\r\n\r\n";
    let expected = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\
        Forwarded: for=198.51.100.1\r\nX-Forwarded-For: 198.51.100.1, 192.0.2.7\r\n\
        X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n";
    assert_eq!(forwarded_from("192.0.2.7", text), expected);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
        Connection: transfer-encoding\r\n\r\n";
    let expected = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n";
    assert_eq!(forwarded(chunked, "a"), expected);
}

#[test]
fn framing_is_stated_once_in_its_plainest_spelling() {
    let rows = [
        ("Content-Length: 5", "Content-Length: 5\r\n"),
        ("content-length:\t005 ", "content-length: 5\r\n"),
        ("Content-Length: 000", "Content-Length: 0\r\n"),
        (
            "transfer-encoding:CHUNKED",
            "Transfer-Encoding: chunked\r\n",
        ),
        (
            "Transfer-Encoding: chunked\r\nA: b\r\nExpect: 100-Continue",
            "A: b\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n",
        ),
    ];
    for (lines, kept) in rows {
        let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{lines}\r\n\r\n");
        let expected = format!("POST / HTTP/1.1\r\nHost: a\r\n{kept}");
        assert_eq!(forwarded(&text, "a"), expected, "{lines:?}");
    }
    // What HTTP/1.0 cannot have meant is not asked of the endpoint.
    let old = "POST / HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let expected = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n";
    assert_eq!(forwarded(old, "a"), expected);
}

#[test]
fn odd_spacing_is_written_plainly() {
    let text =
        "GET / HTTP/1.1\r\nHost: a\r\nA:b\r\nC:  d\r\nE: f \r\nG:\th\r\nI:\r\nJ: \r\nK: l\r\n\r\n";
    let expected =
        "GET / HTTP/1.1\r\nHost: a\r\nA: b\r\nC: d\r\nE: f\r\nG: h\r\nI: \r\nJ: \r\nK: l\r\n";
    assert_eq!(forwarded(text, "a"), expected);
}

#[test]
fn clients_are_appended_to_those_named_before() {
    let rows = [
        ("192.0.2.7", "", "192.0.2.7"),
        ("0.0.0.0", "", "0.0.0.0"),
        ("255.10.1.99", "", "255.10.1.99"),
        ("255.255.255.255", "", "255.255.255.255"),
        ("2001:db8::1", "", "2001:db8::1"),
        ("::ffff:192.0.2.7", "", "192.0.2.7"),
        ("192.0.2.7", "X-Forwarded-For: a\r\n", "a, 192.0.2.7"),
        ("192.0.2.7", "X-Forwarded-For:\r\n", "192.0.2.7"),
        (
            "192.0.2.7",
            "x-forwarded-for: a, b\r\nX-FORWARDED-FOR: c\r\n",
            "a, b, c, 192.0.2.7",
        ),
    ];
    for (client, lines, expected) in rows {
        let text = format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        let expected = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {expected}\r\n\
            X-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n"
        );
        assert_eq!(forwarded_from(client, &text), expected, "{lines:?}");
    }
}

#[test]
fn clients_cannot_choose_scheme_and_host_of_the_forwarding_fields() {
    let text =
        "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: evil\r\n\r\n";
    assert_eq!(forwarded(text, "a"), "GET / HTTP/1.1\r\nHost: a\r\n");
}

//! What an affinity key costs: an expression over the head of a request, and the hash of its value. Plain expressions
//! are read directly; one that is interpreted stands beside them.

use std::hint::black_box;

use weir::affinity::{Affinity, Request};
use weir::http::h1::{HeadLimits, RequestHead};

use super::{print, time};

const ROUNDS: usize = 200;
const KEYS: usize = 256;
const INTERPRETED_KEYS: usize = 16;

const HEAD: &[u8] = b"GET /articles/2024/weirs-and-rivers?page=2 HTTP/1.1\r\nHost: www.example.org\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\nAccept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
    Referer: https://www.example.org/articles/2024/\r\n\
    Cookie: theme=dark; consent=all-of-it-2024-05-01; session=0123456789abcdef0123456789abcdef\r\n\
    Upgrade-Insecure-Requests: 1\r\nX-Request-Id: 4bf92f3577b34da6a3ce929d0e0e4736\r\nX-User: user-4711\r\n\r\n";

pub fn report() {
    let mut head = RequestHead::default();
    head.parse(HEAD, &HeadLimits::default())
        .expect("a valid head");
    println!(
        "\n{:<56} {:>9} {:>9}",
        "ns for a key, head of 10 fields", "best", "middle"
    );
    for (source, client, keys) in [
        ("request.headers[\"x-user\"]", "192.0.2.10:4711", KEYS),
        ("cookie(\"session\")", "192.0.2.10:4711", KEYS),
        ("request.path", "192.0.2.10:4711", KEYS),
        ("request.pathAndQuery", "192.0.2.10:4711", KEYS),
        ("request.host", "192.0.2.10:4711", KEYS),
        ("source.address", "192.0.2.10:4711", KEYS),
        ("source.address", "[2001:db8:1:2:3:4:5:6]:4711", KEYS),
        (
            "default(request.headers[\"x-none\"], cookie(\"session\"))",
            "192.0.2.10:4711",
            KEYS,
        ),
        (
            "request.headers[\"x-user\"] + \"\"",
            "192.0.2.10:4711",
            INTERPRETED_KEYS,
        ),
    ] {
        let affinity = Affinity::compile(source).expect("an expression");
        let request = Request {
            bytes: HEAD,
            head: &head,
            source: client.parse().expect("an address"),
        };
        let round = || {
            time(keys, || {
                for _ in 0..keys {
                    let key = affinity.key(black_box(&request)).expect("a value");
                    black_box(key);
                }
            })
        };
        let name = match client.starts_with('[') {
            true => format!("{source}, v6"),
            false if keys == INTERPRETED_KEYS => format!("{source}, interpreted"),
            false => source.to_owned(),
        };
        print(&name, (0..ROUNDS).map(|_| round()).collect());
    }
}

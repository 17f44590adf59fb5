//! What one head costs: finding its end, parsing it and writing it for the next hop. `cargo bench -p weir --bench
//! http_head` prints nanoseconds per head, the best and the middle of several rounds.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use weir::http::h1::encode::{write_request, write_response};
use weir::http::h1::{
    BodyDecoder, BodyForm, Edited, Forwarding, HeadLimits, HeadScan, RequestHead, ResponseEncoding,
    ResponseHead, Scheme,
};
use weir::http::{Method, Persistence, RequestFraming, Version};

/// Short rounds, so that the best ones are free of other work on the machine.
const ROUNDS: usize = 400;
const HEADS_PER_ROUND: u32 = 2_000;

const CURL: &[u8] = b"GET /api/v1/items?limit=20 HTTP/1.1\r\nHost: shop.example.org\r\n\
    User-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n";

const FIVE_FIELDS: &[u8] = b"GET /api/v1/items?limit=20 HTTP/1.1\r\nHost: shop.example.org\r\n\
    User-Agent: python-requests/2.31.0\r\nAccept-Encoding: gzip, deflate\r\nAccept: */*\r\n\
    Connection: keep-alive\r\n\r\n";

const BROWSER: &[u8] = b"GET /articles/2024/weirs-and-rivers?page=2 HTTP/1.1\r\n\
    Host: www.example.org\r\nConnection: keep-alive\r\n\
    sec-ch-ua: \"Chromium\";v=\"124\", \"Google Chrome\";v=\"124\", \"Not-A.Brand\";v=\"99\"\r\n\
    sec-ch-ua-mobile: ?0\r\nsec-ch-ua-platform: \"Linux\"\r\nUpgrade-Insecure-Requests: 1\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/124.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Sec-Fetch-Site: same-origin\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n\
    Referer: https://www.example.org/articles/2024/\r\nAccept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
    Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=all-of-it-2024-05-01\r\n\r\n";

const NGINX: &[u8] = b"HTTP/1.1 200 OK\r\nServer: nginx/1.22.1\r\n\
    Date: Sun, 30 Nov 2025 03:31:18 GMT\r\nContent-Type: text/html\r\nContent-Length: 612\r\n\
    Last-Modified: Tue, 04 Dec 2018 14:44:49 GMT\r\nConnection: keep-alive\r\n\
    ETag: \"5c0692e1-264\"\r\nAccept-Ranges: bytes\r\n\r\n";

fn main() {
    println!(
        "{:<30} {:>6} {:>9} {:>9}",
        "ns per head", "bytes", "best", "middle"
    );
    for (name, bytes) in [
        ("curl", CURL),
        ("5 fields", FIVE_FIELDS),
        ("browser", BROWSER),
    ] {
        measure_request(name, bytes);
    }
    measure_response("nginx", NGINX);
    measure_chunks();
}

fn measure_request(name: &str, bytes: &[u8]) {
    let limits = HeadLimits::default();
    let mut head = RequestHead::default();
    let mut out = Vec::new();
    let forwarding = Forwarding {
        client: IpAddr::V4(Ipv4Addr::new(192, 0, 2, 17)),
        scheme: Scheme::Http,
        fallback_host: b"10.0.0.11:8080",
        edited: Edited::default(),
    };
    let scan = || {
        let found = HeadScan::request().advance(black_box(bytes), &limits);
        found.expect("a valid head").expect("a whole head")
    };
    report(&format!("{name}: scan"), bytes, scan);
    report(&format!("{name}: parse"), bytes, || {
        head.parse(black_box(bytes), &limits).expect("a valid head");
        head.length()
    });
    report(&format!("{name}: write"), bytes, || {
        out.clear();
        write_request(&mut out, black_box(bytes), &head, &forwarding);
        out.len()
    });
    report(&format!("{name}: read and write"), bytes, || {
        head.read(&mut HeadScan::request(), black_box(bytes), &limits)
            .expect("a valid head");
        out.clear();
        write_request(&mut out, bytes, &head, &forwarding);
        out.len()
    });
}

fn measure_response(name: &str, bytes: &[u8]) {
    let limits = HeadLimits::default();
    let mut head = ResponseHead::default();
    let mut out = Vec::new();
    report(&format!("{name}: read and write"), bytes, || {
        let mut scan = HeadScan::response();
        head.read(&mut scan, black_box(bytes), Method::Get, &limits)
            .expect("a valid head");
        let encoding = ResponseEncoding::new(&head, Version::Http11, Persistence::KeepAlive);
        out.clear();
        write_response(&mut out, bytes, &head, encoding, b"");
        out.len()
    });
}

/// A read of 16 KiB that holds chunks of 1 KiB.
fn measure_chunks() {
    let chunk = [b"400\r\n".as_slice(), &[b'x'; 1024], b"\r\n"].concat();
    let body = chunk.repeat(16);
    report("16 chunks of 1 KiB: follow", &body, || {
        let mut decoder = BodyDecoder::of_request(RequestFraming::Chunked, BodyForm::Framed);
        decoder
            .next(black_box(&body))
            .expect("a valid body")
            .consumed
    });
}

fn report(name: &str, bytes: &[u8], mut work: impl FnMut() -> usize) {
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..HEADS_PER_ROUND {
                black_box(work());
            }
            start.elapsed().as_nanos() as f64 / f64::from(HEADS_PER_ROUND)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    let middle = rounds[ROUNDS / 2];
    println!(
        "{name:<30} {:>6} {:>9.1} {middle:>9.1}",
        bytes.len(),
        rounds[0]
    );
}

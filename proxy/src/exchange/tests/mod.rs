//! The core as a whole, through its seam: clients and endpoints are simulated, and time is moved by hand. Each theme has
//! a file; [`world`] is the driver they share, and checks the contract of the seam on the way.

mod books;
mod setup;
mod wire;
mod world;

mod access_log;
mod back_pressure;
mod bodies;
mod breaking;
mod budget;
mod cancelling;
mod causes;
mod chaos;
mod deadlines;
mod draining;
mod filters;
mod interim;
mod judging;
mod latency;
mod mirroring;
mod pipelining;
mod redirecting;
mod rejecting;
mod relaying;
mod replacing;
mod retry_rules;
mod retrying;
mod reuse;
mod routing;
mod rule_timeouts;
mod second_best;
mod splitting;
mod tunnelling;

use std::fmt::Display;
use std::time::Duration;

use world::CLIENT;

/// A request without a body.
fn get(path: impl Display) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

/// A request with a body of stated length.
fn with_body(method: &str, body: &str) -> String {
    let length = body.len();
    format!("{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\n{body}")
}

/// A response with a body of stated length.
fn ok(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// A message as it reaches the endpoint, if nothing in its head ends here: what the proxy adds stands at the end of the
/// head.
fn forwarded(request: &str) -> String {
    let (head, body) = request.split_once("\r\n\r\n").expect("a whole head");
    format!(
        "{head}\r\nX-Forwarded-For: {CLIENT}\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: a\r\n\r\n{body}"
    )
}

/// An answer of the proxy's own.
fn assert_local_reply(answer: &str, status: u16, cause: &str) {
    let line = format!("HTTP/1.1 {status} ");
    assert!(answer.starts_with(&line), "{status} expected: {answer}");
    let field = format!("\r\nx-weir-error: {cause}\r\n");
    assert!(answer.contains(&field), "{cause} expected: {answer}");
}

/// Whether the answer tells the client that its connection ends.
fn says_close(answer: &str) -> bool {
    answer.contains("\r\nConnection: close\r\n")
}

const fn seconds(length: u64) -> Duration {
    Duration::from_secs(length)
}

const fn millis(length: u64) -> Duration {
    Duration::from_millis(length)
}

//! Asks a running proxy for its dump. HTTP/1.0, so that the answer ends where the connection does; nothing else is
//! needed to talk to ourselves.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::runtime::words;

/// How long the proxy may take for the connection, and for each part of the answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Larger answers are not ours.
const LIMIT: u64 = 256 << 20;

/// Why there is no dump.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(
        "cannot reach the admin address {address}: {}; is `weir run` up, and does `--admin` name its address?",
        words::of(.source)
    )]
    Unreachable {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("the admin address {address} broke off its answer: {}", words::of(.source))]
    Broken {
        address: SocketAddr,
        source: io::Error,
    },
    #[error("{0}")]
    NotThere(String),
    #[error("{address} answers, but not as an admin address of weir does: {line}")]
    Unexpected { address: SocketAddr, line: String },
}

/// The text of `/config_dump`.
pub fn fetch_dump(address: SocketAddr) -> Result<String, FetchError> {
    fetch(address, "/config_dump")
}

/// The text of the answer to a GET of this path and query.
pub fn fetch(address: SocketAddr, target: &str) -> Result<String, FetchError> {
    let unreachable = |source| FetchError::Unreachable { address, source };
    let broken = |source| FetchError::Broken { address, source };

    let mut stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(unreachable)?;
    stream.set_read_timeout(Some(PATIENCE)).map_err(broken)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(broken)?;
    let request = format!("GET {target} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).map_err(broken)?;
    let mut answer = Vec::new();
    stream
        .take(LIMIT)
        .read_to_end(&mut answer)
        .map_err(broken)?;

    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let line = head.lines().next().unwrap_or_default();
    let status = line.split(' ').nth(1);
    // What the proxy does not have it says in one line.
    if status == Some("404") && (body.starts_with("no ") || body.starts_with("more than one ")) {
        return Err(FetchError::NotThere(body.trim_end().to_owned()));
    }
    if status != Some("200") {
        let line = line.chars().take(100).collect();
        return Err(FetchError::Unexpected { address, line });
    }
    Ok(body.to_owned())
}

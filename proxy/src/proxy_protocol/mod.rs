//! The PROXY protocol, versions 1 and 2: a header before the first byte of a connection, by which a proxy tells where
//! the connection comes from. Reading is strict: what is not exactly a header is an error, and never guessed at
//! (<https://www.haproxy.org/download/2.9/doc/proxy-protocol.txt>).

#[cfg(test)]
mod tests;
mod v1;
mod v2;

use std::net::SocketAddr;

use thiserror::Error;

/// Longest header of version 2 that is read, with everything it says beside addresses.
const MAX_V2: usize = 4096;

/// Which of the two spellings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// Where a connection comes from, and where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    pub source: SocketAddr,
    pub destination: SocketAddr,
}

/// A header that has come whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Bytes of it; what follows is the connection's own.
    pub length: usize,
    /// `None`: it speaks of itself, as for a check, or of addresses that are none of IP.
    pub addresses: Option<Addresses>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HeaderError {
    #[error("the connection does not begin with a PROXY header")]
    Missing,
    #[error("the PROXY header is longer than {most} bytes")]
    TooLong { most: usize },
    #[error("the PROXY header is malformed")]
    Malformed,
}

/// The header `bytes` begin with; `None` if more is needed to tell.
pub fn read(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    match bytes.first() {
        None => Ok(None),
        Some(&first) if first == v1::START[0] => v1::read(bytes),
        Some(&first) if first == v2::SIGNATURE[0] => v2::read(bytes),
        Some(_) => Err(HeaderError::Missing),
    }
}

/// Appends a header. Addresses of two families are both told as IPv6.
pub fn write(out: &mut Vec<u8>, version: Version, addresses: Addresses) {
    let Addresses {
        source,
        destination,
    } = addresses;
    let addresses = match (source, destination) {
        (SocketAddr::V4(_), SocketAddr::V4(_)) | (SocketAddr::V6(_), SocketAddr::V6(_)) => {
            addresses
        }
        _ => Addresses {
            source: mapped(source),
            destination: mapped(destination),
        },
    };
    match version {
        Version::V1 => v1::write(out, addresses),
        Version::V2 => v2::write(out, addresses),
    }
}

fn mapped(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) => SocketAddr::new(v4.ip().to_ipv6_mapped().into(), v4.port()),
        v6 => v6,
    }
}

/// Whether `bytes` may still become `whole`, or begin with it already.
fn agrees(bytes: &[u8], whole: &[u8]) -> bool {
    bytes.iter().zip(whole).all(|(one, other)| one == other)
}

//! Version 2: a signature, then command, family, length and addresses in binary; what else it says is skipped.
//!
//! ```text
//! 0 ............ 12      13       14 .. 16  16 ................. 16 + length
//! signature      command family   length    source, destination, their ports, more
//! ```

use std::net::{IpAddr, SocketAddr};

use super::{Addresses, Header, HeaderError, MAX_V2, agrees};

pub const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
const FIXED: usize = 16;
/// Version 2 in the upper half of a byte, the command in the lower one.
const LOCAL: u8 = 0x20;
const PROXY: u8 = 0x21;
const UNSPECIFIED: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX: u8 = 0x31;

pub fn read(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if !agrees(bytes, SIGNATURE) {
        return Err(HeaderError::Missing);
    }
    let Some((fixed, rest)) = bytes.split_at_checked(FIXED) else {
        return Ok(None);
    };
    let said = usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    let length = FIXED + said;
    if length > MAX_V2 {
        return Err(HeaderError::TooLong { most: MAX_V2 });
    }
    let (command, family) = (fixed[12], fixed[13]);
    let addresses_length = match (command, family) {
        (LOCAL, _) | (PROXY, UNSPECIFIED) => 0,
        (PROXY, TCP4) => 12,
        (PROXY, TCP6) => 36,
        (PROXY, UNIX) => 216,
        _ => return Err(HeaderError::Malformed),
    };
    if said < addresses_length {
        return Err(HeaderError::Malformed);
    }
    let Some(rest) = rest.get(..said) else {
        return Ok(None);
    };
    let addresses = match (command, family) {
        (PROXY, TCP4) => addresses::<4>(rest),
        (PROXY, TCP6) => addresses::<16>(rest),
        _ => None,
    };
    Ok(Some(Header { length, addresses }))
}

/// Addresses of `N` bytes each, then their ports; what follows is left alone.
fn addresses<const N: usize>(bytes: &[u8]) -> Option<Addresses>
where
    IpAddr: From<[u8; N]>,
{
    let (source, rest) = bytes.split_first_chunk::<N>()?;
    let (destination, rest) = rest.split_first_chunk::<N>()?;
    let (source_port, rest) = rest.split_first_chunk::<2>()?;
    let (destination_port, _) = rest.split_first_chunk::<2>()?;
    let address = |ip: &[u8; N], port| SocketAddr::new((*ip).into(), u16::from_be_bytes(port));
    Some(Addresses {
        source: address(source, *source_port),
        destination: address(destination, *destination_port),
    })
}

pub fn write(out: &mut Vec<u8>, addresses: Addresses) {
    let Addresses {
        source,
        destination,
    } = addresses;
    out.extend_from_slice(SIGNATURE);
    let (family, length) = match source {
        SocketAddr::V4(_) => (TCP4, 12),
        SocketAddr::V6(_) => (TCP6, 36),
    };
    out.extend_from_slice(&[PROXY, family, 0, length]);
    for ip in [source.ip(), destination.ip()] {
        match ip {
            IpAddr::V4(v4) => out.extend_from_slice(&v4.octets()),
            IpAddr::V6(v6) => out.extend_from_slice(&v6.octets()),
        }
    }
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
}

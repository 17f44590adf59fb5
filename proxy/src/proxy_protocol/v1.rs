//! Version 1: a line of text, `PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n`.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use super::{Addresses, Header, HeaderError, agrees};

pub const START: &[u8] = b"PROXY ";
/// The longest line, its end included.
const MAX: usize = 107;

pub fn read(bytes: &[u8]) -> Result<Option<Header>, HeaderError> {
    if !agrees(bytes, START) {
        return Err(HeaderError::Missing);
    }
    let Some(end) = bytes.iter().take(MAX).position(|&byte| byte == b'\n') else {
        return match bytes.len() >= MAX {
            true => Err(HeaderError::TooLong { most: MAX }),
            false => Ok(None),
        };
    };
    let line = bytes[..end].strip_suffix(b"\r");
    let text = line.and_then(|line| line.strip_prefix(START));
    let text = text.and_then(|text| std::str::from_utf8(text).ok());
    Ok(Some(Header {
        length: end + 1,
        addresses: parse(text.ok_or(HeaderError::Malformed)?).ok_or(HeaderError::Malformed)?,
    }))
}

/// What follows the first word. The outer `None`: nothing that has a meaning.
fn parse(text: &str) -> Option<Option<Addresses>> {
    let mut words = text.split(' ');
    let addresses = match words.next()? {
        // Whatever follows is to be ignored.
        "UNKNOWN" => return Some(None),
        "TCP4" => addresses::<Ipv4Addr>(&mut words)?,
        "TCP6" => addresses::<Ipv6Addr>(&mut words)?,
        _ => return None,
    };
    words.next().is_none().then_some(Some(addresses))
}

fn addresses<'a, A: FromStr + Into<IpAddr>>(
    words: &mut impl Iterator<Item = &'a str>,
) -> Option<Addresses> {
    let mut address = || words.next()?.parse::<A>().ok().map(Into::into);
    let (source, destination) = (address()?, address()?);
    Some(Addresses {
        source: SocketAddr::new(source, port(words.next()?)?),
        destination: SocketAddr::new(destination, port(words.next()?)?),
    })
}

/// Digits without a leading zero.
fn port(text: &str) -> Option<u16> {
    let is_plain =
        text == "0" || !text.starts_with('0') && text.bytes().all(|it| it.is_ascii_digit());
    is_plain.then(|| text.parse().ok())?
}

pub fn write(out: &mut Vec<u8>, addresses: Addresses) {
    let Addresses {
        source,
        destination,
    } = addresses;
    let family = match source {
        SocketAddr::V4(_) => "TCP4",
        SocketAddr::V6(_) => "TCP6",
    };
    // Writing to a Vec cannot fail.
    let _ = write!(
        out,
        "PROXY {family} {} {} {} {}\r\n",
        source.ip(),
        destination.ip(),
        source.port(),
        destination.port()
    );
}

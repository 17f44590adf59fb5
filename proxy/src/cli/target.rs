//! `--to`: an endpoint's address with an optional weight.

use std::net::{IpAddr, SocketAddr};

use super::address::{self, AddressError};
use crate::balance::Weight;
use crate::snapshot::Target;

/// Why a text names no endpoint, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the weight `{weight}` is not a whole number from 0 to 65535")]
    Weight { weight: String },
    #[error(transparent)]
    Address(#[from] AddressError),
}

/// `ip:port` or `[v6]:port`, and perhaps `@weight`.
pub fn parse(text: &str) -> Result<Target, TargetError> {
    let (address, weight) = match text.rsplit_once('@') {
        Some((address, weight)) => (address, parse_weight(weight)?),
        None => (text, Weight::ONE),
    };
    Ok(Target::at(parse_address(address)?, weight))
}

fn parse_weight(text: &str) -> Result<Weight, TargetError> {
    text.parse()
        .map(Weight::new)
        .map_err(|_| TargetError::Weight {
            weight: text.to_owned(),
        })
}

/// `ip:port` or `[v6]:port`, where something can be connected to.
fn parse_address(text: &str) -> Result<SocketAddr, AddressError> {
    let address = address::parse(text)?;
    if address.port() == 0 {
        return Err(AddressError::Port("0".to_owned()));
    }
    Ok(canonical(address))
}

/// One spelling for an endpoint: `[::ffff:10.0.0.1]:80` is `10.0.0.1:80`.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(address: &str, weight: u16) -> Result<Target, TargetError> {
        let address = address.parse().expect("a literal address");
        Ok(Target::at(address, Weight::new(weight)))
    }

    #[test]
    fn an_address_of_either_family_may_carry_a_weight() {
        assert_eq!(parse("10.0.0.1:80"), target("10.0.0.1:80", 1));
        assert_eq!(parse("10.0.0.1:80@3"), target("10.0.0.1:80", 3));
        assert_eq!(parse("[fd00::1]:80"), target("[fd00::1]:80", 1));
        assert_eq!(parse("[fd00::1]:80@0"), target("[fd00::1]:80", 0));
        assert_eq!(parse("10.0.0.1:80@65535"), target("10.0.0.1:80", 65535));
    }

    #[test]
    fn two_spellings_of_an_address_are_one_endpoint() {
        assert_eq!(parse("[::ffff:10.0.0.1]:80"), target("10.0.0.1:80", 1));
    }

    #[test]
    fn every_mistake_is_told_with_its_remedy() {
        let cases = [
            ("10.0.0.1:80@65536", "`65536`"),
            ("10.0.0.1:80@-1", "0 to 65535"),
            ("10.0.0.1:80@", "0 to 65535"),
            ("::1:9001@2", "write [::1]:9001"),
            ("localhost:80@2", "host name"),
            ("10.0.0.1:0", "1 to 65535"),
            ("10.0.0.300:80", "is not an address"),
            ("", "is empty"),
        ];
        for (text, remedy) in cases {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}

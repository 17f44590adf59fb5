//! `--to`: an endpoint's address with an optional weight.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::balance::Weight;
use crate::snapshot::Target;

/// Why a text names no endpoint, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("the weight `{weight}` is not a whole number from 0 to 65535")]
    Weight { weight: String },
    #[error("`{0}` has no port; write {0}:8080")]
    PortMissing(String),
    #[error("an IPv6 address stands in brackets; write [{0}]:8080")]
    BracketsMissing(String),
    #[error(
        "`{0}` is a host name, and only IP addresses are accepted; write its address, such as 10.0.0.11:8080"
    )]
    HostName(String),
    #[error("the port `{0}` is not a number from 1 to 65535")]
    Port(String),
    #[error(
        "`{0}` is not an address; write one like 10.0.0.11:8080, [fd00::11]:8080 or 10.0.0.11:8080@3"
    )]
    Unreadable(String),
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
fn parse_address(text: &str) -> Result<SocketAddr, TargetError> {
    match text.parse::<SocketAddr>() {
        Ok(address) if address.port() == 0 => Err(TargetError::Port("0".into())),
        Ok(address) => Ok(canonical(address)),
        Err(_) => Err(diagnose(text)),
    }
}

/// One spelling for an endpoint: `[::ffff:10.0.0.1]:80` is `10.0.0.1:80`.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// Says what is wrong with an address that cannot be read.
fn diagnose(text: &str) -> TargetError {
    let bare = text.trim_matches(['[', ']']);
    if bare.parse::<Ipv6Addr>().is_ok() {
        return if bare == text {
            TargetError::BracketsMissing(text.to_owned())
        } else {
            TargetError::PortMissing(text.to_owned())
        };
    }
    if text.parse::<IpAddr>().is_ok() {
        return TargetError::PortMissing(text.to_owned());
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_address {
        TargetError::Port(port.to_owned())
    } else if is_host_name(host) {
        TargetError::HostName(host.to_owned())
    } else {
        TargetError::Unreadable(text.to_owned())
    }
}

/// Letters, digits, hyphens and dots, and not only digits and dots: that would be a mistyped address.
fn is_host_name(text: &str) -> bool {
    let is_allowed =
        |character: char| character.is_ascii_alphanumeric() || "-._".contains(character);
    text.chars().all(is_allowed)
        && text
            .chars()
            .any(|character| character.is_ascii_alphabetic())
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
            ("10.0.0.1", "write 10.0.0.1:8080"),
            ("fd00::1", "write [fd00::1]:8080"),
            ("[fd00::1]", "write [fd00::1]:8080"),
            ("localhost:80", "host name"),
            ("web-1.example.com:80@2", "host name"),
            ("localhost", "host name"),
            ("10.0.0.1:0", "1 to 65535"),
            ("10.0.0.1:99999", "`99999`"),
            ("10.0.0.1:", "1 to 65535"),
            ("10.0.0.300:80", "is not an address"),
            ("http://10.0.0.1:80/", "is not an address"),
            ("", "is not an address"),
        ];
        for (text, remedy) in cases {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}

//! Addresses people type, and what is wrong with those that are none.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Why a text is no address with a port, and how to mend it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("is empty; write an address like 10.0.0.11:8080")]
    Empty,
    #[error("has no port; write {0}:8080")]
    PortMissing(String),
    #[error("has no address in front of the port; write one like 127.0.0.1:8080")]
    AddressMissing,
    #[error("an IPv6 address stands in brackets; write {0}")]
    BracketsMissing(String),
    #[error(
        "`{host}` is a host name, and only IP addresses are accepted; write its address, such as {instead}"
    )]
    HostName { host: String, instead: String },
    #[error("the port `{0}` is not a number from 1 to 65535")]
    Port(String),
    #[error("`{0}` is not an address; write one like 10.0.0.11:8080 or [fd00::11]:8080")]
    Unreadable(String),
}

/// `ip:port` or `[v6]:port`. Port 0 is one that something can listen on, but nothing be connected to.
pub fn parse(text: &str) -> Result<SocketAddr, AddressError> {
    text.parse().map_err(|_| diagnose(text))
}

fn diagnose(text: &str) -> AddressError {
    let bare = text.trim_matches(['[', ']']);
    if text.is_empty() {
        return AddressError::Empty;
    }
    if bare.parse::<Ipv6Addr>().is_ok() {
        return match bare == text {
            true => AddressError::BracketsMissing(in_brackets(text)),
            false => AddressError::PortMissing(text.to_owned()),
        };
    }
    if text.parse::<IpAddr>().is_ok() {
        return AddressError::PortMissing(text.to_owned());
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, "8080"));
    let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
    if is_address && port.is_empty() {
        AddressError::PortMissing(host.to_owned())
    } else if is_address {
        AddressError::Port(port.to_owned())
    } else if host.is_empty() || text.parse::<u16>().is_ok() {
        AddressError::AddressMissing
    } else if is_host_name(host) {
        let ip = if host == "localhost" {
            "127.0.0.1"
        } else {
            "10.0.0.11"
        };
        let port = port.parse::<u16>().unwrap_or(8080);
        AddressError::HostName {
            host: host.to_owned(),
            instead: format!("{ip}:{port}"),
        }
    } else {
        AddressError::Unreadable(text.to_owned())
    }
}

/// Where the last group reads like a port, it most likely is one.
fn in_brackets(text: &str) -> String {
    let split = text.rsplit_once(':');
    let with_port = split.filter(|(host, port)| {
        host.parse::<Ipv6Addr>().is_ok() && port.parse::<u16>().is_ok_and(|port| port > 9)
    });
    match with_port {
        Some((host, port)) => {
            format!("[{host}]:{port} (or [{text}]:8080 if {port} is part of the address)")
        }
        None => format!("[{text}]:8080"),
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

    #[test]
    fn every_mistake_is_told_with_its_remedy() {
        for (text, remedy) in [
            ("", "is empty"),
            ("10.0.0.1", "write 10.0.0.1:8080"),
            ("10.0.0.1:", "write 10.0.0.1:8080"),
            ("[fd00::1]", "write [fd00::1]:8080"),
            ("fd00::1", "write [fd00::1]:8080"),
            ("::1:9001", "write [::1]:9001 (or [::1:9001]:8080"),
            (":8080", "no address in front of the port"),
            ("8080", "no address in front of the port"),
            ("localhost", "such as 127.0.0.1:8080"),
            ("localhost:99999", "host name"),
            ("localhost:80", "such as 127.0.0.1:80"),
            ("web-1.example.com:80", "`web-1.example.com` is a host name"),
            (
                "10.0.0.1:99999",
                "the port `99999` is not a number from 1 to 65535",
            ),
            ("[::1]:port", "the port `port`"),
            ("10.0.0.300:80", "is not an address"),
            ("http://10.0.0.1:80/", "is not an address"),
        ] {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(remedy), "{text}: {error}");
        }
    }
}

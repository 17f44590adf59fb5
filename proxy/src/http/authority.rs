//! Host and port as they stand in `Host` and in absolute targets (RFC 3986, section 3.2, without user information).

use super::grammar::is_host_byte;

/// Whether this is a non-empty host with an optional port. An empty host names nothing over HTTP (RFC 9110, section
/// 4.2.1), so it is refused.
pub(super) fn is_authority(text: &[u8]) -> bool {
    let (host_is_valid, rest) = match text.split_first() {
        Some((b'[', rest)) => {
            let end = rest.iter().position(|&byte| byte == b']');
            match end {
                Some(end) => (is_literal(&rest[..end]), &rest[end + 1..]),
                None => return false,
            }
        }
        _ => {
            let end = text.iter().position(|&byte| byte == b':');
            let (host, rest) = text.split_at(end.unwrap_or(text.len()));
            (is_registered_name(host), rest)
        }
    };
    host_is_valid && is_port(rest)
}

fn is_registered_name(host: &[u8]) -> bool {
    if host.is_empty() {
        return false;
    }
    let mut rest = host;
    while let Some((&byte, tail)) = rest.split_first() {
        rest = match (byte, tail) {
            (b'%', [high, low, tail @ ..])
                if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
            {
                tail
            }
            _ if is_host_byte(byte) => tail,
            _ => return false,
        };
    }
    true
}

/// An IPv6 address. Its groups are not checked: nothing here acts on them, and no byte of it means anything elsewhere.
fn is_literal(address: &[u8]) -> bool {
    let is_address_byte = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    address.len() >= 2 && address.iter().all(is_address_byte)
}

/// Nothing, or a colon and a port number. The number may be missing (RFC 3986, section 3.2.3).
fn is_port(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => {
            digits.len() <= 5
                && digits.iter().all(u8::is_ascii_digit)
                && digits
                    .iter()
                    .fold(0u32, |port, digit| port * 10 + u32::from(digit - b'0'))
                    <= u32::from(u16::MAX)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_with_and_without_port_are_accepted() {
        for host in [
            "a",
            "example.org",
            "under_score.example:8080",
            "10.0.0.1:80",
            "[::1]",
            "[2001:db8::1]:65535",
            "[::ffff:10.0.0.1]:1",
            "example.org:",
            "x%41y",
        ] {
            assert!(is_authority(host.as_bytes()), "{host}");
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for host in [
            "",
            ":80",
            "a b",
            "a\tb",
            "a/b",
            "a?b",
            "a#b",
            "user@host",
            "a:80:80",
            "a:8x",
            "a:65536",
            "a:000080",
            "[::1",
            "[]",
            "[::1]x",
            "[::1%25eth0]",
            "::1",
            "a%4",
            "a%zz",
            "a\\b",
            "a\"b",
            "a<b",
            "\u{fc}ber",
            "a\x7f",
        ] {
            assert!(!is_authority(host.as_bytes()), "{host}");
        }
    }
}

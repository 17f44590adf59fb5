//! Host and port as they stand in `Host` and in absolute targets (RFC 3986, section 3.2, without user information).

use super::grammar::host_end;

/// Whether this is a non-empty host with an optional port. An empty host names nothing over HTTP (RFC 9110, section
/// 4.2.1), so it is refused.
pub fn is_authority(text: &[u8]) -> bool {
    let host_end = match text {
        [b'[', ..] => literal_end(text),
        _ => registered_name_end(text),
    };
    host_end.is_some_and(|end| is_port(&text[end..]))
}

fn registered_name_end(text: &[u8]) -> Option<usize> {
    let mut at = host_end(text, 0);
    while let [b'%', high, low, ..] = &text[at..] {
        if !high.is_ascii_hexdigit() || !low.is_ascii_hexdigit() {
            return None;
        }
        at = host_end(text, at + 3);
    }
    (at > 0).then_some(at)
}

/// Of an IPv6 address in brackets. Its groups are not checked: nothing here acts on them, and no byte of it means
/// anything elsewhere.
fn literal_end(text: &[u8]) -> Option<usize> {
    let end = text.iter().position(|&byte| byte == b']')?;
    let address = &text[1..end];
    let is_address_byte = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
    (address.len() >= 2 && address.iter().all(is_address_byte)).then_some(end + 1)
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

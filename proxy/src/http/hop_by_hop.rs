//! Fields the proxy must understand, and which of them end at this hop (RFC 9110, section 7.6.1). Everything else is
//! passed on untouched unless `Connection` names it.

use super::grammar::{elements, is_name, is_same};

/// More connection options than this are abuse: each is compared with every field.
const MAX_OPTIONS: u8 = 32;

/// A field name that means something to the proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    Other,
    Host,
    Connection,
    ContentLength,
    TransferEncoding,
    Expect,
    Te,
    Trailer,
    Upgrade,
    KeepAlive,
    ProxyConnection,
    ProxyAuthenticate,
    ProxyAuthenticationInfo,
    ProxyAuthorization,
    Forwarded,
    XForwardedFor,
    XForwardedHost,
    XForwardedProto,
}

impl Known {
    /// Of a valid field name.
    #[inline]
    pub fn from_name(name: &[u8]) -> Self {
        // Most names are told apart by their first letter, before any call.
        match name.first().map(|first| first | 0x20) {
            Some(first @ (b'c' | b'e' | b'f' | b'h' | b'k' | b'p' | b't' | b'u' | b'x')) => {
                Self::from_candidate(name, first)
            }
            _ => Self::Other,
        }
    }

    fn from_candidate(name: &[u8], first: u8) -> Self {
        let (is_it, known) = match (name.len(), first) {
            (2, b't') => (is_same(name, b"te"), Self::Te),
            (4, b'h') => (is_same(name, b"host"), Self::Host),
            (6, b'e') => (is_same(name, b"expect"), Self::Expect),
            (7, b't') => (is_same(name, b"trailer"), Self::Trailer),
            (7, b'u') => (is_same(name, b"upgrade"), Self::Upgrade),
            (9, b'f') => (is_same(name, b"forwarded"), Self::Forwarded),
            (10, b'c') => (is_same(name, b"connection"), Self::Connection),
            (10, b'k') => (is_same(name, b"keep-alive"), Self::KeepAlive),
            (14, b'c') => (is_same(name, b"content-length"), Self::ContentLength),
            (15, b'x') => (is_same(name, b"x-forwarded-for"), Self::XForwardedFor),
            (16, b'x') => (is_same(name, b"x-forwarded-host"), Self::XForwardedHost),
            (16, b'p') => (is_same(name, b"proxy-connection"), Self::ProxyConnection),
            (17, b'x') => (is_same(name, b"x-forwarded-proto"), Self::XForwardedProto),
            (17, b't') => (is_same(name, b"transfer-encoding"), Self::TransferEncoding),
            (18, b'p') => (
                is_same(name, b"proxy-authenticate"),
                Self::ProxyAuthenticate,
            ),
            (19, b'p') => (
                is_same(name, b"proxy-authorization"),
                Self::ProxyAuthorization,
            ),
            (25, b'p') => (
                is_same(name, b"proxy-authentication-info"),
                Self::ProxyAuthenticationInfo,
            ),
            _ => return Self::Other,
        };
        if is_it { known } else { Self::Other }
    }

    /// Ends at this hop whether `Connection` names it or not.
    pub(super) fn is_hop_by_hop(self) -> bool {
        match self {
            // Written anew from the framing that was understood, so it ends here like the rest.
            Self::TransferEncoding => true,
            Self::Connection | Self::KeepAlive | Self::Te | Self::Upgrade => true,
            // Not meant for an origin, and a gateway that never asked for them has no one to hand them to: passing
            // them on would tell endpoints the credentials of a proxy (RFC 9110, section 11.7).
            Self::ProxyConnection
            | Self::ProxyAuthenticate
            | Self::ProxyAuthenticationInfo
            | Self::ProxyAuthorization => true,
            Self::Other | Self::Host | Self::ContentLength | Self::Expect | Self::Trailer => false,
            Self::Forwarded | Self::XForwardedFor => false,
            Self::XForwardedHost | Self::XForwardedProto => false,
        }
    }

    /// Whether `Connection: <name>` removes it. Otherwise a client could strip what an earlier proxy vouched for, or
    /// the framing.
    pub(super) fn is_removable(self) -> bool {
        matches!(self, Self::Other | Self::Trailer)
    }

    /// Whether a trailer section may not carry it: framing, routing and what belongs to one hop (RFC 9110, section
    /// 6.5.1).
    pub(super) fn is_refused_in_trailers(self) -> bool {
        self != Self::Other
    }
}

/// What the `Connection` fields of a head ask for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ConnectionOptions {
    pub close: bool,
    pub keep_alive: bool,
    pub upgrade: bool,
    /// Some option may be the name of a field.
    pub names_fields: bool,
    count: u8,
}

/// An option that is not a name, or too many of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InvalidOption;

impl ConnectionOptions {
    /// Takes in the value of one `Connection` field.
    pub fn on_value(&mut self, value: &[u8]) -> Result<(), InvalidOption> {
        // What clients say by default needs no list.
        if is_same(value, b"keep-alive") {
            self.keep_alive = true;
            return Ok(());
        }
        for option in elements(value).filter(|option| !option.is_empty()) {
            self.count += 1;
            if self.count > MAX_OPTIONS || !is_name(option) {
                return Err(InvalidOption);
            }
            if is_same(option, b"close") {
                self.close = true;
            } else if is_same(option, b"keep-alive") {
                self.keep_alive = true;
            } else if is_same(option, b"upgrade") {
                self.upgrade = true;
            } else if Known::from_name(option).is_removable() {
                self.names_fields = true;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_found_in_any_case() {
        let rows: [(&str, Known); 17] = [
            ("Host", Known::Host),
            ("Connection", Known::Connection),
            ("Content-Length", Known::ContentLength),
            ("Transfer-Encoding", Known::TransferEncoding),
            ("Expect", Known::Expect),
            ("TE", Known::Te),
            ("Trailer", Known::Trailer),
            ("Upgrade", Known::Upgrade),
            ("Keep-Alive", Known::KeepAlive),
            ("Proxy-Connection", Known::ProxyConnection),
            ("Proxy-Authenticate", Known::ProxyAuthenticate),
            ("Proxy-Authentication-Info", Known::ProxyAuthenticationInfo),
            ("Proxy-Authorization", Known::ProxyAuthorization),
            ("Forwarded", Known::Forwarded),
            ("X-Forwarded-For", Known::XForwardedFor),
            ("X-Forwarded-Host", Known::XForwardedHost),
            ("X-Forwarded-Proto", Known::XForwardedProto),
        ];
        for (name, known) in rows {
            assert_eq!(Known::from_name(name.as_bytes()), known);
            assert_eq!(Known::from_name(name.to_uppercase().as_bytes()), known);
            assert_eq!(Known::from_name(name.to_lowercase().as_bytes()), known);
            // A neighbour of the same length is not it.
            let neighbour = format!("{}!", &name[..name.len() - 1]);
            assert_eq!(Known::from_name(neighbour.as_bytes()), Known::Other);
        }
        assert_eq!(Known::from_name(b""), Known::Other);
    }

    #[test]
    fn connection_options_are_a_list_of_names() {
        let rows: [(&[u8], Option<[bool; 3]>); 10] = [
            (b"close", Some([true, false, false])),
            (b"Keep-Alive", Some([false, true, false])),
            (b"keep-alive, CLOSE", Some([true, true, false])),
            (b"te, upgrade", Some([false, false, false])),
            (b"x-hop,\tclose", Some([true, false, true])),
            (b", ,close,", Some([true, false, false])),
            (b"", Some([false, false, false])),
            (b"closed", Some([false, false, true])),
            (b"clo se", None),
            (b"close;x=1", None),
        ];
        for (value, expected) in rows {
            let mut options = ConnectionOptions::default();
            let result = options.on_value(value);
            let found = [options.close, options.keep_alive, options.names_fields];
            assert_eq!(result.is_ok().then_some(found), expected, "{value:?}");
        }
    }

    #[test]
    fn a_flood_of_connection_options_is_refused() {
        let mut options = ConnectionOptions::default();
        for _ in 0..MAX_OPTIONS {
            assert_eq!(options.on_value(b"x"), Ok(()));
        }
        assert_eq!(options.on_value(b"x"), Err(InvalidOption));
    }
}

//! Response status codes.

use std::fmt;

/// A status code from 100 to 599.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Status(u16);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is not an HTTP status (100 to 599)")]
pub struct InvalidStatus(u16);

impl Status {
    pub const SWITCHING_PROTOCOLS: Self = Self(101);
    pub const OK: Self = Self(200);
    pub const FOUND: Self = Self(302);
    pub const BAD_REQUEST: Self = Self(400);
    pub const NOT_FOUND: Self = Self(404);
    pub const REQUEST_TIMEOUT: Self = Self(408);
    pub const URI_TOO_LONG: Self = Self(414);
    pub const EXPECTATION_FAILED: Self = Self(417);
    pub const TOO_MANY_REQUESTS: Self = Self(429);
    pub const HEAD_TOO_LARGE: Self = Self(431);
    pub const INTERNAL_ERROR: Self = Self(500);
    pub const NOT_IMPLEMENTED: Self = Self(501);
    pub const BAD_GATEWAY: Self = Self(502);
    pub const UNAVAILABLE: Self = Self(503);
    pub const GATEWAY_TIMEOUT: Self = Self(504);
    pub const VERSION_NOT_SUPPORTED: Self = Self(505);

    pub const fn code(self) -> u16 {
        self.0
    }

    /// 1xx but 101: another response to the same request follows.
    pub const fn is_interim(self) -> bool {
        self.0 < 200 && self.0 != 101
    }

    /// Whether such a response ends with its head whatever its fields say (RFC 9112, section 6.3).
    pub const fn is_bodiless(self) -> bool {
        matches!(self.0, 0..200 | 204 | 304)
    }

    /// The phrase of the registered code, for the codes the proxy answers with itself.
    pub const fn phrase(self) -> &'static str {
        match self.0 {
            200 => "OK",
            301 => "Moved Permanently",
            302 => "Found",
            303 => "See Other",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            400 => "Bad Request",
            404 => "Not Found",
            408 => "Request Timeout",
            413 => "Content Too Large",
            414 => "URI Too Long",
            417 => "Expectation Failed",
            429 => "Too Many Requests",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            501 => "Not Implemented",
            502 => "Bad Gateway",
            503 => "Service Unavailable",
            504 => "Gateway Timeout",
            505 => "HTTP Version Not Supported",
            _ => "",
        }
    }
}

impl TryFrom<u16> for Status {
    type Error = InvalidStatus;

    fn try_from(code: u16) -> Result<Self, InvalidStatus> {
        match code {
            100..=599 => Ok(Self(code)),
            _ => Err(InvalidStatus(code)),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_outside_the_five_classes_do_not_exist() {
        for code in [0, 99, 600, u16::MAX] {
            assert_eq!(Status::try_from(code), Err(InvalidStatus(code)));
        }
        for code in [100, 599] {
            assert_eq!(Status::try_from(code).map(Status::code), Ok(code));
        }
    }
}

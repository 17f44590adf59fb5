//! Request methods: the registered ones by name, the rest as an extension whose spelling stays in the head.

/// RFC 9110, section 9. Methods are case-sensitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Delete,
    Connect,
    Options,
    Trace,
    Patch,
    /// Any other name; nothing is assumed about it.
    Extension,
}

impl Method {
    pub fn from_name(name: &[u8]) -> Self {
        match name {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Extension,
        }
    }

    /// Asks for nothing to be changed (RFC 9110, section 9.2.1).
    pub fn is_safe(self) -> bool {
        matches!(self, Self::Get | Self::Head | Self::Options | Self::Trace)
    }

    /// May be sent twice with the effect of once (RFC 9110, section 9.2.2).
    pub fn is_idempotent(self) -> bool {
        self.is_safe() || matches!(self, Self::Put | Self::Delete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_methods_known_to_be_harmless_are_idempotent() {
        let rows: [(&[u8], bool, bool); 11] = [
            (b"GET", true, true),
            (b"HEAD", true, true),
            (b"OPTIONS", true, true),
            (b"TRACE", true, true),
            (b"PUT", false, true),
            (b"DELETE", false, true),
            (b"POST", false, false),
            (b"PATCH", false, false),
            (b"CONNECT", false, false),
            (b"PROPFIND", false, false),
            (b"get", false, false),
        ];
        for (name, safe, idempotent) in rows {
            let method = Method::from_name(name);
            assert_eq!(method.is_safe(), safe, "{method:?}");
            assert_eq!(method.is_idempotent(), idempotent, "{method:?}");
        }
    }
}

//! Host names of routes and listeners: exact, or `*.` and the rest, which stands for one or more labels.

/// Which hosts a rule or a listener is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Host {
    #[default]
    Any,
    /// In lower case.
    Exact(Box<str>),
    /// `*.example.com`, kept as `.example.com` in lower case.
    Wildcard(Box<str>),
}

/// Why a text is no host name of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("is an IP address; routes match names only")]
    Address,
    #[error("has a port; leave it out, routes match the name only")]
    Port,
    #[error(
        "is not a host name of lower-case letters, digits, hyphens and dots, perhaps after a leading `*.`"
    )]
    Unreadable,
}

impl Host {
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if text.parse::<std::net::IpAddr>().is_ok() {
            return Err(HostError::Address);
        }
        if let Some((_, port)) = text.rsplit_once(':')
            && port.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(HostError::Port);
        }
        let (name, is_wildcard) = match text.strip_prefix("*.") {
            Some(name) => (name, true),
            None => (text, false),
        };
        if text.len() > 253 || !name.split('.').all(is_label) {
            return Err(HostError::Unreadable);
        }
        Ok(if is_wildcard {
            Self::Wildcard(text[1..].into())
        } else {
            Self::Exact(name.into())
        })
    }

    /// Whether it is for the host of this name, in whatever case, without port and without the root's dot.
    pub(super) fn covers(&self, name: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => name.eq_ignore_ascii_case(wanted.as_bytes()),
            Self::Wildcard(suffix) => {
                let start = name.len().saturating_sub(suffix.len());
                // The asterisk stands for something.
                start > 0 && name[start..].eq_ignore_ascii_case(suffix.as_bytes())
            }
        }
    }

    /// The hosts both are for; `None` if there are none.
    pub fn and(&self, other: &Self) -> Option<Self> {
        let narrower = match (self, other) {
            (Self::Any, host) | (host, Self::Any) => host,
            (Self::Exact(name), Self::Exact(other_name)) if name == other_name => self,
            (Self::Exact(name), Self::Wildcard(suffix)) if is_under(name, suffix) => self,
            (Self::Wildcard(suffix), Self::Exact(name)) if is_under(name, suffix) => other,
            (Self::Wildcard(one), Self::Wildcard(two)) if one.ends_with(&**two) => self,
            (Self::Wildcard(one), Self::Wildcard(two)) if two.ends_with(&**one) => other,
            _ => return None,
        };
        Some(narrower.clone())
    }
}

fn is_under(name: &str, suffix: &str) -> bool {
    name.len() > suffix.len() && name.ends_with(suffix)
}

/// As in DNS (RFC 1123, section 2.1), in lower case.
fn is_label(label: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !label.is_empty()
        && label.len() <= 63
        && label.bytes().all(is_allowed)
        && !label.starts_with('-')
        && !label.ends_with('-')
}

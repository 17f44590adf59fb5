//! Paths of routes. A prefix is one of whole elements: `/a` is for `/a` and `/a/b`, not for `/ab`.

use super::Pattern;

/// Which paths a rule is for. Paths are compared as the client wrote them.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum PathMatch {
    /// The prefix `/`.
    #[default]
    Any,
    Exact(Box<str>),
    /// Without a slash at its end.
    Prefix(Box<str>),
    /// For the whole path.
    Regex(Pattern),
}

impl PathMatch {
    /// The prefix `text`, which begins with a slash.
    pub fn prefix(text: &str) -> Self {
        match text.trim_end_matches('/') {
            "" => Self::Any,
            prefix => Self::Prefix(prefix.into()),
        }
    }

    /// Whether it is for this path.
    pub(super) fn covers(&self, path: &[u8]) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(wanted) => path == wanted.as_bytes(),
            Self::Prefix(prefix) => path
                .strip_prefix(prefix.as_bytes())
                .is_some_and(|rest| matches!(rest, [] | [b'/', ..])),
            Self::Regex(pattern) => pattern.matches(path),
        }
    }

    /// Bytes of a path that was matched that are the prefix.
    pub fn prefix_length(&self) -> usize {
        match self {
            Self::Prefix(prefix) => prefix.len(),
            Self::Any | Self::Exact(_) | Self::Regex(_) => 0,
        }
    }
}

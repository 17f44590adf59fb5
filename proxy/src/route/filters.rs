//! What a rule does to its requests and their responses on the way.

use super::{Mirror, Redirect};
use crate::http::FieldEdits;

/// The default leaves all as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filters {
    pub request: FieldEdits,
    pub response: FieldEdits,
    pub rewrite: Rewrite,
    /// In the place of all else: no endpoint is asked.
    pub redirect: Option<Redirect>,
    /// Who else gets requests.
    pub mirrors: Vec<Mirror>,
}

impl Filters {
    /// The same with header edits of a backend on top, which have the last word.
    pub fn followed_by(&self, own: &Self) -> Self {
        Self {
            request: self.request.followed_by(&own.request),
            response: self.response.followed_by(&own.response),
            ..self.clone()
        }
    }
}

/// What endpoints are told that a request is for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// In the place of `Host`.
    pub host: Option<Box<str>>,
    pub path: Option<PathRewrite>,
}

/// Another path. The query stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathRewrite {
    Full(Box<str>),
    /// In the place of the prefix by which the rule was found; without a slash at its end.
    Prefix(Box<str>),
}

impl PathRewrite {
    /// Replaces the prefix a rule is found by.
    pub fn prefix(text: &str) -> Self {
        Self::Prefix(text.trim_end_matches('/').into())
    }

    /// Writes the path, and the query that belongs to it, in the place of those received. `matched` is the length of the
    /// prefix by which the rule was found.
    pub fn write(&self, out: &mut Vec<u8>, path_and_query: &[u8], matched: usize) {
        let is_mark = |byte: &u8| *byte == b'?';
        let end = path_and_query.iter().position(is_mark);
        let (path, query) = path_and_query.split_at(end.unwrap_or(path_and_query.len()));
        match self {
            Self::Full(full) => out.extend_from_slice(full.as_bytes()),
            Self::Prefix(prefix) => {
                let rest = path.get(matched..).unwrap_or_default();
                out.extend_from_slice(prefix.as_bytes());
                out.extend_from_slice(rest);
                if prefix.is_empty() && rest.is_empty() {
                    out.push(b'/');
                }
            }
        }
        out.extend_from_slice(query);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(rewrite: &PathRewrite, path: &str, matched: &str) -> String {
        let mut out = Vec::new();
        let matched = matched.trim_end_matches('/').len();
        rewrite.write(&mut out, path.as_bytes(), matched);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn prefixes_are_replaced_as_the_gateway_api_lists_it() {
        for (path, matched, prefix, expected) in [
            ("/foo/bar", "/foo", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo", "/xyz/", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz", "/xyz/bar"),
            ("/foo/bar", "/foo/", "/xyz/", "/xyz/bar"),
            ("/foo", "/foo", "/xyz", "/xyz"),
            ("/foo/", "/foo", "/xyz", "/xyz/"),
            ("/foo/bar", "/foo", "", "/bar"),
            ("/foo/", "/foo", "", "/"),
            ("/foo", "/foo", "", "/"),
            ("/foo/", "/foo", "/", "/"),
            ("/foo", "/foo", "/", "/"),
            ("/foo?a=/foo", "/foo", "/xyz", "/xyz?a=/foo"),
            ("/foo?q", "/foo", "", "/?q"),
            ("/bar", "/", "/xyz", "/xyz/bar"),
        ] {
            let rewrite = PathRewrite::prefix(prefix);
            assert_eq!(
                rewritten(&rewrite, path, matched),
                expected,
                "{path} {prefix}"
            );
        }
    }

    #[test]
    fn a_full_path_keeps_the_query() {
        let rewrite = PathRewrite::Full("/new".into());
        assert_eq!(rewritten(&rewrite, "/old/path?a=b", ""), "/new?a=b");
        assert_eq!(rewritten(&rewrite, "/old", ""), "/new");
    }
}

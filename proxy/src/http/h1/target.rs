//! The request target (RFC 9112, section 3.2): origin-form, absolute-form with its authority, or an asterisk.

use crate::http::grammar::target_end;
use crate::http::{Method, Span};

use super::HeadError;

/// What a request asks for, as ranges of its head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Target {
    /// As it stands in the request line.
    pub whole: Span,
    /// From absolute-form only: it takes the place of `Host`.
    pub authority: Option<Span>,
    /// Path and query, or `*`. Of an absolute-form without path it may be empty or start with `?`.
    pub path: Span,
}

impl Target {
    /// Reads the target that starts at `start`.
    pub fn parse(bytes: &[u8], start: usize, method: Method) -> Result<Self, HeadError> {
        let end = target_end(bytes, start);
        match bytes.get(end) {
            Some(b' ') => {}
            Some(b'\r' | b'\n') => return Err(HeadError::RequestLine),
            Some(_) => return Err(HeadError::Target),
            None => return Err(HeadError::Truncated),
        }
        let whole = Span::new(start..end);
        match &bytes[start..end] {
            [b'/', ..] => Ok(Self {
                whole,
                authority: None,
                path: whole,
            }),
            [b'*'] if method == Method::Options => Ok(Self {
                whole,
                authority: None,
                path: whole,
            }),
            text => Self::parse_absolute(text, whole).ok_or(HeadError::Target),
        }
    }

    fn parse_absolute(text: &[u8], whole: Span) -> Option<Self> {
        let scheme = text.iter().position(|&byte| byte == b':')?;
        let is_http = text[..scheme].eq_ignore_ascii_case(b"http");
        let is_https = text[..scheme].eq_ignore_ascii_case(b"https");
        let authority_and_path = text[scheme + 1..].strip_prefix(b"//")?;
        if !is_http && !is_https {
            return None;
        }
        let authority_start = text.len() - authority_and_path.len();
        let length = authority_and_path
            .iter()
            .position(|&byte| matches!(byte, b'/' | b'?'))
            .unwrap_or(authority_and_path.len());
        // Offsets within a span that fits 32 bits fit too.
        let path_start = whole.start + (authority_start + length) as u32;
        Some(Self {
            whole,
            authority: Some(Span {
                start: whole.start + authority_start as u32,
                end: path_start,
            }),
            path: Span {
                start: path_start,
                end: whole.end,
            },
        })
    }

    /// Whether an upstream gets the same bytes.
    pub fn is_origin_form(&self) -> bool {
        self.authority.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(target: &str, method: Method) -> Result<(Option<String>, String), HeadError> {
        let bytes = format!("X {target} HTTP/1.1\r\n");
        let text = |span: Span| String::from_utf8_lossy(span.of(bytes.as_bytes())).into_owned();
        let target = Target::parse(bytes.as_bytes(), 2, method)?;
        Ok((target.authority.map(text), text(target.path)))
    }

    #[test]
    fn targets_are_split_into_authority_and_path() {
        let rows = [
            ("/", None, "/"),
            ("/a?b=c|d&e={f}", None, "/a?b=c|d&e={f}"),
            ("//double/slash", None, "//double/slash"),
            ("/http://elsewhere/", None, "/http://elsewhere/"),
            ("http://a", Some("a"), ""),
            ("http://a:80/", Some("a:80"), "/"),
            ("HTTPS://a?q", Some("a"), "?q"),
            ("http://a/b?c/d", Some("a"), "/b?c/d"),
            ("http://[::1]:8080/x", Some("[::1]:8080"), "/x"),
            // Authorities are checked where Host is.
            ("http://user@a/", Some("user@a"), "/"),
            ("http:///x", Some(""), "/x"),
        ];
        for (target, authority, path) in rows {
            let expected = (authority.map(str::to_owned), path.to_owned());
            assert_eq!(parsed(target, Method::Get), Ok(expected), "{target}");
        }
    }

    #[test]
    fn an_asterisk_is_for_options_only() {
        assert_eq!(parsed("*", Method::Options), Ok((None, "*".to_owned())));
        assert_eq!(parsed("*", Method::Get), Err(HeadError::Target));
        assert_eq!(parsed("**", Method::Options), Err(HeadError::Target));
    }

    #[test]
    fn other_targets_are_refused() {
        for target in [
            "example.org:443",
            "path",
            "?q",
            "ftp://a/",
            "http:a",
            "http:/a",
            "://a",
            "/a#b",
            "/a\tb",
            "/a\"b",
            "/<a>",
            "/\u{fc}",
            "/\x01",
            "/\x7f",
        ] {
            assert_eq!(
                parsed(target, Method::Get),
                Err(HeadError::Target),
                "{target:?}"
            );
        }
        assert_eq!(parsed("", Method::Get), Err(HeadError::Target));
    }
}

//! What expressions can ask of a request, and of its response where there is one. A trait, so that nothing here knows how a message lies in memory.

use std::net::SocketAddr;

/// The attributes of one request, as far as its head tells.
pub trait Attributes {
    fn method(&self) -> &[u8];
    /// Without the query.
    fn path(&self) -> &[u8];
    /// As received.
    fn path_and_query(&self) -> &[u8];
    /// Host and port the request is for; `None` for HTTP/1.0 without it.
    fn host(&self) -> Option<&[u8]>;
    fn scheme(&self) -> &'static str;
    /// As in `HTTP/1.1`.
    fn version(&self) -> &'static str;
    /// Names and values of all fields, in order.
    fn for_each_header<'a>(&'a self, see: &mut dyn FnMut(&'a [u8], &'a [u8]));
    /// Values of all fields of this name, in whatever case, in order.
    fn for_each_value_of<'a>(&'a self, name: &str, see: &mut dyn FnMut(&'a [u8])) {
        self.for_each_header(&mut |field, value| {
            if field.eq_ignore_ascii_case(name.as_bytes()) {
                see(value);
            }
        });
    }
    /// Where the client connects from.
    fn source(&self) -> SocketAddr;
    /// Status of the response.
    fn response_code(&self) -> Option<u16> {
        None
    }
    /// Names and values of all fields of the response, in order.
    fn for_each_response_header<'a>(&'a self, _see: &mut dyn FnMut(&'a [u8], &'a [u8])) {}
}

/// What an expression is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Request,
    /// A request with its response.
    Response,
}

/// One attribute an expression names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    Method,
    Path,
    PathAndQuery,
    Host,
    Scheme,
    Version,
    /// Scheme, host, path and query.
    Uri,
    Headers,
    SourceAddress,
    SourcePort,
    ResponseCode,
    ResponseHeaders,
    /// By `cookie(name)` alone.
    Cookies,
}

impl Attribute {
    pub const ALL: [(&'static str, &'static str, Self); 12] = [
        ("request", "method", Self::Method),
        ("request", "path", Self::Path),
        ("request", "pathAndQuery", Self::PathAndQuery),
        ("request", "host", Self::Host),
        ("request", "scheme", Self::Scheme),
        ("request", "version", Self::Version),
        ("request", "headers", Self::Headers),
        ("request", "uri", Self::Uri),
        ("source", "address", Self::SourceAddress),
        ("source", "port", Self::SourcePort),
        ("response", "code", Self::ResponseCode),
        ("response", "headers", Self::ResponseHeaders),
    ];

    /// Those there are of a subject.
    pub fn all_of(
        subject: Subject,
    ) -> impl Iterator<Item = &'static (&'static str, &'static str, Self)> {
        Self::ALL.iter().filter(move |one| one.2.is_of(subject))
    }

    pub fn is_of(self, subject: Subject) -> bool {
        subject == Subject::Response || !self.is_of_response()
    }

    pub fn is_of_response(self) -> bool {
        matches!(self, Self::ResponseCode | Self::ResponseHeaders)
    }

    pub fn is_headers(self) -> bool {
        matches!(self, Self::Headers | Self::ResponseHeaders)
    }

    /// Whether it is neither a text of the request nor its client's address, so that it takes the interpreter to make a
    /// value of it.
    pub fn is_assembled(self) -> bool {
        matches!(
            self,
            Self::Uri
                | Self::SourcePort
                | Self::ResponseCode
                | Self::Headers
                | Self::ResponseHeaders
        )
    }

    /// The attribute `root.field`.
    pub fn find(root: &str, field: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|one| (one.0, one.1) == (root, field));
        found.map(|one| one.2)
    }
}

/// What one name has in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    Nothing,
    One(&'a str),
    /// Where an expression sees a list.
    Several,
    /// Some of it is no text.
    Unreadable,
}

/// The field of this name, in whatever case.
pub fn header<'a>(attributes: &'a dyn Attributes, name: &str) -> Found<'a> {
    let mut found = Found::Nothing;
    attributes.for_each_value_of(name, &mut |value| {
        found = match (found, std::str::from_utf8(value)) {
            (Found::Unreadable, _) | (_, Err(_)) => Found::Unreadable,
            (Found::Nothing, Ok(value)) => Found::One(value),
            _ => Found::Several,
        };
    });
    found
}

/// The cookie of this name.
pub fn cookie<'a>(attributes: &'a dyn Attributes, name: &str) -> Found<'a> {
    let mut found = Found::Nothing;
    attributes.for_each_value_of("cookie", &mut |value| {
        if found == Found::Nothing {
            found = cookie_in([value].into_iter(), name);
        }
    });
    found
}

/// The first of this name in values of `Cookie` (RFC 6265, section 4.2.1); quotes around it belong to it.
pub fn cookie_in<'a>(mut lines: impl Iterator<Item = &'a [u8]>, name: &str) -> Found<'a> {
    let value = lines.find_map(|line| {
        let ends = memchr::memchr_iter(b';', line).map(|end| end + 1);
        let mut starts = std::iter::once(0).chain(ends);
        starts.find_map(|start| {
            let pair = line[start..].trim_ascii_start();
            let behind = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            let end = memchr::memchr(b';', behind).unwrap_or(behind.len());
            Some(behind[..end].trim_ascii_end())
        })
    });
    match value.map(std::str::from_utf8) {
        None => Found::Nothing,
        Some(Ok(value)) => Found::One(value),
        Some(Err(_)) => Found::Unreadable,
    }
}

//! Request heads. A [`RequestHead`] is filled by parsing and reused; it holds offsets into the head's bytes, which the
//! caller keeps and hands in again wherever text is wanted.

use crate::http::authority::is_authority;
use crate::http::fields::Fate;
use crate::http::framing::FramingFields;
use crate::http::grammar::{elements, is_name, is_same, name_end};
use crate::http::hop_by_hop::ConnectionOptions;
use crate::http::{
    Field, FieldEdits, Fields, Known, Method, Persistence, RequestFraming, Span, Version,
};

use super::field_lines::parse_fields;
use super::scan::MAX_EMPTY_LINES;
use super::target::Target;
use super::{HeadError, HeadLimits, HeadScan};

const MAX_METHOD: usize = 64;

/// A request head that was understood and may be passed on.
#[derive(Debug)]
pub struct RequestHead {
    pub(super) line: RequestLine,
    pub(super) host: Option<Span>,
    pub(super) fields: Fields,
    pub(super) notes: Notes,
    framing: RequestFraming,
    persistence: Persistence,
    length: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLine {
    /// After tolerated empty lines.
    pub start: u32,
    pub method: Method,
    method_name: Span,
    pub target: Target,
    pub version: Version,
}

/// What the known fields of a request say.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Notes {
    framing: FramingFields,
    connection: ConnectionOptions,
    host: Option<Span>,
    expects_continue: bool,
    upgrade: Option<Span>,
    pub accepts_trailers: bool,
    pub has_forwarded_for: bool,
}

impl Default for RequestHead {
    fn default() -> Self {
        Self {
            line: RequestLine {
                start: 0,
                method: Method::Get,
                method_name: Span::default(),
                target: Target::default(),
                version: Version::Http11,
            },
            host: None,
            fields: Fields::default(),
            notes: Notes::default(),
            framing: RequestFraming::None,
            persistence: Persistence::Close,
            length: 0,
        }
    }
}

impl RequestHead {
    /// Looks for a head at the start of `bytes`, all that came since `scan` was begun, and parses it once it is whole:
    /// its length, or `None` if more must come.
    pub fn read(
        &mut self,
        scan: &mut HeadScan,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        scan.read(bytes, limits, |bytes| self.parse(bytes, limits))
    }

    /// Parses the whole head at the start of `bytes`: its length. After an error the contents mean nothing.
    pub fn parse(&mut self, bytes: &[u8], limits: &HeadLimits) -> Result<usize, HeadError> {
        self.fields.clear();
        limits.check_size(bytes)?;
        let (line, fields_start) = parse_request_line(bytes, limits)?;
        let mut notes = Notes::default();
        let end = parse_fields(bytes, fields_start, limits, &mut self.fields, |field| {
            notes.on_known(bytes, field, line.version)
        })?;
        if notes.connection.names_fields {
            self.fields.drop_named(bytes);
        }
        self.line = line;
        self.notes = notes;
        self.host = effective_host(bytes, &line, notes.host)?;
        self.framing = notes.framing.of_request(line.version)?;
        self.persistence = persistence(line.version, notes.connection);
        self.length = end;
        Ok(end)
    }

    /// Takes out fields; lines to put in are given where the head is written.
    pub fn edit(&mut self, bytes: &[u8], edits: &FieldEdits) {
        edits.apply(bytes, &mut self.fields);
    }

    pub fn method(&self) -> Method {
        self.line.method
    }

    pub fn method_name<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.line.method_name.of(bytes)
    }

    pub fn version(&self) -> Version {
        self.line.version
    }

    /// The target as received.
    pub fn target<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.line.target.whole.of(bytes)
    }

    /// The path without its query; `*` if the request is for the server as a whole.
    pub fn path<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        let text = self.line.target.path.of(bytes);
        let end = text.iter().position(|&byte| byte == b'?');
        match self.line.missing_path(text) {
            "" => &text[..end.unwrap_or(text.len())],
            missing => missing.as_bytes(),
        }
    }

    /// The path with its query as received, which of an absolute target may lack the path.
    pub fn path_and_query<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        match self.line.target.path.of(bytes) {
            [] => self.line.missing_path(b"").as_bytes(),
            text => text,
        }
    }

    /// Host and port the request is for: of an absolute target, else of `Host`. Only HTTP/1.0 has requests without.
    pub fn host<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        self.host.map(|host| host.of(bytes))
    }

    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    pub fn framing(&self) -> RequestFraming {
        self.framing
    }

    /// Whether the client will take another response on this connection.
    pub fn persistence(&self) -> Persistence {
        self.persistence
    }

    /// Whether the client may wait for a 100 before it sends the body.
    pub fn expects_continue(&self) -> bool {
        self.notes.expects_continue && self.framing != RequestFraming::None
    }

    /// What the client wants to speak on this connection in the place of HTTP/1.1, if it can be let: not another HTTP,
    /// whose requests would go past everything that is done to requests, nor TLS, and not in the middle of a body.
    pub fn upgrade<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let protocol = self.notes.upgrade?.of(bytes);
        let is_wanted = self.notes.connection.upgrade && self.framing == RequestFraming::None;
        let name = protocol
            .split(|byte| *byte == b'/')
            .next()
            .unwrap_or_default();
        let is_http = is_same(name, b"http") || is_same(name, b"h2c") || is_same(name, b"h2");
        let is_tls = is_same(name, b"tls");
        (is_wanted && is_name(name) && !protocol.contains(&b',') && !is_http && !is_tls)
            .then_some(protocol)
    }

    /// Bytes of the head with tolerated empty lines before it and its last empty line.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl RequestLine {
    /// What stands before `path` upstream: absolute targets may leave the path out (RFC 9112, section 3.2).
    pub fn missing_path(&self, path: &[u8]) -> &'static str {
        match path {
            [b'/', ..] | b"*" => "",
            [] if self.method == Method::Options => "*",
            _ => "/",
        }
    }
}

impl Notes {
    fn on_known(
        &mut self,
        bytes: &[u8],
        field: &mut Field,
        version: Version,
    ) -> Result<(), HeadError> {
        let value = field.value(bytes);
        match field.known {
            Known::Host => {
                if self.host.replace(field.value).is_some() {
                    return Err(HeadError::HostRepeated);
                }
                if !is_authority(value) {
                    return Err(HeadError::HostInvalid);
                }
            }
            Known::ContentLength => {
                self.framing.on_length(value)?;
                spell_length(field, value);
            }
            Known::TransferEncoding => self.framing.on_coding(value)?,
            Known::Connection => self
                .connection
                .on_value(value)
                .map_err(|_| HeadError::ConnectionInvalid)?,
            Known::Expect => {
                self.on_expect(value, version)?;
                field.fate = Fate::Drop;
            }
            Known::Te => {
                self.accepts_trailers |=
                    elements(value).any(|coding| coding.eq_ignore_ascii_case(b"trailers"));
            }
            // Several, or a list, leave open what would be spoken: nothing is asked for then.
            Known::Upgrade if version == Version::Http11 => {
                self.upgrade = match self.upgrade {
                    None => Some(field.value),
                    Some(_) => Some(Span::default()),
                };
            }
            Known::XForwardedFor => {
                self.has_forwarded_for = true;
                field.fate = Fate::Drop;
            }
            Known::XForwardedHost | Known::XForwardedProto => field.fate = Fate::Drop,
            _ => {}
        }
        if field.known.is_hop_by_hop() {
            field.fate = Fate::Drop;
        }
        Ok(())
    }

    /// RFC 9110, section 10.1.1.
    fn on_expect(&mut self, value: &[u8], version: Version) -> Result<(), HeadError> {
        // Repeating it is one of the ways to make two hops disagree on who waits for whom.
        if !value.eq_ignore_ascii_case(b"100-continue") || self.expects_continue {
            return Err(HeadError::Expectation);
        }
        // An HTTP/1.0 client cannot mean it.
        self.expects_continue = version == Version::Http11;
        Ok(())
    }
}

fn parse_request_line(
    bytes: &[u8],
    limits: &HeadLimits,
) -> Result<(RequestLine, usize), HeadError> {
    let start = skip_empty_lines(bytes)?;
    let method_end = name_end(bytes, start);
    match bytes.get(method_end) {
        _ if method_end - start > MAX_METHOD => return Err(HeadError::MethodTooLong),
        Some(b' ') if method_end > start => {}
        Some(_) => return Err(HeadError::RequestLine),
        None => return Err(HeadError::Truncated),
    }
    let method = Method::from_name(&bytes[start..method_end]);
    if method == Method::Connect {
        return Err(HeadError::Connect);
    }
    let target = Target::parse(bytes, method_end + 1, method)?;
    let target_end = target.whole.end as usize;
    if target_end - (method_end + 1) > limits.uri as usize {
        return Err(HeadError::UriTooLong { limit: limits.uri });
    }
    let version_start = target_end + 1;
    let version = parse_version(&bytes[version_start..])?;
    let line = RequestLine {
        start: Span::new(start..start).start,
        method,
        method_name: Span::new(start..method_end),
        target,
        version,
    };
    Ok((line, version_start + VERSION_LINE_END))
}

fn skip_empty_lines(bytes: &[u8]) -> Result<usize, HeadError> {
    let mut start = 0;
    while bytes[start..].starts_with(b"\r\n") {
        start += 2;
        if start > 2 * MAX_EMPTY_LINES {
            return Err(HeadError::EmptyLines);
        }
    }
    Ok(start)
}

/// Length of `HTTP/1.1` and the line end.
const VERSION_LINE_END: usize = 10;

/// Reads the version that ends the request line.
fn parse_version(bytes: &[u8]) -> Result<Version, HeadError> {
    let Some((text, _)) = bytes.split_at_checked(VERSION_LINE_END) else {
        return Err(HeadError::Truncated);
    };
    match text {
        b"HTTP/1.1\r\n" => Ok(Version::Http11),
        b"HTTP/1.0\r\n" => Ok(Version::Http10),
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            major,
            b'.',
            minor,
            b'\r',
            b'\n',
        ] if major.is_ascii_digit() && minor.is_ascii_digit() => Err(HeadError::Version),
        _ => Err(HeadError::RequestLine),
    }
}

/// RFC 9112, section 3.2: HTTP/1.1 must name a host, and an absolute target wins over it.
fn effective_host(
    bytes: &[u8],
    line: &RequestLine,
    host: Option<Span>,
) -> Result<Option<Span>, HeadError> {
    if host.is_none() && line.version == Version::Http11 {
        return Err(HeadError::HostMissing);
    }
    match line.target.authority {
        Some(authority) if !is_authority(authority.of(bytes)) => Err(HeadError::Target),
        Some(authority) => Ok(Some(authority)),
        None => Ok(host),
    }
}

/// RFC 9112, section 9.3.
pub(super) fn persistence(version: Version, options: ConnectionOptions) -> Persistence {
    let stays = match version {
        Version::Http11 => true,
        Version::Http10 => options.keep_alive,
    };
    if stays && !options.close {
        Persistence::KeepAlive
    } else {
        Persistence::Close
    }
}

/// Narrows a valid length to its plainest spelling.
pub(super) fn spell_length(field: &mut Field, digits: &[u8]) {
    if let [b'0', _, ..] = digits {
        let zeros = digits.iter().take_while(|&&digit| digit == b'0').count();
        field.value.start += zeros.min(digits.len() - 1) as u32;
        field.fate = Fate::Respell;
    }
}

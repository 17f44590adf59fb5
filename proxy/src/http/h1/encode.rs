//! Writes heads for the next hop: canonical, with what ends at this hop taken out and what this hop adds put in.
//! Fields that stay are copied in runs; a typical head is one or two of them.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use crate::http::fields::Fate;
use crate::http::{
    Field, Fields, Known, Persistence, RequestFraming, ResponseFraming, Span, Version,
};

use super::{BodyForm, RequestHead, ResponseHead};

/// How the client reached us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    /// The line that names it, with what stands around it in the forwarding fields.
    fn between_client_and_host(self) -> &'static [u8] {
        match self {
            Self::Http => b"\r\nX-Forwarded-Proto: http\r\nX-Forwarded-Host: ",
            Self::Https => b"\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: ",
        }
    }
}

/// What the next hop is told about the client.
#[derive(Clone, Copy, Debug)]
pub struct Forwarding<'a> {
    pub client: IpAddr,
    pub scheme: Scheme,
    /// `Host` for HTTP/1.0 requests without one: the endpoint as configured.
    pub fallback_host: &'a [u8],
    pub edited: Edited<'a>,
}

/// What an operator wants otherwise than the client sent it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Edited<'a> {
    pub host: Option<&'a [u8]>,
    pub path_and_query: Option<&'a [u8]>,
    /// Whole lines to put in.
    pub lines: &'a [u8],
}

/// How a response is put to the client, as its version and the upstream's framing allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseEncoding {
    version: Version,
    persistence: Persistence,
    framing: ResponseFraming,
    form: BodyForm,
}

impl ResponseEncoding {
    /// `persistence` is what client and proxy would like; a body that must end with the connection overrules it.
    pub fn new(head: &ResponseHead, client: Version, persistence: Persistence) -> Self {
        let (framing, form) = match (head.framing(), client) {
            // HTTP/1.0 knows no chunked: the payload alone, until the connection closes.
            (ResponseFraming::Chunked, Version::Http10) => {
                (ResponseFraming::UntilClose, BodyForm::PayloadOnly)
            }
            // The end of the body need not be that of the client's connection, nor look like it.
            (ResponseFraming::UntilClose, Version::Http11) => {
                (ResponseFraming::Chunked, BodyForm::OwnChunks)
            }
            (framing, _) => (framing, BodyForm::Framed),
        };
        Self {
            version: client,
            persistence: match framing {
                ResponseFraming::UntilClose => Persistence::Close,
                // What follows is not HTTP.
                _ if head.is_switch() => Persistence::Close,
                _ => persistence,
            },
            framing,
            form,
        }
    }

    /// Whether the client's connection outlives this response.
    pub fn persistence(self) -> Persistence {
        self.persistence
    }

    /// What of the upstream's body is passed on.
    pub fn body_form(self) -> BodyForm {
        self.form
    }
}

/// Writes the head of a request to an endpoint.
pub fn write_request(
    out: &mut Vec<u8>,
    bytes: &[u8],
    head: &RequestHead,
    forwarding: &Forwarding<'_>,
) {
    let edited = &forwarding.edited;
    let host = head.host(bytes).unwrap_or(forwarding.fallback_host);
    out.reserve(head.length() + 2 * host.len() + edited.lines.len() + 256);
    let mut runs = Runs::new(out, bytes);
    match edited.path_and_query {
        Some(target) => write_edited_line(&mut runs, head, target),
        None => write_request_line(&mut runs, head),
    }
    let copies_host = edited.host.is_none() && starts_with_host(head);
    if !copies_host {
        runs.line(b"Host", edited.host.unwrap_or(host));
    }
    for field in head.fields.iter() {
        if field.known() != Known::Host {
            runs.field(field);
        } else if copies_host {
            runs.copy(field.line);
        }
    }
    runs.flush();
    out.extend_from_slice(edited.lines);
    if head.framing() == RequestFraming::Chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    if head.expects_continue() {
        out.extend_from_slice(b"Expect: 100-continue\r\n");
    }
    if head.notes.accepts_trailers {
        out.extend_from_slice(b"TE: trailers\r\nConnection: TE\r\n");
    }
    if let Some(protocol) = head.upgrade(bytes) {
        write_upgrade(out, protocol);
    }
    write_forwarded(out, bytes, head, forwarding, host);
}

/// The only protocol that is let through from hop to hop.
fn write_upgrade(out: &mut Vec<u8>, protocol: &[u8]) {
    out.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: ");
    out.extend_from_slice(protocol);
    out.extend_from_slice(b"\r\n");
}

fn write_request_line(runs: &mut Runs<'_>, head: &RequestHead) {
    let line = &head.line;
    let path = line.target.path;
    if line.target.is_origin_form() && line.version == Version::Http11 {
        runs.copy(Span {
            start: line.start,
            end: path.end + b" HTTP/1.1\r\n".len() as u32,
        });
        return;
    }
    let bytes = runs.bytes;
    runs.text(head.method_name(bytes));
    runs.text(b" ");
    runs.text(line.missing_path(path.of(bytes)).as_bytes());
    runs.text(path.of(bytes));
    runs.text(b" HTTP/1.1\r\n");
}

fn write_edited_line(runs: &mut Runs<'_>, head: &RequestHead, target: &[u8]) {
    runs.text(head.method_name(runs.bytes));
    runs.text(b" ");
    runs.text(target);
    runs.text(b" HTTP/1.1\r\n");
}

/// Whether the first field is a `Host` that can be copied where it stands.
fn starts_with_host(head: &RequestHead) -> bool {
    let is_host = |field: &Field| field.known == Known::Host && field.fate == Fate::Copy;
    head.line.target.is_origin_form() && head.fields.as_slice().first().is_some_and(is_host)
}

/// The forwarding fields and the end of the head.
fn write_forwarded(
    out: &mut Vec<u8>,
    bytes: &[u8],
    head: &RequestHead,
    forwarding: &Forwarding<'_>,
    host: &[u8],
) {
    out.extend_from_slice(b"X-Forwarded-For: ");
    if head.notes.has_forwarded_for {
        write_earlier_clients(out, bytes, &head.fields);
    }
    write_ip(out, forwarding.client);
    out.extend_from_slice(forwarding.scheme.between_client_and_host());
    out.extend_from_slice(host);
    out.extend_from_slice(b"\r\n\r\n");
}

/// Joins what came as several fields: readers often look at one of them only.
fn write_earlier_clients(out: &mut Vec<u8>, bytes: &[u8], fields: &Fields) {
    let is_list = |field: &Field| field.known == Known::XForwardedFor && !field.value.is_empty();
    for field in fields.iter().filter(is_list) {
        out.extend_from_slice(field.value(bytes));
        out.extend_from_slice(b", ");
    }
}

/// Writes the head of a response to the client. An interim response goes to HTTP/1.1 clients only; whether it is one
/// is the caller's to look at. `lines` are put in.
pub fn write_response(
    out: &mut Vec<u8>,
    bytes: &[u8],
    head: &ResponseHead,
    encoding: ResponseEncoding,
    lines: &[u8],
) {
    out.reserve(head.length() + lines.len() + 64);
    let is_chunked = encoding.framing == ResponseFraming::Chunked;
    let mut runs = Runs::new(out, bytes);
    write_status_line(&mut runs, head);
    for field in head.fields.iter() {
        // Nothing is left to announce when trailers are not passed on.
        if field.known() != Known::Trailer || is_chunked {
            runs.field(field);
        }
    }
    runs.flush();
    out.extend_from_slice(lines);
    if is_chunked {
        out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
    }
    if head.is_switch() {
        let mut upgrades = head.fields.iter();
        if let Some(upgrade) = upgrades.find(|field| field.known() == Known::Upgrade) {
            write_upgrade(out, upgrade.value(bytes));
        }
    } else if !head.is_interim() {
        out.extend_from_slice(connection_line(encoding.version, encoding.persistence));
    }
    out.extend_from_slice(b"\r\n");
}

/// Writes what stands before the payload of a chunk.
pub fn write_chunk_size(out: &mut Vec<u8>, length: usize) {
    write!(out, "{length:x}\r\n").expect("writing to a Vec cannot fail");
}

/// What stands behind it.
pub const CHUNK_END: &[u8] = b"\r\n";

/// What ends a body of chunks.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

fn write_status_line(runs: &mut Runs<'_>, head: &ResponseHead) {
    let line = &head.line;
    if line.is_canonical {
        runs.copy(Span {
            start: 0,
            end: line.reason.end + 2,
        });
        return;
    }
    let bytes = runs.bytes;
    runs.text(b"HTTP/1.1 ");
    write_number(runs.out, u64::from(line.status.code()));
    runs.text(b" ");
    runs.text(line.reason.of(bytes));
    runs.text(b"\r\n");
}

/// What tells a client of this version whether its connection stays.
pub(super) fn connection_line(version: Version, persistence: Persistence) -> &'static [u8] {
    match (version, persistence) {
        (_, Persistence::Close) => b"Connection: close\r\n",
        (Version::Http10, Persistence::KeepAlive) => b"Connection: keep-alive\r\n",
        (Version::Http11, Persistence::KeepAlive) => b"",
    }
}

/// Copies ranges of a head, neighbours in one go.
struct Runs<'a> {
    out: &'a mut Vec<u8>,
    bytes: &'a [u8],
    run: Range<usize>,
}

impl<'a> Runs<'a> {
    fn new(out: &'a mut Vec<u8>, bytes: &'a [u8]) -> Self {
        Self {
            out,
            bytes,
            run: 0..0,
        }
    }

    fn field(&mut self, field: Field) {
        match field.fate {
            Fate::Copy => self.copy(field.line),
            Fate::Respell => self.line(field.name(self.bytes), field.value(self.bytes)),
            Fate::Drop => {}
        }
    }

    fn copy(&mut self, span: Span) {
        if self.run.end != span.start as usize {
            self.flush();
            self.run.start = span.start as usize;
        }
        self.run.end = span.end as usize;
    }

    fn line(&mut self, name: &[u8], value: &[u8]) {
        self.text(name);
        self.text(b": ");
        self.text(value);
        self.text(b"\r\n");
    }

    fn text(&mut self, text: &[u8]) {
        self.flush();
        self.out.extend_from_slice(text);
    }

    fn flush(&mut self) {
        self.out.extend_from_slice(&self.bytes[self.run.clone()]);
        self.run.start = self.run.end;
    }
}

pub(super) fn write_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    let mut rest = number;
    loop {
        start -= 1;
        digits[start] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

fn write_ip(out: &mut Vec<u8>, address: IpAddr) {
    match address.to_canonical() {
        IpAddr::V4(address) => write_ipv4(out, address),
        IpAddr::V6(address) => write!(out, "{address}").expect("writing to a Vec cannot fail"),
    }
}

/// By hand, since every request pays for it.
fn write_ipv4(out: &mut Vec<u8>, address: Ipv4Addr) {
    let mut text = [b'.'; 15];
    let mut end = 0;
    for octet in address.octets() {
        let digits = [octet / 100, octet / 10 % 10, octet % 10].map(|digit| b'0' + digit);
        let zeros = usize::from(octet < 100) + usize::from(octet < 10);
        for digit in &digits[zeros..] {
            text[end] = *digit;
            end += 1;
        }
        end += 1; // The dot is there already.
    }
    out.extend_from_slice(&text[..end - 1]);
}

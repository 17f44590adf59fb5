//! Response heads, filled by parsing and reused like request heads.

use crate::http::fields::Fate;
use crate::http::framing::FramingFields;
use crate::http::grammar::text_end;
use crate::http::hop_by_hop::ConnectionOptions;
use crate::http::{
    Field, FieldEdits, Fields, Known, Method, Persistence, ResponseFraming, Span, Status, Version,
};

use super::field_lines::{line_end, parse_fields};
use super::request::{persistence, spell_length};
use super::{HeadError, HeadLimits, HeadScan};

/// A response head that was understood and may be passed on.
#[derive(Debug)]
pub struct ResponseHead {
    pub(super) line: StatusLine,
    pub(super) fields: Fields,
    framing: ResponseFraming,
    persistence: Persistence,
    length: usize,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct StatusLine {
    version: Version,
    pub status: Status,
    pub reason: Span,
    /// Where the fields begin.
    end: usize,
    /// It is written as we would write it.
    pub is_canonical: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Notes {
    framing: FramingFields,
    connection: ConnectionOptions,
}

impl Default for ResponseHead {
    fn default() -> Self {
        Self {
            line: StatusLine {
                version: Version::Http11,
                status: Status::OK,
                reason: Span::default(),
                end: 0,
                is_canonical: false,
            },
            fields: Fields::default(),
            framing: ResponseFraming::None,
            persistence: Persistence::Close,
            length: 0,
        }
    }
}

impl ResponseHead {
    /// Looks for a head at the start of `bytes`, all that came since `scan` was begun, and parses it once it is whole:
    /// its length, or `None` if more must come. `method` is that of the request answered.
    pub fn read(
        &mut self,
        scan: &mut HeadScan,
        bytes: &[u8],
        method: Method,
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        let parse = |bytes: &[u8]| self.parse(bytes, method, limits);
        scan.read(bytes, limits, parse)
    }

    /// Parses the whole head at the start of `bytes`: its length. After an error the contents mean nothing.
    pub fn parse(
        &mut self,
        bytes: &[u8],
        method: Method,
        limits: &HeadLimits,
    ) -> Result<usize, HeadError> {
        self.fields.clear();
        limits.check_size(bytes)?;
        let line = parse_status_line(bytes)?;
        let mut notes = Notes::default();
        let end = parse_fields(bytes, line.end, limits, &mut self.fields, |field| {
            notes.on_known(bytes, field, line.status)
        })?;
        if notes.connection.names_fields {
            self.fields.drop_named(bytes);
        }
        self.framing = notes
            .framing
            .of_response(line.version, line.status, method)?;
        self.persistence = match self.framing {
            ResponseFraming::UntilClose => Persistence::Close,
            _ if line.status == Status::SWITCHING_PROTOCOLS => Persistence::Close,
            _ => persistence(line.version, notes.connection),
        };
        self.line = line;
        self.length = end;
        Ok(end)
    }

    /// Takes out fields; lines to put in are given where the head is written.
    pub fn edit(&mut self, bytes: &[u8], edits: &FieldEdits) {
        edits.apply(bytes, &mut self.fields);
    }

    pub fn status(&self) -> Status {
        self.line.status
    }

    pub fn version(&self) -> Version {
        self.line.version
    }

    pub fn reason<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        self.line.reason.of(bytes)
    }

    /// 101: what follows is not HTTP. Whether it was asked for is the caller's to look at.
    pub fn is_switch(&self) -> bool {
        self.line.status == Status::SWITCHING_PROTOCOLS
    }

    /// What a [switch](Self::is_switch) is to, if it says so by one name (RFC 9110, section 7.8).
    pub fn protocol<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let mut upgrades = self
            .fields
            .iter()
            .filter(|field| field.known() == Known::Upgrade);
        let only = upgrades.next().filter(|_| upgrades.next().is_none())?;
        Some(only.value(bytes))
    }

    /// 1xx but 101: the final response follows. Clients of HTTP/1.0 do not expect one (RFC 9110, section 15.2).
    pub fn is_interim(&self) -> bool {
        self.line.status.is_interim()
    }

    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    pub fn framing(&self) -> ResponseFraming {
        self.framing
    }

    /// Whether the upstream will take another request on this connection.
    pub fn persistence(&self) -> Persistence {
        self.persistence
    }

    /// Bytes of the head with its last empty line.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Notes {
    fn on_known(
        &mut self,
        bytes: &[u8],
        field: &mut Field,
        status: Status,
    ) -> Result<(), HeadError> {
        let value = field.value(bytes);
        match field.known {
            Known::ContentLength => {
                self.framing.on_length(value)?;
                spell_length(field, value);
                // RFC 9110, section 8.6: such responses have no length to state.
                if matches!(status.code(), 0..200 | 204) {
                    field.fate = Fate::Drop;
                }
            }
            Known::TransferEncoding => self.framing.on_coding(value)?,
            Known::Connection => self
                .connection
                .on_value(value)
                .map_err(|_| HeadError::ConnectionInvalid)?,
            _ => {}
        }
        if field.known.is_hop_by_hop() {
            field.fate = Fate::Drop;
        }
        Ok(())
    }
}

/// RFC 9112, section 4.
fn parse_status_line(bytes: &[u8]) -> Result<StatusLine, HeadError> {
    let Some(start) = bytes.first_chunk::<13>() else {
        return Err(HeadError::Truncated);
    };
    let (version, code, separator) = match start {
        [
            b'H',
            b'T',
            b'T',
            b'P',
            b'/',
            major,
            b'.',
            minor,
            b' ',
            code @ ..,
            separator,
        ] => (parse_version(*major, *minor)?, code, *separator),
        _ => return Err(HeadError::StatusLine),
    };
    let status = parse_status(*code)?;
    let reason = match separator {
        b' ' => 13..text_end(bytes, 13),
        // Some servers leave the reason out with its space.
        b'\r' => 12..12,
        _ => return Err(HeadError::StatusLine),
    };
    let end = line_end(bytes, reason.end)?;
    Ok(StatusLine {
        version,
        status,
        reason: Span::new(reason),
        end,
        is_canonical: version == Version::Http11 && separator == b' ',
    })
}

fn parse_version(major: u8, minor: u8) -> Result<Version, HeadError> {
    match (major, minor) {
        (b'1', b'1') => Ok(Version::Http11),
        (b'1', b'0') => Ok(Version::Http10),
        (b'0'..=b'9', b'0'..=b'9') => Err(HeadError::Version),
        _ => Err(HeadError::StatusLine),
    }
}

fn parse_status(digits: [u8; 3]) -> Result<Status, HeadError> {
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(HeadError::StatusLine);
    }
    let code = digits
        .iter()
        .fold(0, |code, digit| code * 10 + u16::from(digit - b'0'));
    Status::try_from(code).map_err(|_| HeadError::StatusLine)
}

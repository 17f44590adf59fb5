//! Answers the proxy makes itself: a short text that names the cause, for people and for machines.

use std::io::Write;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;

use super::encode::{connection_line, write_number};
use crate::http::{Persistence, Status, Version};

/// Years have four digits in dates.
const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);

/// One such answer.
#[derive(Clone, Copy, Debug)]
pub struct LocalReply<'a> {
    pub status: Status,
    /// Class of the cause: one lower-case name without spaces, such as `no-endpoint`.
    pub cause: &'a str,
    /// Since 1970: the date it is made at (RFC 9110, section 6.6.1).
    pub since_1970: Duration,
    /// Where the client is to go: then this is no error, and does not say that it is one.
    pub location: Option<&'a [u8]>,
    /// Visible ASCII.
    pub request_id: Option<&'a str>,
    /// The request was a HEAD: the body is announced and left out.
    pub head_only: bool,
    pub version: Version,
    pub persistence: Persistence,
}

impl LocalReply<'_> {
    /// Writes the whole response.
    pub fn write(&self, out: &mut Vec<u8>) {
        let phrase = self.status.phrase();
        let id_parts = self.request_id.map_or(["", ""], |id| [", request ", id]);
        let body = [phrase, ": ", self.cause, id_parts[0], id_parts[1], "\n"];
        let body_length: usize = body.iter().map(|part| part.len()).sum();

        out.reserve(256 + 2 * body_length);
        out.extend_from_slice(b"HTTP/1.1 ");
        write_number(out, u64::from(self.status.code()));
        out.push(b' ');
        out.extend_from_slice(phrase.as_bytes());
        out.extend_from_slice(b"\r\nDate: ");
        let date = HttpDate::from(UNIX_EPOCH + self.since_1970.min(LAST_DATE));
        // Writing to memory cannot fail.
        let _ = write!(out, "{date}");
        out.extend_from_slice(b"\r\nContent-Type: text/plain\r\nContent-Length: ");
        write_number(out, body_length as u64);
        let (name, value) = match self.location {
            Some(location) => (&b"\r\nLocation: "[..], location),
            None => (&b"\r\nx-weir-error: "[..], self.cause.as_bytes()),
        };
        out.extend_from_slice(name);
        out.extend_from_slice(value);
        if let Some(id) = self.request_id {
            out.extend_from_slice(b"\r\nx-request-id: ");
            out.extend_from_slice(id.as_bytes());
        }
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(connection_line(self.version, self.persistence));
        out.extend_from_slice(b"\r\n");
        if !self.head_only {
            for part in body {
                out.extend_from_slice(part.as_bytes());
            }
        }
    }
}

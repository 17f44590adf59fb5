//! Finds the end of a head in bytes that arrive in any split, looking at each byte once. It checks only what must stop
//! a peer early: sizes, LF without CR, NUL. Everything else is the parser's.

use memchr::memchr2;

use super::{HeadError, HeadLimits};

/// Empty lines tolerated before a request: some clients send one after a body (RFC 9112, section 2.2).
pub(super) const MAX_EMPTY_LINES: usize = 4;

/// What a request line holds beside its target: method, version, spaces and line end, generously.
const REQUEST_LINE_ROOM: usize = 96;

/// Progress of the search. Start a new one for each head.
#[derive(Clone, Copy, Debug)]
pub struct HeadScan {
    /// Bytes looked at.
    scanned: u32,
    line_start: u32,
    empty_lines: u8,
    has_first_line: bool,
    is_request: bool,
}

impl HeadScan {
    pub fn request() -> Self {
        Self {
            scanned: 0,
            line_start: 0,
            empty_lines: 0,
            has_first_line: false,
            is_request: true,
        }
    }

    pub fn response() -> Self {
        Self {
            is_request: false,
            ..Self::request()
        }
    }

    /// Whether nothing but empty lines has come: a peer that leaves now leaves in order.
    pub fn is_untouched(&self) -> bool {
        !self.has_first_line && self.line_start == self.scanned
    }

    /// Looks at what is new in `bytes`, which are all bytes since the search began. The length of the head with its
    /// last empty line, or `None` if it has not come whole.
    pub fn advance(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
    ) -> Result<Option<usize>, HeadError> {
        loop {
            let (bound, error) = self.bound(limits);
            let end = bytes.len().min(bound);
            let from = self.scanned as usize;
            let fresh = bytes.get(from..end).unwrap_or_default();
            let Some(offset) = memchr2(b'\n', 0, fresh) else {
                // `bound` comes from 32-bit limits.
                self.scanned = end.max(from) as u32;
                return if end == bound { Err(error) } else { Ok(None) };
            };
            let at = from + offset;
            self.scanned = at as u32 + 1;
            if bytes[at] == 0 {
                return Err(HeadError::ControlByte);
            }
            let line = &bytes[self.line_start as usize..at];
            if line.last() != Some(&b'\r') {
                return Err(HeadError::BareLf);
            }
            self.line_start = self.scanned;
            if line.len() > 1 {
                self.has_first_line = true;
            } else if self.has_first_line {
                return Ok(Some(at + 1));
            } else {
                self.on_empty_line()?;
            }
        }
    }

    /// Finds the head and has it parsed. Most heads come whole in their first read, where parsing finds the end by itself.
    /// Errors are left to the search, so that they do not depend on how the bytes were split.
    pub(super) fn read(
        &mut self,
        bytes: &[u8],
        limits: &HeadLimits,
        mut parse: impl FnMut(&[u8]) -> Result<usize, HeadError>,
    ) -> Result<Option<usize>, HeadError> {
        if self.scanned == 0 {
            let within = bytes.len().min(limits.head as usize);
            if let Ok(length) = parse(&bytes[..within]) {
                return Ok(Some(length));
            }
        }
        match self.advance(bytes, limits)? {
            Some(length) => parse(&bytes[..length]).map(Some),
            None => Ok(None),
        }
    }

    /// How far the current line may reach, and what it means if it reaches further.
    fn bound(&self, limits: &HeadLimits) -> (usize, HeadError) {
        let head = limits.head as usize;
        if self.is_request && !self.has_first_line {
            let line = self.line_start as usize + limits.uri as usize + REQUEST_LINE_ROOM;
            if line < head {
                return (line, HeadError::UriTooLong { limit: limits.uri });
            }
        }
        (head, HeadError::TooLarge { limit: limits.head })
    }

    fn on_empty_line(&mut self) -> Result<(), HeadError> {
        self.empty_lines += 1;
        if !self.is_request || usize::from(self.empty_lines) > MAX_EMPTY_LINES {
            return Err(HeadError::EmptyLines);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Answer = Result<Option<usize>, HeadError>;

    const LIMITS: HeadLimits = HeadLimits {
        head: 200,
        fields: 8,
        uri: 20,
    };

    /// Feeds ever longer prefixes, cut at the given places: the answer, and how many bytes it took.
    fn scanned(mut scan: HeadScan, bytes: &[u8], cuts: &[usize]) -> Answer {
        for &cut in cuts {
            if let Some(length) = scan.advance(&bytes[..cut], &LIMITS)? {
                return Ok(Some(length));
            }
        }
        scan.advance(bytes, &LIMITS)
    }

    fn rows() -> Vec<(Vec<u8>, Answer)> {
        let long_line = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(150));
        let long_field = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(190));
        let exact = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(177));
        let one_more = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(178));
        let late_lf = format!("GET / HTTP/1.1\r\nA: {}\nb", "x".repeat(190));
        let too_large = Err(HeadError::TooLarge { limit: 200 });
        let rows: [(&str, Answer); 18] = [
            ("", Ok(None)),
            ("GET / HTTP/1.1\r\n", Ok(None)),
            ("GET / HTTP/1.1\r\n\r", Ok(None)),
            ("GET / HTTP/1.1\r\n\r\n", Ok(Some(18))),
            ("GET / HTTP/1.1\r\nA: b\r\n\r\nGET", Ok(Some(24))),
            ("\r\n\r\nGET / HTTP/1.1\r\n\r\n", Ok(Some(22))),
            ("\r\n\r\n\r\n\r\nA\r\n\r\n", Ok(Some(13))),
            ("\r\n\r\n\r\n\r\n\r\nA\r\n\r\n", Err(HeadError::EmptyLines)),
            ("\nGET / HTTP/1.1\r\n\r\n", Err(HeadError::BareLf)),
            ("GET / HTTP/1.1\n\r\n", Err(HeadError::BareLf)),
            ("GET / HTTP/1.1\r\nA: b\n", Err(HeadError::BareLf)),
            ("GET / HTTP/1.1\r\nA: b\r\n\n", Err(HeadError::BareLf)),
            ("GET /\0", Err(HeadError::ControlByte)),
            (&long_line, Err(HeadError::UriTooLong { limit: 20 })),
            (&long_field, too_large),
            (&exact, Ok(Some(200))),
            (&one_more, too_large),
            // What lies beyond the limit is never looked at.
            (&late_lf, too_large),
        ];
        let owned = rows.map(|(text, expected)| (text.as_bytes().to_vec(), expected));
        owned.to_vec()
    }

    #[test]
    fn heads_are_found_and_refused_the_same_in_every_split() {
        for (bytes, expected) in rows() {
            let text = String::from_utf8_lossy(&bytes);
            for first in 0..=bytes.len() {
                for second in first..=bytes.len() {
                    let found = scanned(HeadScan::request(), &bytes, &[first, second]);
                    assert_eq!(found, expected, "{text:?} cut at {first} and {second}");
                }
            }
            let every: Vec<usize> = (0..=bytes.len()).collect();
            assert_eq!(scanned(HeadScan::request(), &bytes, &every), expected);
        }
    }

    #[test]
    fn a_response_begins_with_its_status_line() {
        let found = scanned(HeadScan::response(), b"\r\nHTTP/1.1 200 OK\r\n\r\n", &[]);
        assert_eq!(found, Err(HeadError::EmptyLines));
        let line = format!("HTTP/1.1 200 {}\r\n\r\n", "x".repeat(150));
        let found = scanned(HeadScan::response(), line.as_bytes(), &[]);
        assert_eq!(found, Ok(Some(line.len())));
    }

    #[test]
    fn a_trickled_head_is_looked_at_once() {
        let limits = HeadLimits::default();
        let value = "x".repeat(60_000);
        let head = format!("GET / HTTP/1.1\r\nHost: a\r\nA: {value}\r\n\r\n").into_bytes();
        let mut scan = HeadScan::request();
        let mut seen = Vec::new();
        for (at, &byte) in head.iter().enumerate() {
            seen.push(byte);
            // A byte looked at again would now be a NUL and an error. Only the one before a line end still matters.
            if let Some(earlier) = at.checked_sub(2) {
                seen[earlier] = 0;
            }
            let expected = (at + 1 == head.len()).then_some(head.len());
            assert_eq!(scan.advance(&seen, &limits), Ok(expected));
        }
    }

    #[test]
    fn a_trickled_head_is_parsed_when_it_begins_and_when_it_is_whole() {
        let head = b"GET / HTTP/1.1\r\nHost: a\r\nB: c\r\n\r\n";
        let mut scan = HeadScan::request();
        let mut parsed = Vec::new();
        for end in 1..=head.len() {
            let parse = |bytes: &[u8]| {
                parsed.push(bytes.len());
                if bytes.len() == head.len() {
                    Ok(head.len())
                } else {
                    Err(HeadError::Truncated)
                }
            };
            let expected = (end == head.len()).then_some(head.len());
            assert_eq!(scan.read(&head[..end], &LIMITS, parse), Ok(expected));
        }
        assert_eq!(parsed, [1, head.len()]);
    }

    #[test]
    fn a_peer_is_untouched_until_its_first_line_begins() {
        let mut scan = HeadScan::request();
        for (bytes, untouched) in [
            (&b""[..], true),
            (b"\r", false),
            (b"\r\n", true),
            (b"\r\nG", false),
            (b"\r\nGET / HTTP/1.1\r\n", false),
        ] {
            assert_eq!(scan.advance(bytes, &HeadLimits::default()), Ok(None));
            assert_eq!(scan.is_untouched(), untouched, "{bytes:?}");
        }
    }
}

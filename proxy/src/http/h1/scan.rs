//! Finds the end of a head in bytes that arrive in any split, looking at each byte once. It checks only what must stop
//! a peer early: sizes, LF without CR, NUL. Everything else is the parser's.

use memchr::memchr2;

use super::{HeadError, HeadLimits};

/// Empty lines tolerated before a request: some clients send one after a body (RFC 9112, section 2.2).
const MAX_EMPTY_LINES: u8 = 4;

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
        if !self.is_request || self.empty_lines > MAX_EMPTY_LINES {
            return Err(HeadError::EmptyLines);
        }
        Ok(())
    }
}

//! Bytes on their way in: those of the event being handled, and those kept until they can be.

use std::ops::Range;

use crate::http::h1::HeadScan;
use crate::seam::Source;

/// Bytes kept for later.
#[derive(Debug)]
pub enum Inbox {
    /// A head that is not whole.
    Head(PartialHead),
    /// Requests that came before their turn: nobody has looked at them.
    Early(Vec<u8>),
}

/// The beginning of a head, with the search for its end, which has seen all of it.
#[derive(Debug)]
pub struct PartialHead {
    bytes: Vec<u8>,
    scan: HeadScan,
}

impl Inbox {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Head(head) => &head.bytes,
            Self::Early(bytes) => bytes,
        }
    }

    /// Adds what came before its turn.
    pub fn add_early(&mut self, more: &[u8]) {
        match self {
            Self::Early(bytes) => bytes.extend_from_slice(more),
            Self::Head(head) => {
                let mut bytes = std::mem::take(&mut head.bytes);
                bytes.extend_from_slice(more);
                *self = Self::Early(bytes);
            }
        }
    }
}

impl PartialHead {
    /// `scan` has looked at all of `bytes`, and found no end.
    pub fn new(bytes: &[u8], scan: HeadScan) -> Self {
        Self {
            bytes: bytes.to_vec(),
            scan,
        }
    }

    /// Whether nothing but empty lines has come.
    pub fn is_untouched(&self) -> bool {
        self.scan.is_untouched()
    }

    /// Adds what has come, and has `read` look at all there is. Once the head is whole: how many of these bytes are of it.
    pub fn add<E>(
        &mut self,
        input: &[u8],
        read: impl FnOnce(&mut HeadScan, &[u8]) -> Result<Option<usize>, E>,
    ) -> Result<Option<usize>, E> {
        let before = self.bytes.len();
        self.bytes.extend_from_slice(input);
        let found = read(&mut self.scan, &self.bytes)?;
        // The end was not in what had been looked at.
        Ok(found.map(|length| length.saturating_sub(before)))
    }

    /// The head when the first `count` of the bytes added last were of it, and what follows.
    pub fn split(&self, input: &[u8], count: usize) -> (&[u8], &[u8]) {
        let behind = input.len().saturating_sub(count);
        self.bytes.split_at(self.bytes.len().saturating_sub(behind))
    }
}

/// Bytes being handled, and where a send would find them.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    bytes: &'a [u8],
    /// Bytes of the received event in front of `bytes`.
    offset: usize,
    source: Source,
}

impl<'a> Input<'a> {
    /// The bytes of the event being handled: they can be sent from where they lie.
    pub fn received(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            offset: 0,
            source: Source::Received,
        }
    }

    /// Bytes that were kept: to be sent they are copied.
    pub fn kept(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            offset: 0,
            source: Source::Made,
        }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// What is left behind the first `count` bytes.
    pub fn skip(self, count: usize) -> Self {
        Self {
            bytes: &self.bytes[count..],
            offset: self.offset + count,
            source: self.source,
        }
    }

    /// Where a part of these bytes lies in the received event, if they are of one.
    pub fn range_in_event(&self, part: &Range<usize>) -> Option<Range<usize>> {
        let is_received = self.source == Source::Received;
        is_received.then(|| self.offset + part.start..self.offset + part.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::h1::HeadLimits;

    #[test]
    fn a_head_in_pieces_is_told_from_what_follows_it() {
        let limits = HeadLimits::default();
        let (text, behind) = ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET /next");
        for at in 1..text.len() {
            let (first, second) = (&text[..at], format!("{}{behind}", &text[at..]));
            let mut scan = HeadScan::request();
            assert_eq!(scan.advance(first.as_bytes(), &limits), Ok(None));
            let mut partial = PartialHead::new(first.as_bytes(), scan);
            let count = partial.add(second.as_bytes(), |scan, bytes| {
                scan.advance(bytes, &limits)
            });
            assert_eq!(count, Ok(Some(text.len() - at)));
            assert_eq!(
                partial.split(second.as_bytes(), text.len() - at),
                (text.as_bytes(), behind.as_bytes())
            );
        }
    }
}

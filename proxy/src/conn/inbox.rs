//! Bytes on their way in: those of the event being handled, and those kept until they can be.

use std::ops::Range;

use crate::http::h1::HeadScan;
use crate::seam::Source;

/// Bytes kept for later, with the search for the end of their head.
#[derive(Debug)]
pub struct Inbox {
    pub bytes: Vec<u8>,
    pub scan: HeadScan,
}

impl Inbox {
    pub fn new(bytes: &[u8], scan: HeadScan) -> Box<Self> {
        Box::new(Self {
            bytes: bytes.to_vec(),
            scan,
        })
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

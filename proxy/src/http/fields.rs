//! Header fields as ranges of the bytes they came in. A field knows what becomes of it when the message is passed on,
//! so that writing a head is a matter of copying runs.

use std::ops::Range;

use super::grammar::elements;
use super::hop_by_hop::Known;

/// A range of a head.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: u32,
    pub end: u32,
}

impl Span {
    /// Of a head, whose size is a 32-bit number before anything is read from it.
    pub(super) fn new(range: Range<usize>) -> Self {
        debug_assert!(range.end <= u32::MAX as usize);
        Self {
            start: range.start as u32,
            end: range.end as u32,
        }
    }

    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// The bytes meant. Panics if `bytes` are not those of the head that was parsed.
    pub fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.range()]
    }

    pub fn is_empty(self) -> bool {
        self.start == self.end
    }
}

/// What becomes of a field when its message is passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its line is canonical and copied as it is.
    Copy,
    /// Kept, with the line written anew.
    Respell,
    /// Ends here, or is written by the proxy itself.
    Drop,
}

#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// With the line end.
    pub(super) line: Span,
    pub(super) value: Span,
    pub(super) name_length: u16,
    pub(super) known: Known,
    pub(super) fate: Fate,
}

impl Field {
    pub fn name(self, bytes: &[u8]) -> &[u8] {
        let start = self.line.start as usize;
        &bytes[start..start + usize::from(self.name_length)]
    }

    /// Without whitespace around it.
    pub fn value(self, bytes: &[u8]) -> &[u8] {
        self.value.of(bytes)
    }

    pub fn known(self) -> Known {
        self.known
    }
}

/// The fields of one head in the order they came. Storage is kept from message to message.
#[derive(Debug, Default)]
pub struct Fields {
    list: Vec<Field>,
}

impl Fields {
    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = Field> {
        self.list.iter().copied()
    }

    /// Values of all fields of this name, whatever its case.
    pub fn values<'a>(&'a self, bytes: &'a [u8], name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
            .filter(move |field| field.name(bytes).eq_ignore_ascii_case(name))
            .map(move |field| field.value(bytes))
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
    }

    pub(super) fn push(&mut self, field: Field) {
        self.list.push(field);
    }

    pub(super) fn as_slice(&self) -> &[Field] {
        &self.list
    }

    /// Drops the fields that `Connection` names. Fields the proxy answers for itself (framing, routing, forwarding) are
    /// not the sender's to remove.
    pub(super) fn drop_named(&mut self, bytes: &[u8]) {
        for index in 0..self.list.len() {
            let field = self.list[index];
            if field.known == Known::Connection {
                for option in elements(field.value(bytes)) {
                    self.drop_all(bytes, option);
                }
            }
        }
    }

    /// Drops the fields of this name, whatever its case, if they are anybody's to remove.
    pub(super) fn drop_all(&mut self, bytes: &[u8], name: &[u8]) {
        for field in &mut self.list {
            if field.known.is_removable() && field.name(bytes).eq_ignore_ascii_case(name) {
                field.fate = Fate::Drop;
            }
        }
    }
}

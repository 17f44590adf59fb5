//! Fields an operator puts into messages, or takes out. They are checked when they are said, so that nothing needs to be
//! where messages pass: what is taken out gets its fate, what is put in is lines ready to be copied.

use super::fields::Fields;
use super::grammar::{is_name, is_text_byte};
use super::hop_by_hop::Known;

/// What is done to the fields of a head. The default does nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldEdits {
    dropped: Vec<Box<[u8]>>,
    /// Whole lines, each with its end.
    lines: Vec<u8>,
}

/// Why a field cannot be edited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EditError {
    #[error("is not the name of a header: letters, digits and hyphens")]
    Name,
    #[error("holds a control character, or begins or ends with a space")]
    Value,
    #[error(
        "frames or routes messages, or says who forwarded them, which is not for others to change"
    )]
    Known,
}

impl FieldEdits {
    /// The field has this value and no other.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), EditError> {
        self.remove(name)?;
        self.add(name, value)
    }

    /// The field has this value, too.
    pub fn add(&mut self, name: &str, value: &str) -> Result<(), EditError> {
        check_name(name)?;
        let is_trimmed = value.trim_matches([' ', '\t']) == value;
        if !is_trimmed || !value.bytes().all(is_text_byte) {
            return Err(EditError::Value);
        }
        self.lines.extend_from_slice(name.as_bytes());
        self.lines.extend_from_slice(b": ");
        self.lines.extend_from_slice(value.as_bytes());
        self.lines.extend_from_slice(b"\r\n");
        Ok(())
    }

    /// The field is not there.
    pub fn remove(&mut self, name: &str) -> Result<(), EditError> {
        check_name(name)?;
        self.dropped.push(name.as_bytes().into());
        Ok(())
    }

    /// These edits, with others made to what they leave.
    pub fn followed_by(&self, later: &Self) -> Self {
        let is_dropped = |line: &[u8]| later.dropped.iter().any(|name| is_of(line, name));
        let lines = self.lines.split_inclusive(|byte| *byte == b'\n');
        let kept = lines.filter(|line| !is_dropped(line));
        Self {
            dropped: [&self.dropped[..], &later.dropped].concat(),
            lines: kept.chain([&later.lines[..]]).flatten().copied().collect(),
        }
    }

    /// What is put in, as it is written.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Takes out of parsed fields what is to go.
    pub(super) fn apply(&self, bytes: &[u8], fields: &mut Fields) {
        for name in &self.dropped {
            fields.drop_all(bytes, name);
        }
    }
}

/// Whether a line is one of the field of this name.
fn is_of(line: &[u8], name: &[u8]) -> bool {
    let (before, after) = line.split_at(line.len().min(name.len()));
    after.starts_with(b":") && before.eq_ignore_ascii_case(name)
}

fn check_name(name: &str) -> Result<(), EditError> {
    if !is_name(name.as_bytes()) {
        return Err(EditError::Name);
    }
    match Known::from_name(name.as_bytes()) {
        Known::Other => Ok(()),
        _ => Err(EditError::Known),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_ready_to_be_copied() {
        let mut edits = FieldEdits::default();
        assert_eq!(edits.set("X-Tenant", "a, b"), Ok(()));
        assert_eq!(edits.add("x-empty", ""), Ok(()));
        assert_eq!(edits.lines(), b"X-Tenant: a, b\r\nx-empty: \r\n");
    }

    #[test]
    fn later_edits_have_the_last_word() {
        let mut first = FieldEdits::default();
        assert_eq!(first.set("X-A", "1"), Ok(()));
        assert_eq!(first.set("X-Ab", "2"), Ok(()));
        assert_eq!(first.add("x-b", "3: x-a: 4"), Ok(()));
        assert_eq!(first.remove("X-C"), Ok(()));
        let mut later = FieldEdits::default();
        assert_eq!(later.set("x-a", "5"), Ok(()));
        assert_eq!(later.add("X-B", "6"), Ok(()));
        assert_eq!(later.add("x-c", "7"), Ok(()));
        let both = first.followed_by(&later);
        let lines = b"X-Ab: 2\r\nx-b: 3: x-a: 4\r\nx-a: 5\r\nX-B: 6\r\nx-c: 7\r\n";
        assert_eq!(both.lines(), lines);
        let dropped: Vec<&[u8]> = both.dropped.iter().map(|name| &name[..]).collect();
        assert_eq!(dropped, [&b"X-A"[..], b"X-Ab", b"X-C", b"x-a"]);
        assert_eq!(both.followed_by(&FieldEdits::default()), both);
    }

    #[test]
    fn no_value_can_end_its_line() {
        for value in ["a\r\nHost: b", "a\nb", "a\0", " a", "a\t", "\x7f"] {
            let refused = FieldEdits::default().set("x-a", value);
            assert_eq!(refused, Err(EditError::Value), "{value:?}");
        }
    }

    #[test]
    fn what_frames_or_routes_messages_is_not_edited() {
        for name in [
            "Host",
            "content-length",
            "Transfer-Encoding",
            "Connection",
            "TE",
            "X-Forwarded-For",
        ] {
            let mut edits = FieldEdits::default();
            assert_eq!(edits.set(name, "1"), Err(EditError::Known), "{name}");
            assert_eq!(edits.add(name, "1"), Err(EditError::Known), "{name}");
            assert_eq!(edits.remove(name), Err(EditError::Known), "{name}");
        }
        for name in ["", "a b", "a:", "ü"] {
            assert_eq!(FieldEdits::default().remove(name), Err(EditError::Name));
        }
    }
}

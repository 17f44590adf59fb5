//! Field lines of a head (RFC 9112, section 5): name, colon, value, CRLF, nothing lenient. Names the proxy knows are
//! handed to the caller, who decides what becomes of the field.

use crate::http::fields::Fate;
use crate::http::grammar::{name_end, text_end, trimmed};
use crate::http::{Field, Fields, Known, Span};

use super::{HeadError, HeadLimits};

/// Reads field lines from `from` up to and including the empty line; answers where the head ends. `on_known` sees each
/// field with a known name, may narrow its value, and answers what becomes of it.
pub(super) fn parse_fields(
    bytes: &[u8],
    from: usize,
    limits: &HeadLimits,
    fields: &mut Fields,
    mut on_known: impl FnMut(&mut Field) -> Result<Fate, HeadError>,
) -> Result<usize, HeadError> {
    let mut at = from;
    while bytes.get(at) != Some(&b'\r') {
        if fields.len() == usize::from(limits.fields) {
            return Err(HeadError::TooManyFields {
                limit: limits.fields,
            });
        }
        let mut field = parse_line(bytes, at)?;
        at = field.line.end as usize;
        if field.known != Known::Other {
            field.fate = on_known(&mut field)?;
        }
        if field.fate == Fate::Copy && !is_canonical(bytes, &field) {
            field.fate = Fate::Respell;
        }
        fields.push(field);
    }
    line_end(bytes, at)
}

fn parse_line(bytes: &[u8], start: usize) -> Result<Field, HeadError> {
    let name_end = name_end(bytes, start);
    let name = &bytes[start..name_end];
    match bytes.get(name_end) {
        Some(b':') if !name.is_empty() => {}
        Some(b' ' | b'\t') if name.is_empty() => return Err(HeadError::Fold),
        Some(b' ' | b'\t') => return Err(HeadError::SpaceBeforeColon),
        Some(b'\n') => return Err(HeadError::BareLf),
        Some(_) => return Err(HeadError::FieldName),
        None => return Err(HeadError::Truncated),
    }
    let text_start = name_end + 1;
    let text_end = text_end(bytes, text_start);
    let line_end = line_end(bytes, text_end)?;
    let (line, value) = Span::new(start..line_end)
        .zip(Span::new(trimmed(bytes, text_start..text_end)))
        .ok_or(HeadError::FieldName)?;
    Ok(Field {
        line,
        value,
        name_length: u16::try_from(name.len()).map_err(|_| HeadError::FieldName)?,
        known: Known::from_name(name),
        fate: Fate::Copy,
    })
}

/// The end of the line whose CR is at `at`.
pub(super) fn line_end(bytes: &[u8], at: usize) -> Result<usize, HeadError> {
    match bytes.get(at..).unwrap_or_default() {
        [b'\r', b'\n', ..] => Ok(at + 2),
        [b'\n', ..] => Err(HeadError::BareLf),
        [] | [b'\r'] => Err(HeadError::Truncated),
        _ => Err(HeadError::ControlByte),
    }
}

/// Whether the line reads `name: value` with one space, which is how we would write it.
fn is_canonical(bytes: &[u8], field: &Field) -> bool {
    let value_start = field.line.start + u32::from(field.name_length) + 2;
    field.value.start == value_start
        && field.value.end + 2 == field.line.end
        && bytes.get(value_start as usize - 1) == Some(&b' ')
}

//! Field lines of a head (RFC 9112, section 5): name, colon, value, CRLF, nothing lenient. Names the proxy knows are
//! handed to the caller, who decides what becomes of the field.

use crate::http::fields::Fate;
use crate::http::grammar::{name_end, text_end, trimmed};
use crate::http::{Field, Fields, Known, Span};

use super::{HeadError, HeadLimits};

/// Reads field lines from `from` up to and including the empty line; answers where the head ends. `on_known` sees each
/// field with a known name and decides about it.
#[inline(always)]
pub(super) fn parse_fields(
    bytes: &[u8],
    from: usize,
    limits: &HeadLimits,
    fields: &mut Fields,
    mut on_known: impl FnMut(&mut Field) -> Result<(), HeadError>,
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
            on_known(&mut field)?;
        }
        fields.push(field);
    }
    line_end(bytes, at)
}

#[inline(always)]
fn parse_line(bytes: &[u8], start: usize) -> Result<Field, HeadError> {
    let name_end = name_end(bytes, start);
    let name = &bytes[start..name_end];
    if bytes.get(name_end) != Some(&b':') || name.is_empty() {
        return Err(why_no_name(bytes, start, name_end));
    }
    let text_start = name_end + 1;
    let text_end = text_end(bytes, text_start);
    let line_end = line_end(bytes, text_end)?;
    let (value, fate) = match &bytes[text_start..text_end] {
        // One space before the value and none after it is how we would write it.
        [b' ', first, .., last] if *first > b' ' && *last > b' ' => {
            (text_start + 1..text_end, Fate::Copy)
        }
        [b' ', only] if *only > b' ' => (text_start + 1..text_end, Fate::Copy),
        _ => (trimmed(bytes, text_start..text_end), Fate::Respell),
    };
    Ok(Field {
        line: Span::new(start..line_end),
        value: Span::new(value),
        name_length: u16::try_from(name.len()).map_err(|_| HeadError::FieldName)?,
        known: Known::from_name(name),
        fate,
    })
}

#[cold]
fn why_no_name(bytes: &[u8], start: usize, name_end: usize) -> HeadError {
    match bytes.get(name_end) {
        Some(b' ' | b'\t') if name_end == start => HeadError::Fold,
        Some(b' ' | b'\t') => HeadError::SpaceBeforeColon,
        Some(b'\n') => HeadError::BareLf,
        Some(_) => HeadError::FieldName,
        None => HeadError::Truncated,
    }
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

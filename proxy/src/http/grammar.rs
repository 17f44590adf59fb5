//! Byte classes of HTTP's grammar, and searches for the first byte that does not belong. All searches are bounded by
//! the slice and return its length when nothing stops them.

use std::ops::Range;

const NAME: u8 = 1 << 0;
const TARGET: u8 = 1 << 1;
const HOST: u8 = 1 << 2;

static CLASSES: [u8; 256] = classes();

const fn classes() -> [u8; 256] {
    let mut table = [0; 256];
    let mut byte = 0u8;
    loop {
        let mut class = 0;
        if byte.is_ascii_alphanumeric() || is_one_of(byte, b"!#$%&'*+-.^_`|~") {
            class |= NAME;
        }
        // RFC 3986 allows fewer; browsers and most libraries send the rest of the visible bytes in queries as they are.
        if byte.is_ascii_graphic() && !is_one_of(byte, b"\"#<>") {
            class |= TARGET;
        }
        if byte.is_ascii_alphanumeric() || is_one_of(byte, b"-._~!$&'()*+,;=") {
            class |= HOST;
        }
        table[byte as usize] = class;
        if byte == u8::MAX {
            return table;
        }
        byte += 1;
    }
}

const fn is_one_of(byte: u8, set: &[u8]) -> bool {
    let mut at = 0;
    while at < set.len() {
        if set[at] == byte {
            return true;
        }
        at += 1;
    }
    false
}

/// A byte of a method, field name, connection option or coding: `tchar` of RFC 9110, section 5.6.2.
pub(super) fn is_name_byte(byte: u8) -> bool {
    CLASSES[usize::from(byte)] & NAME != 0
}

/// Whether all of `bytes` may be a name, and there is at least one.
pub(super) fn is_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && bytes.iter().copied().all(is_name_byte)
}

/// A byte of field text: everything but control bytes, the tab allowed (RFC 9110, section 5.5).
pub(super) fn is_text_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Where the name that starts at `from` ends.
pub(super) fn name_end(bytes: &[u8], from: usize) -> usize {
    end_of(bytes, from, is_name_byte)
}

/// Where the request target that starts at `from` ends.
pub(super) fn target_end(bytes: &[u8], from: usize) -> usize {
    end_of(bytes, from, |byte| CLASSES[usize::from(byte)] & TARGET != 0)
}

/// Where the registered name that starts at `from` ends, or its next percent-encoded byte (RFC 3986, section 3.2.2).
pub(super) fn host_end(bytes: &[u8], from: usize) -> usize {
    end_of(bytes, from, |byte| CLASSES[usize::from(byte)] & HOST != 0)
}

#[inline(always)]
fn end_of(bytes: &[u8], from: usize, belongs: impl Fn(u8) -> bool) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let (fours, tail) = rest.as_chunks::<4>();
    let mut at = from;
    // Four at a time: one check of the bounds for all.
    for four in fours {
        match four.iter().position(|&byte| !belongs(byte)) {
            Some(offset) => return at + offset,
            None => at += 4,
        }
    }
    let length = tail.iter().position(|&byte| !belongs(byte));
    at + length.unwrap_or(tail.len())
}

/// Whether `text` is `lower`, which is in lower case, without regard to case. Only for text without control bytes: there
/// no other byte than `-` and the letters become one when bit 5 is set.
#[inline(always)]
pub(super) fn is_same<const N: usize>(text: &[u8], lower: &[u8; N]) -> bool {
    match <&[u8; N]>::try_from(text) {
        Ok(text) => text.map(|byte| byte | 0x20) == *lower,
        Err(_) => false,
    }
}

/// Where field text that starts at `from` ends: the first control byte other than a tab.
#[inline(always)]
pub(super) fn text_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    let mut at = from;
    for word in rest.as_chunks::<8>().0 {
        let mut suspects = suspects(u64::from_le_bytes(*word));
        while suspects != 0 {
            let offset = suspects.trailing_zeros() as usize / 8;
            if !is_text_byte(word[offset]) {
                return at + offset;
            }
            suspects &= suspects - 1;
        }
        at += 8;
    }
    end_of(bytes, at, is_text_byte)
}

/// The high bit of each byte of the word that may be a control byte. Borrows and carries from other bytes can raise a
/// false suspicion, never hide a true one.
fn suspects(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let below_space = word.wrapping_sub(EACH * 0x20);
    let delete = word.wrapping_add(EACH);
    (below_space | delete) & !word & (EACH * 0x80)
}

/// The range without spaces and tabs on both sides.
pub(super) fn trimmed(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = range;
    while start < end && matches!(bytes[start], b' ' | b'\t') {
        start += 1;
    }
    while start < end && matches!(bytes[end - 1], b' ' | b'\t') {
        end -= 1;
    }
    start..end
}

/// Elements of a comma-separated list, trimmed; empty ones are reported too (RFC 9110, section 5.6.1).
pub(super) fn elements(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(|element| &element[trimmed(element, 0..element.len())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_ends_at_the_first_control_byte_wherever_it_lies() {
        for length in 0..40 {
            for at in 0..length {
                for byte in 0..=u8::MAX {
                    let mut text = vec![b'x'; length];
                    text[at] = byte;
                    let end = if is_text_byte(byte) { length } else { at };
                    assert_eq!(text_end(&text, 0), end, "{byte:#x} at {at} of {length}");
                }
            }
        }
    }

    #[test]
    fn the_first_of_several_control_bytes_wins() {
        let mut text = *b"abcdefgh";
        for first in 0..8 {
            for second in first..8 {
                for (a, b) in [(0, 0x7f), (0x7f, 0), (0x1f, 0x1f), (b'\r', b'\n')] {
                    text.copy_from_slice(b"ab\xffd\x80f\x20h");
                    text[second] = b;
                    text[first] = a;
                    assert_eq!(text_end(&text, 0), first);
                }
            }
        }
    }

    #[test]
    fn searches_stop_at_the_end_of_the_bytes() {
        assert_eq!(text_end(b"", 0), 0);
        assert_eq!(text_end(b"\t\t\t\t\t\t\t\t\t\t", 3), 10);
        assert_eq!(name_end(b"host", 0), 4);
        assert_eq!(name_end(b"host", 9), 9);
        assert_eq!(target_end(b"/a b", 0), 2);
    }

    #[test]
    fn names_are_the_tchar_set() {
        let names: Vec<u8> = (0..=u8::MAX).filter(|&byte| is_name_byte(byte)).collect();
        let expected =
            b"!#$%&'*+-.0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ^_`abcdefghijklmnopqrstuvwxyz|~";
        assert_eq!(names, expected);
        assert!(!is_name(b""));
    }

    #[test]
    fn lists_are_split_and_trimmed() {
        let list: Vec<&[u8]> = elements(b" a,\tb ,, c").collect();
        assert_eq!(list, [&b"a"[..], b"b", b"", b"c"]);
    }
}

//! Query strings as forms write them: pairs between ampersands, percent-encoded, plus for space.

use std::borrow::Cow;

/// The value of the first parameter of this name; empty where it has none.
pub fn value<'a>(query: &'a [u8], name: &str) -> Option<Cow<'a, [u8]>> {
    query.split(|&byte| byte == b'&').find_map(|pair| {
        let equals = pair.iter().position(|&byte| byte == b'=');
        let (key, value) = match equals {
            Some(at) => (&pair[..at], &pair[at + 1..]),
            None => (pair, &pair[pair.len()..]),
        };
        (*decoded(key) == *name.as_bytes()).then(|| decoded(value))
    })
}

/// Percent signs that introduce no byte stand for themselves.
fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|byte| matches!(byte, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, after @ ..] = rest {
        rest = after;
        bytes.push(match (first, after) {
            (b'+', _) => b' ',
            (b'%', [high, low, behind @ ..]) => match byte_of(*high, *low) {
                Some(byte) => {
                    rest = behind;
                    byte
                }
                None => b'%',
            },
            _ => *first,
        });
    }
    Cow::Owned(bytes)
}

fn byte_of(high: u8, low: u8) -> Option<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    u8::try_from(digit(high)? * 16 + digit(low)?).ok()
}

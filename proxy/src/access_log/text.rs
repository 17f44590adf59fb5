//! Short texts in place, so that a record needs no memory of its own.

use std::borrow::Cow;

/// At most `N` bytes; more are cut off.
#[derive(Clone, Copy)]
pub struct Text<const N: usize> {
    bytes: [u8; N],
    length: u8,
    is_cut: bool,
}

impl<const N: usize> Default for Text<N> {
    fn default() -> Self {
        const { assert!(N <= u8::MAX as usize) };
        Self {
            bytes: [0; N],
            length: 0,
            is_cut: false,
        }
    }
}

impl<const N: usize> Text<N> {
    pub fn set(&mut self, bytes: &[u8]) {
        self.clear();
        self.push(bytes);
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let start = usize::from(self.length);
        let taken = bytes.len().min(N - start);
        self.bytes[start..start + taken].copy_from_slice(&bytes[..taken]);
        self.length = (start + taken) as u8;
        self.is_cut |= taken < bytes.len();
    }

    pub fn clear(&mut self) {
        self.length = 0;
        self.is_cut = false;
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether there was more.
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// What is no UTF-8 is replaced.
    pub fn to_text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes[..usize::from(self.length)])
    }
}

impl<const N: usize> std::fmt::Debug for Text<N> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_text().fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_cut_and_said() {
        let mut text = Text::<4>::default();
        assert!(text.is_empty());
        text.set(b"abcd");
        assert!(!text.is_cut());
        text.push(b"");
        assert!(!text.is_cut());
        text.push(b"e");
        assert_eq!((text.to_text().as_ref(), text.is_cut()), ("abcd", true));
        text.set(b"a");
        text.push("é".as_bytes());
        text.push("é".as_bytes());
        assert_eq!(text.to_text(), "aé\u{fffd}");
        assert!(text.is_cut());
        text.clear();
        assert!(text.is_empty() && !text.is_cut());
    }
}

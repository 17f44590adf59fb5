//! Tables that are looked up by bytes of requests. Requests put nothing in, and whoever writes the keys could as well
//! write rules that take long, so the hash is quick instead of secret.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub type Table<V> = HashMap<Box<[u8]>, V, BuildHasherDefault<Quick>>;

/// Multiplies in eight bytes at a time, and mixes once more at the end, for the tables read both ends of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quick(u64);

impl Quick {
    /// Of the golden ratio: its bits have no pattern (Knuth, volume 3, section 6.4).
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(Self::FACTOR);
    }
}

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        for word in words {
            self.add(u64::from_le_bytes(*word));
        }
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.add(u64::from_le_bytes(word));
        }
    }

    /// The length of what follows.
    fn write_usize(&mut self, number: usize) {
        self.add(number as u64);
    }

    fn finish(&self) -> u64 {
        (self.0 ^ (self.0 >> 32)).wrapping_mul(Self::FACTOR)
    }
}

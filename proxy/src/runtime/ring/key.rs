//! The 64-bit cookie of a ring operation: what it was, on which connection, and of which generation, so that a late
//! completion can never be taken for one of the connection that has the slot now.

/// What an operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    Accept = 1,
    Connect,
    Receive,
    Send,
    Close,
    Cancel,
    Wake,
}

/// Name of an operation in flight: kind (8 bits), generation (24 bits), index (32 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpKey {
    pub kind: OpKind,
    /// The lower 24 bits of the connection's generation.
    pub generation: u32,
    pub index: u32,
}

const GENERATION_BITS: u32 = 24;
pub const GENERATION_MASK: u32 = (1 << GENERATION_BITS) - 1;

impl OpKey {
    pub fn new(kind: OpKind, index: u32, generation: u32) -> Self {
        Self {
            kind,
            generation: generation & GENERATION_MASK,
            index,
        }
    }

    pub fn encode(self) -> u64 {
        (self.kind as u64) << 56 | u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// `None` for a cookie that is not ours.
    pub fn decode(cookie: u64) -> Option<Self> {
        let kind = match cookie >> 56 {
            1 => OpKind::Accept,
            2 => OpKind::Connect,
            3 => OpKind::Receive,
            4 => OpKind::Send,
            5 => OpKind::Close,
            6 => OpKind::Cancel,
            7 => OpKind::Wake,
            _ => return None,
        };
        let generation = (cookie >> 32) as u32 & GENERATION_MASK;
        Some(Self {
            kind,
            generation,
            index: cookie as u32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_gives_back_kind_index_and_generation() {
        for kind in [OpKind::Accept, OpKind::Receive, OpKind::Wake] {
            let key = OpKey::new(kind, 0xfedc_ba98, 0x12_3456);
            assert_eq!(OpKey::decode(key.encode()), Some(key));
        }
        assert_eq!(
            OpKey::new(OpKind::Send, 7, 0xff00_0001).encode(),
            0x0400_0001_0000_0007
        );
        assert_eq!(OpKey::decode(0), None);
    }
}

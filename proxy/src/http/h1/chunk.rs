//! The chunked coding (RFC 9112, section 7.1) as a state machine over pieces of one kind. A piece ends where the kind
//! of the bytes changes, so the caller knows what it is handed before it looks.
//!
//! ```text
//! Size ─► Extension? ─► SizeEnd ─┬─► Data ─► DataEnd ─► Size
//!                                └─► Trailers ─► Complete        (size 0)
//! ```

use super::body::{BodyError, take};
use super::trailers::TrailerDecoder;
use crate::http::grammar::is_text_byte;

const MAX_DIGITS: u8 = 16;

/// Sizes beyond this are refused: peers that count in signed integers would read them as something else.
const MAX_SIZE: u64 = i64::MAX as u64;

/// Bytes of extension allowed to one chunk.
const MAX_EXTENSION: u16 = 1024;

/// What the bytes of a piece are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Framing,
    Extension,
    Payload,
}

#[derive(Clone, Debug, Default)]
pub(super) struct ChunkDecoder {
    state: State,
    /// Size read so far, then bytes of data to come.
    left: u64,
}

#[derive(Clone, Debug)]
enum State {
    Size { digits: u8 },
    Extension { seen: u16, part: Part },
    SizeEnd(LineEnd),
    Data,
    DataEnd(LineEnd),
    Trailers(TrailerDecoder),
    Complete,
}

impl Default for State {
    fn default() -> Self {
        Self::Size { digits: 0 }
    }
}

/// Where in an extension: only quoting matters, since it may not reach over the end of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Whitespace that must lead to a semicolon.
    Space,
    Plain,
    Quoted,
    Escaped,
}

/// The next byte of a line end.
#[derive(Clone, Copy, Debug)]
enum LineEnd {
    Cr,
    Lf,
}

impl ChunkDecoder {
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    /// What [`Self::advance`] will take next.
    pub fn piece(&self) -> Piece {
        match self.state {
            State::Extension { .. } => Piece::Extension,
            State::Data => Piece::Payload,
            _ => Piece::Framing,
        }
    }

    /// Takes bytes of the current piece off the front of `input`, which is not empty: how many. It may be none when
    /// the piece has ended.
    pub fn advance(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        match &mut self.state {
            State::Size { .. } => self.on_size(input),
            State::Extension { .. } => self.on_extension(input),
            State::SizeEnd(end) => {
                let (taken, ended) = end.advance(input)?;
                if ended {
                    self.state = match self.left {
                        0 => State::Trailers(TrailerDecoder::default()),
                        _ => State::Data,
                    };
                }
                Ok(taken)
            }
            State::Data => {
                let taken = take(&mut self.left, input.len());
                if self.left == 0 {
                    self.state = State::DataEnd(LineEnd::Cr);
                }
                Ok(taken)
            }
            State::DataEnd(end) => {
                let (taken, ended) = end.advance(input)?;
                if ended {
                    self.state = State::default();
                }
                Ok(taken)
            }
            State::Trailers(trailers) => {
                let taken = trailers.advance(input)?;
                if trailers.is_complete() {
                    self.state = State::Complete;
                }
                Ok(taken)
            }
            State::Complete => Ok(0),
        }
    }

    fn on_size(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        let State::Size { digits } = &mut self.state else {
            return Ok(0);
        };
        for (at, &byte) in input.iter().enumerate() {
            let Some(digit) = (byte as char).to_digit(16) else {
                self.state = after_size(byte, *digits)?;
                return Ok(at);
            };
            *digits += 1;
            if *digits > MAX_DIGITS || self.left > MAX_SIZE >> 4 {
                return Err(BodyError::SizeInvalid);
            }
            self.left = self.left << 4 | u64::from(digit);
        }
        Ok(input.len())
    }

    fn on_extension(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        let State::Extension { seen, part } = &mut self.state else {
            return Ok(0);
        };
        for (at, &byte) in input.iter().enumerate() {
            if byte == b'\r' && *part == Part::Plain {
                self.state = State::SizeEnd(LineEnd::Cr);
                return Ok(at);
            }
            *part = part.after(byte)?;
            *seen += 1;
            if *seen > MAX_EXTENSION {
                return Err(BodyError::ExtensionTooLong);
            }
        }
        Ok(input.len())
    }
}

fn after_size(byte: u8, digits: u8) -> Result<State, BodyError> {
    let part = match byte {
        _ if digits == 0 => return Err(BodyError::SizeInvalid),
        b'\r' => return Ok(State::SizeEnd(LineEnd::Cr)),
        b'\n' => return Err(BodyError::LineEnd),
        b';' => Part::Plain,
        b' ' | b'\t' => Part::Space,
        _ => return Err(BodyError::SizeInvalid),
    };
    Ok(State::Extension { seen: 0, part })
}

impl Part {
    fn after(self, byte: u8) -> Result<Self, BodyError> {
        match (self, byte) {
            (_, b'\n') => Err(BodyError::LineEnd),
            _ if !is_text_byte(byte) => Err(BodyError::ExtensionInvalid),
            (Self::Space, b' ' | b'\t') => Ok(Self::Space),
            (Self::Space, b';') => Ok(Self::Plain),
            (Self::Space, _) => Err(BodyError::ExtensionInvalid),
            (Self::Plain, b'"') => Ok(Self::Quoted),
            (Self::Plain, _) => Ok(Self::Plain),
            (Self::Quoted, b'"') => Ok(Self::Plain),
            (Self::Quoted, b'\\') => Ok(Self::Escaped),
            (Self::Quoted | Self::Escaped, _) => Ok(Self::Quoted),
        }
    }
}

impl LineEnd {
    /// Takes what there is of CR LF: how many bytes, and whether that was all.
    fn advance(&mut self, input: &[u8]) -> Result<(usize, bool), BodyError> {
        match (&self, input) {
            (Self::Cr, [b'\r', b'\n', ..]) => Ok((2, true)),
            (Self::Cr, [b'\r']) => {
                *self = Self::Lf;
                Ok((1, false))
            }
            (Self::Lf, [b'\n', ..]) => Ok((1, true)),
            _ => Err(BodyError::LineEnd),
        }
    }
}

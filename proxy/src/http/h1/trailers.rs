//! The trailer section of a chunked body (RFC 9112, section 7.1.2), passed on as it comes and checked on the way: a
//! forbidden field is noticed at its colon, and without the section's end the receiver never sees a complete message.

use super::body::BodyError;
use crate::http::Known;
use crate::http::grammar::{name_end, text_end};

/// Bytes allowed to a trailer section.
const MAX_TRAILERS: usize = 8 * 1024;

/// Longer names cannot be one the proxy knows.
const LONGEST_KNOWN: usize = 25;

#[derive(Clone, Debug, Default)]
pub(super) struct TrailerDecoder {
    state: State,
    seen: u16,
    name: [u8; LONGEST_KNOWN],
    name_length: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    LineStart,
    Name,
    Value,
    ValueLf,
    LastLf,
    Complete,
}

impl TrailerDecoder {
    pub fn is_complete(&self) -> bool {
        self.state == State::Complete
    }

    /// Takes bytes off the front of `input`, up to the end of the section: how many.
    pub fn advance(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        let room = MAX_TRAILERS - usize::from(self.seen);
        let (within, beyond) = input.split_at(room.min(input.len()));
        let mut at = 0;
        while at < within.len() && !self.is_complete() {
            at += self.advance_within_line(&within[at..])?;
        }
        if !self.is_complete() && !beyond.is_empty() {
            return Err(BodyError::TrailersTooLarge);
        }
        // At most `MAX_TRAILERS`.
        self.seen += at as u16;
        Ok(at)
    }

    fn advance_within_line(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        let (taken, next) = match (self.state, input[0]) {
            (State::LineStart, b'\r') => (1, State::LastLf),
            (State::LineStart, _) => {
                self.name_length = 0;
                (0, State::Name)
            }
            (State::Name, b':') => {
                self.check_name()?;
                (1, State::Value)
            }
            (State::Name, _) => (self.on_name(input)?, State::Name),
            (State::Value, b'\r') => (1, State::ValueLf),
            (State::Value, _) => match text_end(input, 0) {
                0 => return Err(BodyError::TrailerInvalid),
                length => (length, State::Value),
            },
            (State::ValueLf, b'\n') => (1, State::LineStart),
            (State::LastLf, b'\n') => (1, State::Complete),
            (State::ValueLf | State::LastLf, _) => return Err(BodyError::LineEnd),
            (State::Complete, _) => (0, State::Complete),
        };
        self.state = next;
        Ok(taken)
    }

    fn on_name(&mut self, input: &[u8]) -> Result<usize, BodyError> {
        let name = &input[..name_end(input, 0)];
        if name.is_empty() {
            return Err(BodyError::TrailerInvalid);
        }
        let known = usize::from(self.name_length).min(LONGEST_KNOWN);
        for (slot, &byte) in self.name[known..].iter_mut().zip(name) {
            *slot = byte;
        }
        // Within the limit of the whole section.
        self.name_length += name.len() as u16;
        Ok(name.len())
    }

    fn check_name(&self) -> Result<(), BodyError> {
        match self.name.get(..usize::from(self.name_length)) {
            Some([]) => Err(BodyError::TrailerInvalid),
            Some(name) if Known::from_name(name).is_refused_in_trailers() => {
                Err(BodyError::TrailerRefused)
            }
            _ => Ok(()),
        }
    }
}

//! Follows a message body through bytes that arrive in any split, without keeping them: each step says how many bytes
//! were taken and which of them to pass on. Neighbouring bytes to pass on form one range, so a chunked body without
//! extensions is forwarded as it came, read by read.

use std::ops::Range;

use super::chunk::{ChunkDecoder, Piece};
use crate::http::{RequestFraming, ResponseFraming};

/// What of a chunked body is passed on. Other bodies are payload alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyForm {
    /// Payload and its framing; chunk extensions are dropped (RFC 9112, section 7.1.1).
    Framed,
    /// Payload alone, for peers that do not know chunked. Trailers are dropped.
    PayloadOnly,
    /// Payload in chunks of our own, where the upstream says the end by that of its connection only.
    OwnChunks,
}

/// What came of one look at the input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BodyStep {
    /// Input bytes dealt with; look again at the rest unless the body is complete.
    pub consumed: usize,
    /// Input bytes to pass on.
    pub forward: Range<usize>,
    /// How many of them are payload.
    pub payload: usize,
}

/// Why a body cannot be passed on. Nothing more of it may be: the receiver must see it end early.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("a chunk size is not 1 to 16 hexadecimal digits below 2^63")]
    SizeInvalid,
    #[error("a chunk line does not end in CRLF where it must")]
    LineEnd,
    #[error("a chunk extension is malformed")]
    ExtensionInvalid,
    #[error("a chunk extension is too long")]
    ExtensionTooLong,
    #[error("a trailer line is malformed")]
    TrailerInvalid,
    #[error("a trailer field that frames or routes messages")]
    TrailerRefused,
    #[error("the trailers are too large")]
    TrailersTooLarge,
    #[error("the body ended early")]
    Truncated,
}

impl BodyError {
    /// A short name for logs, counters and the answer.
    pub fn cause(self) -> &'static str {
        match self {
            Self::SizeInvalid => "chunk-size-invalid",
            Self::LineEnd => "chunk-line-end",
            Self::ExtensionInvalid => "chunk-extension-invalid",
            Self::ExtensionTooLong => "chunk-extension-too-long",
            Self::TrailerInvalid => "trailer-invalid",
            Self::TrailerRefused => "trailer-refused",
            Self::TrailersTooLarge => "trailers-too-large",
            Self::Truncated => "body-truncated",
        }
    }
}

/// Progress through one body.
#[derive(Clone, Debug)]
pub struct BodyDecoder {
    state: State,
    form: BodyForm,
}

#[derive(Clone, Debug)]
enum State {
    /// Bytes of payload to come.
    Counted(u64),
    Chunked(ChunkDecoder),
    UntilClose,
    Complete,
}

impl BodyDecoder {
    pub fn of_request(framing: RequestFraming, form: BodyForm) -> Self {
        let state = match framing {
            RequestFraming::None | RequestFraming::Length(0) => State::Complete,
            RequestFraming::Length(length) => State::Counted(length),
            RequestFraming::Chunked => State::Chunked(ChunkDecoder::default()),
        };
        Self { state, form }
    }

    pub fn of_response(framing: ResponseFraming, form: BodyForm) -> Self {
        let state = match framing {
            ResponseFraming::None | ResponseFraming::Length(0) => State::Complete,
            ResponseFraming::Length(length) => State::Counted(length),
            ResponseFraming::Chunked => State::Chunked(ChunkDecoder::default()),
            ResponseFraming::UntilClose => State::UntilClose,
        };
        Self { state, form }
    }

    /// Of what is no message: all of it, until its end.
    pub fn of_tunnel() -> Self {
        Self {
            state: State::UntilClose,
            form: BodyForm::Framed,
        }
    }

    /// Whether what is passed on needs chunks around it.
    pub fn needs_chunks(&self) -> bool {
        self.form == BodyForm::OwnChunks
    }

    /// Whether the last byte of the body has been seen. Input after it belongs to the next message.
    pub fn is_complete(&self) -> bool {
        matches!(self.state, State::Complete)
    }

    /// Takes as much of `input` as one range to pass on allows. Call again with the rest until nothing is left or the
    /// body is complete.
    pub fn next(&mut self, input: &[u8]) -> Result<BodyStep, BodyError> {
        match &mut self.state {
            State::Complete => Ok(BodyStep::of_payload(0)),
            State::UntilClose => Ok(BodyStep::of_payload(input.len())),
            State::Counted(left) => {
                let taken = take(left, input.len());
                if *left == 0 {
                    self.state = State::Complete;
                }
                Ok(BodyStep::of_payload(taken))
            }
            State::Chunked(decoder) => {
                let step = next_chunked(decoder, self.form, input)?;
                if decoder.is_complete() {
                    self.state = State::Complete;
                }
                Ok(step)
            }
        }
    }

    /// Whether the next bytes can be passed on at all, before any of them is.
    pub fn check(&self, input: &[u8]) -> Result<(), BodyError> {
        let State::Chunked(_) = self.state else {
            return Ok(());
        };
        let mut ahead = self.clone();
        let mut rest = input;
        while !rest.is_empty() && !ahead.is_complete() {
            rest = &rest[ahead.next(rest)?.consumed..];
        }
        Ok(())
    }

    /// The peer will send nothing more: fine if the body is complete, and what ends a body without a stated length.
    pub fn on_end(&mut self) -> Result<(), BodyError> {
        match self.state {
            State::Complete => Ok(()),
            State::UntilClose => {
                self.state = State::Complete;
                Ok(())
            }
            State::Counted(_) | State::Chunked(_) => Err(BodyError::Truncated),
        }
    }
}

impl BodyStep {
    fn of_payload(length: usize) -> Self {
        Self {
            consumed: length,
            forward: 0..length,
            payload: length,
        }
    }
}

/// Takes up to `available` off a count of bytes left.
pub(super) fn take(left: &mut u64, available: usize) -> usize {
    // A count beyond the address space is more than any input holds.
    let taken = usize::try_from(*left).map_or(available, |left| left.min(available));
    *left -= taken as u64;
    taken
}

fn next_chunked(
    decoder: &mut ChunkDecoder,
    form: BodyForm,
    input: &[u8],
) -> Result<BodyStep, BodyError> {
    let mut step = BodyStep {
        consumed: 0,
        forward: 0..0,
        payload: 0,
    };
    while step.consumed < input.len() && !decoder.is_complete() {
        let piece = decoder.piece();
        let is_forwarded = match form {
            BodyForm::Framed => piece != Piece::Extension,
            BodyForm::PayloadOnly | BodyForm::OwnChunks => piece == Piece::Payload,
        };
        if step.forward.is_empty() {
            step.forward = step.consumed..step.consumed;
        }
        if is_forwarded && step.forward.end != step.consumed {
            break;
        }
        let length = decoder.advance(&input[step.consumed..])?;
        step.consumed += length;
        if is_forwarded {
            step.forward.end = step.consumed;
        }
        if piece == Piece::Payload {
            step.payload += length;
        }
    }
    Ok(step)
}

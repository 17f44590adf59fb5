//! Version-free HTTP: methods, statuses, fields as ranges of the caller's bytes, message framing, hop-by-hop rules.
//! Each version has a module below. Nothing here owns received bytes, allocates per message or does I/O; what is not
//! allowed is an error, never repaired.

mod authority;
mod edits;
mod fields;
mod framing;
mod grammar;
pub mod h1;
mod hop_by_hop;
mod method;
mod rate_limit;
mod status;

pub use authority::is_authority;
pub use edits::{EditError, FieldEdits};
pub use fields::{Field, Fields, Span};
pub use framing::{FramingError, RequestFraming, ResponseFraming};
pub use hop_by_hop::Known;
pub use method::Method;
pub use rate_limit::{NoWait, rate_limit};
pub use status::{InvalidStatus, Status};

/// Version of an HTTP/1 message or peer. Later minor versions do not exist and are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Http10,
    Http11,
}

/// Whether a connection may carry another message after this one (RFC 9112, section 9.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Persistence {
    Close,
    KeepAlive,
}

impl Persistence {
    pub fn is_keep_alive(self) -> bool {
        self == Self::KeepAlive
    }
}

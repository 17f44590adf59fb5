//! HTTP/1.1 bytes: finding and parsing heads, following bodies, writing canonical heads (RFC 9112). A head is found and
//! understood by [`RequestHead::read`] or [`ResponseHead::read`], its body followed by [`BodyDecoder`], and passed on by
//! [`encode`]. Any split of the input gives the same result.

mod body;
mod chunk;
pub mod encode;
mod error;
mod field_lines;
mod local_reply;
mod request;
mod response;
mod scan;
mod target;
mod trailers;

pub use body::{BodyDecoder, BodyError, BodyForm, BodyStep};
pub use encode::{Edited, Forwarding, ResponseEncoding, Scheme};
pub use error::HeadError;
pub use local_reply::LocalReply;
pub use request::RequestHead;
pub use response::ResponseHead;
pub use scan::HeadScan;

#[cfg(test)]
mod tests;

/// How large a head may be. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// The whole head with its last empty line.
    pub head: u32,
    pub fields: u16,
    /// The request target as received.
    pub uri: u32,
}

impl HeadLimits {
    fn check_size(&self, head: &[u8]) -> Result<(), HeadError> {
        if head.len() > self.head as usize {
            return Err(HeadError::TooLarge { limit: self.head });
        }
        Ok(())
    }
}

impl Default for HeadLimits {
    fn default() -> Self {
        Self {
            head: 64 * 1024,
            fields: 128,
            uri: 16 * 1024,
        }
    }
}

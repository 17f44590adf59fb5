//! What routes may ask of a request. Everything is found when it is asked for: a rule without conditions reads nothing.

use crate::http::h1::RequestHead;

/// A parsed head with its bytes.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    head: &'a RequestHead,
    bytes: &'a [u8],
}

impl<'a> Request<'a> {
    /// `bytes` are those the head was parsed from.
    pub fn new(head: &'a RequestHead, bytes: &'a [u8]) -> Self {
        Self { head, bytes }
    }

    /// The host the request is for, without port; empty if it names none.
    pub(super) fn host_name(self) -> &'a [u8] {
        let name = self.host_without_port().unwrap_or_default();
        // A name with the root's dot is the same name.
        name.strip_suffix(b".").unwrap_or(name)
    }

    /// The same as the client wrote it, an address with its brackets; `None` if it names none.
    pub(super) fn host_without_port(self) -> Option<&'a [u8]> {
        let host = self.head.host(self.bytes)?;
        let end = match host {
            [b'[', ..] => host.iter().position(|&byte| byte == b']').map(|at| at + 1),
            _ => host.iter().position(|&byte| byte == b':'),
        };
        Some(&host[..end.unwrap_or(host.len())])
    }

    pub(super) fn path_and_query(self) -> &'a [u8] {
        self.head.path_and_query(self.bytes)
    }

    pub(super) fn method(self) -> &'a [u8] {
        self.head.method_name(self.bytes)
    }

    pub(super) fn path(self) -> &'a [u8] {
        self.head.path(self.bytes)
    }

    /// Behind the question mark, if there is one.
    pub(super) fn query(self) -> Option<&'a [u8]> {
        let target = self.head.target(self.bytes);
        let mark = target.iter().position(|&byte| byte == b'?')?;
        Some(&target[mark + 1..])
    }

    /// Values of all fields of this name, whatever its case.
    pub(super) fn header(self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.head.fields().values(self.bytes, name)
    }
}

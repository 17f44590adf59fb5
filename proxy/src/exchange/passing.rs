//! Request heads as endpoints get them: with what the rule edits and rewrites, and who the client is.

use std::net::IpAddr;

use crate::http::h1::{Edited, Forwarding, RequestHead, Scheme, encode};
use crate::route::Filters;

/// How a request is passed on.
#[derive(Clone, Copy, Debug)]
pub struct Passing<'a> {
    pub client: IpAddr,
    /// `Host` where the request names none.
    pub fallback_host: &'a [u8],
    pub filters: Option<&'a Filters>,
    /// Length of the path's prefix by which the rule was found.
    pub matched: usize,
}

impl Passing<'_> {
    /// Writes the head that `request` was parsed from; what filters take out is no longer in it afterwards. `rewritten`
    /// is memory for another path.
    pub fn write(
        &self,
        out: &mut Vec<u8>,
        head: &[u8],
        request: &mut RequestHead,
        rewritten: &mut Vec<u8>,
    ) {
        let mut edited = Edited::default();
        if let Some(filters) = self.filters {
            request.edit(head, &filters.request);
            edited.lines = filters.request.lines();
            edited.host = filters.rewrite.host.as_deref().map(str::as_bytes);
            let target = request.path_and_query(head);
            if let Some(path) = &filters.rewrite.path
                && target != b"*"
            {
                rewritten.clear();
                path.write(rewritten, target, self.matched);
                edited.path_and_query = Some(rewritten);
            }
        }
        let forwarding = Forwarding {
            client: self.client,
            scheme: Scheme::Http,
            fallback_host: self.fallback_host,
            edited,
        };
        encode::write_request(out, head, request, &forwarding);
    }
}

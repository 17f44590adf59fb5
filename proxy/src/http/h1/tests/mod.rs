//! Behaviour of HTTP/1.1 as its users meet it: bytes in, facts and bytes out.

mod bodies;
mod forwarding;
mod generated;
mod relaying;
mod request_fields;
mod requests;
mod responses;

use super::*;
use crate::http::Method;

/// Finds and parses the request head at the start of `bytes`.
fn request(bytes: &[u8]) -> Result<RequestHead, HeadError> {
    let limits = HeadLimits::default();
    let mut head = RequestHead::default();
    match HeadScan::request().advance(bytes, &limits)? {
        Some(length) => head.parse(&bytes[..length], &limits)?,
        None => return Err(HeadError::Truncated),
    }
    Ok(head)
}

/// Finds and parses the response head at the start of `bytes`, of a response to `method`.
fn response(bytes: &[u8], method: Method) -> Result<ResponseHead, HeadError> {
    let limits = HeadLimits::default();
    let mut head = ResponseHead::default();
    match HeadScan::response().advance(bytes, &limits)? {
        Some(length) => head.parse(&bytes[..length], method, &limits)?,
        None => return Err(HeadError::Truncated),
    }
    Ok(head)
}

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

/// Reads the request head at the start of `bytes`.
fn request(bytes: &[u8]) -> Result<RequestHead, HeadError> {
    let mut head = RequestHead::default();
    let mut scan = HeadScan::request();
    let length = head.read(&mut scan, bytes, &HeadLimits::default())?;
    length.map(|_| head).ok_or(HeadError::Truncated)
}

/// Reads the response head at the start of `bytes`, of a response to `method`.
fn response(bytes: &[u8], method: Method) -> Result<ResponseHead, HeadError> {
    let mut head = ResponseHead::default();
    let mut scan = HeadScan::response();
    let length = head.read(&mut scan, bytes, method, &HeadLimits::default())?;
    length.map(|_| head).ok_or(HeadError::Truncated)
}

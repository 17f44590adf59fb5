//! What a rule asks for on the way of its requests, as routes and policies spell it: retries and timeouts.

use std::time::Duration;

use super::health::read_duration;
use super::reader::Cursor;
use crate::route::{Retry, RetryOn, StatusCodes, Timeouts};

/// `timeouts` of the Gateway API (GEP-1742), where zero is no limit.
pub fn read_timeouts(at: &Cursor<'_>) -> Option<Timeouts> {
    let mut object = at.object()?;
    let request = object.optional("request");
    let attempt = object.optional("backendRequest");
    object.finish();
    let read = |length: Option<Cursor<'_>>| match length {
        Some(length) => read_duration(&length).map(Some),
        None => Some(None),
    };
    let (request, backend_request) = (read(request), read(attempt.clone()));
    let limit = |length: Option<Duration>| length.filter(|length| !length.is_zero());
    let timeouts = Timeouts {
        request: limit(request?),
        backend_request: limit(backend_request?),
    };
    if let (Some(all), Some(one), Some(attempt)) =
        (timeouts.request, timeouts.backend_request, attempt)
        && one > all
    {
        attempt
            .error("is longer than `request`, which holds for all tries together; make it shorter");
        return None;
    }
    Some(timeouts)
}

/// `retry` of the Gateway API (GEP-1731).
pub fn read_retry(at: &Cursor<'_>) -> Option<Retry> {
    let mut object = at.object()?;
    let codes = object.items("codes");
    let attempts = object.optional("attempts");
    let backoff = object.optional("backoff");
    object.finish();
    let codes = read_codes(&codes);
    let attempts = match attempts {
        Some(attempts) => attempts.whole(0..=i128::from(u8::MAX)),
        None => Some(Retry::DEFAULT_ATTEMPTS),
    };
    let backoff = match backoff {
        Some(backoff) => read_duration(&backoff).map(Some),
        None => Some(None),
    };
    Some(Retry {
        attempts: attempts?,
        on: RetryOn::Failure(codes?),
        backoff: backoff?,
    })
}

/// Reports all that are wrong.
fn read_codes(items: &[Cursor<'_>]) -> Option<StatusCodes> {
    let mut codes = StatusCodes::default();
    let mut is_right = true;
    for item in items {
        is_right &= item.whole(400..=599).is_some_and(|code| codes.insert(code));
    }
    is_right.then_some(codes)
}

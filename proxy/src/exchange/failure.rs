//! Why an exchange ended without a response of its endpoint: whose fault it was, and what the client is told.

use thiserror::Error;

use crate::balance::Outcome;
use crate::http::Status;
use crate::http::h1::{BodyError, HeadError};
use crate::metrics::{LocalCause, RetryReason};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    #[error("request head: {0}")]
    RequestHead(HeadError),
    #[error("request body: {0}")]
    RequestBody(BodyError),
    #[error("the request did not arrive in time")]
    RequestTimeout,
    #[error("there are more clients than descriptors for them")]
    Shed,
    #[error("the route sends its clients elsewhere")]
    Redirected(Status),
    #[error("no route matches")]
    NoRoute,
    #[error("the route leads to no backend")]
    NoBackend,
    #[error("no endpoint can be picked")]
    NoEndpoint,
    #[error("this host has no descriptor, port or memory left for a connection")]
    HostExhausted,
    #[error("no connection to the endpoint")]
    ConnectFailed,
    #[error("no connection to the endpoint in time")]
    ConnectTimeout,
    #[error("the endpoint closed the connection before its response head was complete")]
    UpstreamClosed,
    #[error("the endpoint did not answer in time")]
    FirstByteTimeout,
    #[error("the time for one try is over")]
    AttemptDeadline,
    #[error("the time for the request is over")]
    RequestDeadline,
    #[error("response head: {0}")]
    ResponseHead(HeadError),
    #[error("response body: {0}")]
    ResponseBody(BodyError),
    #[error("the endpoint sent interim responses without end")]
    TooManyInterim,
    #[error("the endpoint stopped sending in the middle of a response")]
    UpstreamStalled,
}

/// Who is to blame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blame {
    Downstream,
    Proxy,
    Upstream,
}

impl Failure {
    pub fn status(self) -> Status {
        match self {
            Self::RequestHead(error) => error.status(),
            Self::RequestBody(_) => Status::BAD_REQUEST,
            Self::RequestTimeout => Status::REQUEST_TIMEOUT,
            Self::Redirected(status) => status,
            Self::NoRoute => Status::NOT_FOUND,
            Self::NoBackend => Status::INTERNAL_ERROR,
            Self::Shed | Self::NoEndpoint | Self::HostExhausted => Status::UNAVAILABLE,
            Self::ConnectTimeout
            | Self::FirstByteTimeout
            | Self::AttemptDeadline
            | Self::RequestDeadline => Status::GATEWAY_TIMEOUT,
            Self::ConnectFailed
            | Self::UpstreamClosed
            | Self::ResponseHead(_)
            | Self::ResponseBody(_)
            | Self::TooManyInterim
            | Self::UpstreamStalled => Status::BAD_GATEWAY,
        }
    }

    /// A short name for the answer.
    pub fn cause(self) -> &'static str {
        match self {
            Self::RequestHead(error) => error.cause(),
            Self::RequestBody(error) => error.cause(),
            Self::RequestTimeout => "request-timeout",
            Self::Shed => "shed",
            Self::Redirected(_) => "redirect",
            Self::NoRoute => "no-route",
            Self::NoBackend => "no-backend",
            Self::NoEndpoint => "no-endpoint",
            Self::HostExhausted => "host-exhausted",
            Self::ConnectFailed => "connect-failed",
            Self::ConnectTimeout => "connect-timeout",
            Self::UpstreamClosed => "upstream-closed",
            Self::FirstByteTimeout => "first-byte-timeout",
            Self::AttemptDeadline => "backend-request-timeout",
            Self::RequestDeadline => "request-deadline",
            // What exactly was wrong with the endpoint's bytes is nothing for its clients.
            Self::ResponseHead(_) => "response-head-invalid",
            Self::ResponseBody(_) => "response-body-invalid",
            Self::TooManyInterim => "too-many-interim-responses",
            Self::UpstreamStalled => "upstream-stalled",
        }
    }

    /// What the endpoint's health hears of it.
    pub fn outcome(self) -> Outcome {
        match self.blame() {
            Blame::Downstream | Blame::Proxy => Outcome::Neutral,
            Blame::Upstream => Outcome::Failure,
        }
    }

    /// Why the request may be tried again, if it may at all.
    pub fn retry_reason(self) -> Option<RetryReason> {
        match self {
            Self::ConnectFailed | Self::ConnectTimeout => Some(RetryReason::NoConnection),
            Self::UpstreamClosed => Some(RetryReason::NoResponse),
            Self::FirstByteTimeout | Self::AttemptDeadline => Some(RetryReason::Timeout),
            _ => None,
        }
    }

    /// Whether the client's bytes can no longer be told apart, or its place is needed.
    pub fn ends_connection(self) -> bool {
        self.blame() == Blame::Downstream || self == Self::Shed
    }

    /// Which counter the reply is counted in.
    pub fn label(self) -> LocalCause {
        match self {
            Self::RequestHead(HeadError::TooLarge { .. } | HeadError::TooManyFields { .. }) => {
                LocalCause::HeadTooLarge
            }
            Self::RequestHead(HeadError::UriTooLong { .. }) => LocalCause::UriTooLong,
            Self::RequestHead(_) | Self::RequestBody(_) => LocalCause::BadRequest,
            Self::RequestTimeout => LocalCause::RequestTimeout,
            Self::Redirected(_) => LocalCause::Redirect,
            Self::NoRoute => LocalCause::NoRoute,
            Self::NoBackend => LocalCause::NoBackend,
            Self::NoEndpoint => LocalCause::NoEndpoint,
            Self::Shed | Self::HostExhausted => LocalCause::Shed,
            Self::ConnectFailed => LocalCause::ConnectFailed,
            Self::ConnectTimeout
            | Self::FirstByteTimeout
            | Self::AttemptDeadline
            | Self::RequestDeadline => LocalCause::UpstreamTimeout,
            Self::UpstreamClosed
            | Self::ResponseHead(_)
            | Self::ResponseBody(_)
            | Self::TooManyInterim
            | Self::UpstreamStalled => LocalCause::UpstreamBroke,
        }
    }

    fn blame(self) -> Blame {
        match self {
            Self::RequestHead(_) | Self::RequestBody(_) | Self::RequestTimeout => Blame::Downstream,
            Self::Shed
            | Self::Redirected(_)
            | Self::NoRoute
            | Self::NoBackend
            | Self::NoEndpoint
            | Self::HostExhausted => Blame::Proxy,
            Self::ConnectFailed
            | Self::ConnectTimeout
            | Self::UpstreamClosed
            | Self::FirstByteTimeout
            | Self::AttemptDeadline
            | Self::RequestDeadline
            | Self::ResponseHead(_)
            | Self::ResponseBody(_)
            | Self::TooManyInterim
            | Self::UpstreamStalled => Blame::Upstream,
        }
    }
}

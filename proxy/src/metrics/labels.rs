//! What counters are told apart by: causes and kinds, each with the name metrics give it.

use super::counter::Label;
use crate::affinity::Unbound;
use crate::balance::{Detour, EjectionReason, Method};
use crate::condition::Undecided;

/// Spells the values of an enum, in the order in which it declares them.
macro_rules! label {
    ($label:ident { $($value:ident = $name:literal),* $(,)? }) => {
        impl Label for $label {
            const ALL: &'static [Self] = &[$(Self::$value),*];

            fn place(self) -> usize {
                self as usize
            }

            fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name),*
                }
            }
        }
    };
}

/// First digit of a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseClass {
    Informational,
    Success,
    Redirection,
    ClientError,
    ServerError,
}

impl ResponseClass {
    /// Statuses from 600 on are served and counted as server errors.
    pub const fn of_status(status: u16) -> Self {
        match status {
            0..200 => Self::Informational,
            200..300 => Self::Success,
            300..400 => Self::Redirection,
            400..500 => Self::ClientError,
            500.. => Self::ServerError,
        }
    }
}

label!(ResponseClass {
    Informational = "1xx",
    Success = "2xx",
    Redirection = "3xx",
    ClientError = "4xx",
    ServerError = "5xx",
});

/// Why a response was made here instead of coming from an endpoint: coarse enough for a counter each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocalCause {
    /// 400, 417, 501, 505: the request could not be understood, or asks for what is not done here.
    BadRequest,
    /// 414.
    UriTooLong,
    /// 431.
    HeadTooLarge,
    /// 408: the request head did not arrive in time.
    RequestTimeout,
    /// 301, 302, 303, 307, 308: the route sends its clients elsewhere.
    Redirect,
    /// 404: no route matches.
    NoRoute,
    /// 500: the route that matches leads nowhere.
    NoBackend,
    /// 502: no connection to the endpoint.
    ConnectFailed,
    /// 502: the endpoint broke off, or its response could not be understood.
    UpstreamBroke,
    /// 503: nothing to pick.
    NoEndpoint,
    /// 503: too much to do already.
    Shed,
    /// 504: the endpoint did not answer in time, or no connection stood in time.
    UpstreamTimeout,
}

label!(LocalCause {
    BadRequest = "bad-request",
    UriTooLong = "uri-too-long",
    HeadTooLarge = "head-too-large",
    RequestTimeout = "request-timeout",
    Redirect = "redirect",
    NoRoute = "no-route",
    NoBackend = "no-backend",
    ConnectFailed = "connect-failed",
    UpstreamBroke = "upstream-broke",
    NoEndpoint = "no-endpoint",
    Shed = "shed",
    UpstreamTimeout = "upstream-timeout",
});

/// Why a request is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryReason {
    /// No connection came to stand: nobody has seen the request.
    NoConnection,
    /// The endpoint closed its connection before any response.
    NoResponse,
    /// It did not answer in time.
    Timeout,
    /// Its response had a status the rule lists.
    Status,
}

label!(RetryReason {
    NoConnection = "no-connection",
    NoResponse = "no-response",
    Timeout = "timeout",
    Status = "status",
});

/// Why a request is not tried again although its rule wants it to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrepeatable {
    /// Its head or its body is more than is kept.
    TooLarge,
    /// Its endpoint may have had it, and doing it twice could do harm.
    NotIdempotent,
    /// Without a Host field, its head names the endpoint it was written for.
    NamesEndpoint,
}

label!(Unrepeatable {
    TooLarge = "too-large",
    NotIdempotent = "not-idempotent",
    NamesEndpoint = "names-endpoint",
});

/// What an endpoint that limits its rate says of how long it wants to be left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateLimitHint {
    Read,
    /// What it says cannot be read, is negative or has passed.
    Unusable,
    Missing,
}

label!(RateLimitHint { Read = "read", Unusable = "unusable", Missing = "missing" });

label!(EjectionReason {
    Failure = "failure",
    ConsecutiveFailures = "consecutive_failures",
    HealthThreshold = "health_threshold",
    RateLimit = "rate_limit",
    Check = "check",
});

label!(Detour { Overloaded = "overloaded", Ejected = "ejected" });

/// Why a request was not mirrored, where it should have been.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmirrored {
    /// Its body is larger than what is kept.
    TooLarge,
    /// The exchange ended before the request had come whole.
    Incomplete,
    /// As many mirrored requests as there may be were on their way, or connections were short.
    TooMany,
    /// It names no host (HTTP/1.0 only).
    NoHost,
    /// It asks for another protocol on its connection.
    Upgrade,
    /// It is a copy itself.
    Copy,
    /// The backend has no endpoint to pick.
    NoEndpoint,
    /// The idle connection it was put on had been closed by the endpoint.
    StaleConnection,
}

label!(Unmirrored {
    TooLarge = "too-large",
    Incomplete = "incomplete",
    TooMany = "too-many",
    NoHost = "no-host",
    Upgrade = "upgrade",
    Copy = "copy",
    NoEndpoint = "no-endpoint",
    StaleConnection = "stale-connection",
});

/// How a relayed TCP connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// Both sides sent all they had to send.
    Finished,
    /// The client broke off.
    ClientReset,
    /// The endpoint broke off.
    EndpointReset,
    /// Nothing moved for too long.
    Idle,
    /// Nothing moved when a stop was waiting for it.
    Drained,
    /// No PROXY header came, or none that can be read.
    NoHeader,
    /// Nothing to pick.
    NoEndpoint,
    /// No connection to any endpoint that was tried.
    NoConnection,
    /// This host had no descriptor, port or memory left for a connection.
    HostExhausted,
}

label!(LinkEnd {
    Finished = "finished",
    ClientReset = "client-reset",
    EndpointReset = "endpoint-reset",
    Idle = "idle",
    Drained = "drained",
    NoHeader = "no-header",
    NoEndpoint = "no-endpoint",
    NoConnection = "no-connection",
    HostExhausted = "host-exhausted",
});

label!(Method { P2c = "p2c", Affinity = "affinity", Rejected = "rejected" });

label!(Unbound { EvaluationError = "evaluation_error", WrongType = "wrong_type", Empty = "empty" });

label!(Undecided { EvaluationError = "evaluation_error", WrongType = "wrong_type" });

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::fmt::Debug;

    fn assert_places_and_names_are_distinct<L: Label + Debug>() {
        let mut names = HashSet::new();
        for (place, label) in L::ALL.iter().enumerate() {
            assert_eq!(label.place(), place, "{label:?}");
            assert!(names.insert(label.name()), "{label:?}");
        }
    }

    #[test]
    fn every_label_value_has_a_cell_and_a_name_of_its_own() {
        assert_places_and_names_are_distinct::<ResponseClass>();
        assert_places_and_names_are_distinct::<LocalCause>();
        assert_places_and_names_are_distinct::<RetryReason>();
        assert_places_and_names_are_distinct::<Unrepeatable>();
        assert_places_and_names_are_distinct::<RateLimitHint>();
        assert_places_and_names_are_distinct::<EjectionReason>();
        assert_places_and_names_are_distinct::<Detour>();
        assert_places_and_names_are_distinct::<Unmirrored>();
        assert_places_and_names_are_distinct::<LinkEnd>();
        assert_places_and_names_are_distinct::<Method>();
        assert_places_and_names_are_distinct::<Unbound>();
        assert_places_and_names_are_distinct::<Undecided>();
    }

    #[test]
    fn any_status_has_a_class() {
        let classes =
            [100, 204, 304, 429, 503, 999].map(|status| ResponseClass::of_status(status).name());
        assert_eq!(classes, ["1xx", "2xx", "3xx", "4xx", "5xx", "5xx"]);
    }
}

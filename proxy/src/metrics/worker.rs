//! The counters of one worker. The worker holds them in an `Arc` and is their only writer; whoever scrapes sums over
//! workers.

use super::counter::{Counter, CounterOf, Gauge, Label};
use crate::affinity::Unbound;
use crate::balance::Method;
use crate::condition::Undecided;

/// Everything one worker counts. Figures of single endpoints are not here: they lie in the shared tables.
#[derive(Debug, Default)]
pub struct WorkerCounters {
    /// Client connections accepted and kept.
    pub downstream_accepted: Counter,
    /// Client connections turned away before a byte was read.
    pub downstream_refused: Counter,
    /// Client connections beyond the budget, accepted only to be told so.
    pub downstream_shed: Counter,
    /// Times accepting rested because there was no room for another client.
    pub accept_rested: Counter,
    pub downstream_active: Gauge,
    /// Bytes received from clients.
    pub downstream_bytes_in: Counter,
    /// Bytes sent to clients.
    pub downstream_bytes_out: Counter,

    /// Connections to endpoints begun.
    pub upstream_opened: Counter,
    /// Of those, the ones that never stood.
    pub upstream_connect_failed: Counter,
    /// Attempts that found an idle connection.
    pub upstream_reused: Counter,
    /// Idle connections to endpoints closed to make room for others.
    pub upstream_evicted: Counter,
    pub upstream_active: Gauge,
    /// Bytes received from endpoints.
    pub upstream_bytes_in: Counter,
    /// Bytes sent to endpoints.
    pub upstream_bytes_out: Counter,
    /// Requests sent again because the idle connection they were put on had died.
    pub stale_retries: Counter,
    /// Further attempts at requests, by what became of the one before.
    pub retries: CounterOf<RetryReason>,
    /// Requests that were not tried again because of the retry budget.
    pub retries_over_budget: Counter,

    /// Requests whose head was read.
    pub requests: Counter,
    /// Final responses sent, ours included.
    pub responses: CounterOf<ResponseClass>,
    /// Responses we made ourselves, by cause.
    pub local_replies: CounterOf<LocalCause>,
    /// Requests whose client went away before the response ended.
    pub client_cancelled: Counter,

    /// Picks, by how they were decided.
    pub selections: CounterOf<Method>,
    /// Requests without a usable affinity value, where one was wanted.
    pub unbound: CounterOf<Unbound>,
    /// Ejections that did not happen because too many of the backend were out already.
    pub ejections_prevented: Counter,
    /// Responses the backend's condition said nothing of.
    pub undecided: CounterOf<Undecided>,
    /// Picks that found nothing.
    pub no_endpoint: Counter,
    /// Response heads timed by the kernel.
    pub kernel_samples: Counter,
    /// Response heads timed by the worker's clock, because the kernel had no sample of the exchange.
    pub worker_samples: Counter,

    /// Records for the access log that found no room.
    pub access_log_dropped: Counter,

    /// Connections the ring holds, downstream and upstream, those that are being closed included.
    pub ring_connections: Gauge,
    /// Receive buffers in use.
    pub ring_buffers: Gauge,
    /// Receives that found no buffer.
    pub buffers_exhausted: Counter,
    /// Connections that could not be accepted for want of descriptors or memory.
    pub accept_failed: Counter,
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

impl Label for ResponseClass {
    const ALL: &'static [Self] = &[
        Self::Informational,
        Self::Success,
        Self::Redirection,
        Self::ClientError,
        Self::ServerError,
    ];

    fn place(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::Informational => "1xx",
            Self::Success => "2xx",
            Self::Redirection => "3xx",
            Self::ClientError => "4xx",
            Self::ServerError => "5xx",
        }
    }
}

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

impl Label for LocalCause {
    const ALL: &'static [Self] = &[
        Self::BadRequest,
        Self::UriTooLong,
        Self::HeadTooLarge,
        Self::RequestTimeout,
        Self::Redirect,
        Self::NoRoute,
        Self::NoBackend,
        Self::ConnectFailed,
        Self::UpstreamBroke,
        Self::NoEndpoint,
        Self::Shed,
        Self::UpstreamTimeout,
    ];

    fn place(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::BadRequest => "bad-request",
            Self::UriTooLong => "uri-too-long",
            Self::HeadTooLarge => "head-too-large",
            Self::RequestTimeout => "request-timeout",
            Self::Redirect => "redirect",
            Self::NoRoute => "no-route",
            Self::NoBackend => "no-backend",
            Self::ConnectFailed => "connect-failed",
            Self::UpstreamBroke => "upstream-broke",
            Self::NoEndpoint => "no-endpoint",
            Self::Shed => "shed",
            Self::UpstreamTimeout => "upstream-timeout",
        }
    }
}

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

impl Label for RetryReason {
    const ALL: &'static [Self] = &[
        Self::NoConnection,
        Self::NoResponse,
        Self::Timeout,
        Self::Status,
    ];

    fn place(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::NoConnection => "no-connection",
            Self::NoResponse => "no-response",
            Self::Timeout => "timeout",
            Self::Status => "status",
        }
    }
}

impl Label for Method {
    const ALL: &'static [Self] = &[Self::P2c, Self::Affinity, Self::Rejected];

    fn place(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::P2c => "p2c",
            Self::Affinity => "affinity",
            Self::Rejected => "rejected",
        }
    }
}

impl Label for Unbound {
    const ALL: &'static [Self] = &[Self::EvaluationError, Self::WrongType, Self::Empty];

    fn place(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::EvaluationError => "evaluation_error",
            Self::WrongType => "wrong_type",
            Self::Empty => "empty",
        }
    }
}

impl Label for Undecided {
    const ALL: &'static [Self] = &[Self::EvaluationError, Self::WrongType];

    fn place(self) -> usize {
        self as usize
    }

    fn name(self) -> &'static str {
        match self {
            Self::EvaluationError => "evaluation_error",
            Self::WrongType => "wrong_type",
        }
    }
}

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

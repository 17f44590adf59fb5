//! How long anything may take, and how large it may be.

use std::time::Duration;

use crate::http::h1::HeadLimits;
use crate::moment::Moment;

#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// For a connection to an endpoint to stand.
    pub connect: Duration,
    /// From the last byte of a request to the first of its response.
    pub first_byte: Duration,
    /// For a whole request head, from its first byte.
    pub head: Duration,
    /// Between the requests of a client.
    pub idle: Duration,
    /// Without progress of a body, in either direction.
    pub stall: Duration,
    /// Without a byte through a tunnel, in either direction.
    pub tunnel: Duration,
    /// For an idle connection to an endpoint.
    pub upstream_idle: Duration,
    /// For a client to read the last response before its connection is closed; for what a mirror says after the head.
    pub linger: Duration,
    /// For a client that was not told that its connection ends to send one more request.
    pub grace: Duration,
    pub limits: HeadLimits,
    /// Time since 1970 at moment zero: what dates in messages are made of, and compared with.
    pub unix_at_zero: Duration,
    /// Client connections of one worker that are served.
    pub max_downstreams: usize,
    /// Clients beyond those, taken in only to be told so; with them accepting rests.
    pub max_shed: usize,
    /// Connections of one worker to endpoints. Beyond, idle ones make room, the one idle for longest first.
    pub max_upstreams: usize,
    /// Copies of requests one worker has on their way to mirrors, those still being received included.
    pub max_mirrored: usize,
}

impl Settings {
    /// The date, as time since 1970.
    pub fn since_1970(&self, now: Moment) -> Duration {
        self.unix_at_zero + Duration::from_nanos(now.as_nanos())
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(60),
            head: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            stall: Duration::from_secs(60),
            tunnel: Duration::from_secs(3600),
            upstream_idle: Duration::from_secs(30),
            linger: Duration::from_secs(2),
            grace: Duration::from_secs(1),
            limits: HeadLimits::default(),
            unix_at_zero: Duration::ZERO,
            max_downstreams: 8192,
            max_shed: 64,
            max_upstreams: 8192,
            max_mirrored: 256,
        }
    }
}

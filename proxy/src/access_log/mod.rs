//! One record for each exchange, and each relayed connection: what was asked, who answered, what came of it. Workers fill
//! records and hand them to a
//! [`Sink`]; writing them down is [`runtime::access_log`](crate::runtime::access_log)'s.

mod line;
mod text;

pub use line::{WallClock, write_line};
pub use text::Text;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::moment::Moment;

/// One exchange. Of fixed size: what is longer is cut, and says so.
#[derive(Clone, Debug)]
pub struct Record {
    /// Its head had come whole.
    pub begun: Moment,
    /// The last byte of its response was handed on, or it was given up.
    pub ended: Moment,
    pub client: IpAddr,
    /// What it speaks, if it is not HTTP: then nothing is known of requests.
    pub protocol: Option<&'static str>,
    pub method: Text<16>,
    /// As the request spells it; empty if it does not.
    pub host: Text<64>,
    /// Without its query, which may hold what is nobody's business.
    pub path: Text<160>,
    /// The client's `x-request-id`; empty if it has none.
    pub request_id: Text<48>,
    /// As namespace and name; empty if none was found.
    pub backend: Text<64>,
    /// Where the last attempt went.
    pub endpoint: Option<SocketAddr>,
    pub attempts: u32,
    /// What the client was told; `None` if it left before.
    pub status: Option<u16>,
    /// From the client, the head included.
    pub bytes_in: u64,
    /// To the client, the head included.
    pub bytes_out: u64,
    /// How long it took for a relayed connection to the endpoint to stand.
    pub connect: Option<Duration>,
    /// Of the endpoint, as the balancer learned it.
    pub first_byte: Option<Duration>,
    /// Why there was no whole response of an endpoint.
    pub error: Option<&'static str>,
}

impl Record {
    /// An exchange of which nothing is known yet.
    pub fn new(client: IpAddr, begun: Moment) -> Self {
        Self {
            begun,
            ended: begun,
            client,
            protocol: None,
            method: Text::default(),
            host: Text::default(),
            path: Text::default(),
            request_id: Text::default(),
            backend: Text::default(),
            endpoint: None,
            attempts: 0,
            status: None,
            bytes_in: 0,
            bytes_out: 0,
            connect: None,
            first_byte: None,
            error: None,
        }
    }
}

/// Takes records. It never waits: without room a record is dropped and counted.
pub trait Sink: Send {
    fn put(&mut self, record: &Record);
}

//! How long requests of a rule may take.

use std::time::Duration;

/// Beside the limits that hold for all. Unset: as long as those allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timeouts {
    /// From the whole head of a request to the end of its response, all tries together.
    pub request: Option<Duration>,
    /// For one try, from its start to the end of the response.
    pub backend_request: Option<Duration>,
}

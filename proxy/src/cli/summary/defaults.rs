//! What holds where neither documents nor flags say anything.

use std::time::Duration;

use super::backends::{ejection, retry_budget};
use crate::balance::HealthPolicy;
use crate::cli::table;
use crate::exchange::Settings;
use crate::relay;
use crate::route::{Retry, RetryBudget};
use crate::runtime::server::{DEFAULT_CAPACITY, DEFAULT_DRAIN};

pub fn text() -> String {
    let Settings {
        connect,
        first_byte,
        head,
        idle,
        stall,
        tunnel,
        max_mirrored,
        upstream_idle,
        linger,
        grace,
        limits,
        ..
    } = Settings::default();
    let relay = relay::Settings::default();
    let length = |length: Duration| format!("{length:?}");
    let tries = Retry::DEFAULT_ATTEMPTS + 1;
    let lines = [
        ["DEFAULT", "VALUE", "SET BY"].map(str::to_owned),
        line(
            "connect to an endpoint",
            length(connect),
            "--connect-timeout",
        ),
        line(
            "first byte of a response",
            length(first_byte),
            "--first-byte-timeout",
        ),
        line("head of a request", length(head), "--head-timeout"),
        line(
            "between requests of a client",
            length(idle),
            "--idle-timeout",
        ),
        line("progress of a body", length(stall), ""),
        line("byte through a tunnel", length(tunnel), ""),
        line("idle connection to an endpoint", length(upstream_idle), ""),
        line("client that reads no more", length(linger), ""),
        line(
            "byte of a TCP connection",
            length(relay.idle),
            "--l4-idle-timeout",
        ),
        line("PROXY header, where wanted", length(relay.header), ""),
        line("size of a head", format!("{} B", limits.head), ""),
        line("fields of a head", limits.fields.to_string(), ""),
        line("size of a request target", format!("{} B", limits.uri), ""),
        line(
            "tries of a request",
            format!("{tries}, if no connection stands"),
            "",
        ),
        line(
            "copies for mirrors on their way",
            format!("{max_mirrored} a worker"),
            "",
        ),
        line(
            "retries of what was delivered",
            retry_budget(RetryBudget::default()),
            "retryBudget",
        ),
        line("pick", "the better of two draws by weight", "scoring"),
        line("latency of an endpoint", "to the first byte", "latency"),
        line(
            "unhealthy",
            "status from 500 on, or no response",
            "unhealthyCondition",
        ),
        line("ejection", ejection(&HealthPolicy::default()), "health"),
        line("affinity", "none", "sessionAffinity"),
        line("bounded load", "none", "boundedLoad"),
        line("check of endpoints", "none", "activeCheck"),
        line(
            "nearness of endpoints",
            "plays no part",
            "trafficDistribution",
        ),
        line(
            "endpoints at one time",
            format!("{DEFAULT_CAPACITY}, or twice those at the start"),
            "--max-endpoints",
        ),
        line(
            "what is in flight at a stop",
            format!("{:?}", DEFAULT_DRAIN),
            "--drain-timeout",
        ),
        line("another request at a stop", length(grace), ""),
        line("address of a Gateway", "0.0.0.0", "spec.addresses"),
        line("weight of a backendRef", "1", "weight"),
        line("weight of an endpoint", "1", "weir.dev/weight"),
    ];
    table::align(&lines)
}

fn line(what: &str, value: impl Into<String>, set_by: &str) -> [String; 3] {
    [what.to_owned(), value.into(), set_by.to_owned()]
}

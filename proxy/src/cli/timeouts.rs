//! How long anything may take, as flags.

use std::time::Duration;

use clap::Args;

use super::length;

/// How long anything may take.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Timeouts, as 500ms, 5s, 2m or 1h")]
pub struct Timeouts {
    /// For a connection to an endpoint to stand; then 504
    #[arg(
        id = "connect-timeout",
        long = "connect-timeout",
        allow_hyphen_values = true,
        value_name = "LENGTH",
        env = "WEIR_CONNECT_TIMEOUT",
        default_value = "5s",
        value_parser = length::parse
    )]
    pub connect: Duration,

    /// From the last byte of a request to the first of its response; then 504
    #[arg(
        id = "first-byte-timeout",
        long = "first-byte-timeout",
        allow_hyphen_values = true,
        value_name = "LENGTH",
        env = "WEIR_FIRST_BYTE_TIMEOUT",
        default_value = "60s",
        value_parser = length::parse
    )]
    pub first_byte: Duration,

    /// For a client to send its next request on an open connection
    #[arg(
        id = "idle-timeout",
        long = "idle-timeout",
        allow_hyphen_values = true,
        value_name = "LENGTH",
        env = "WEIR_IDLE_TIMEOUT",
        default_value = "75s",
        value_parser = length::parse
    )]
    pub idle: Duration,

    /// For a byte in either direction of a connection of a TCP listener
    #[arg(
        id = "l4-idle-timeout",
        long = "l4-idle-timeout",
        allow_hyphen_values = true,
        value_name = "LENGTH",
        env = "WEIR_L4_IDLE_TIMEOUT",
        default_value = "10m",
        value_parser = length::parse
    )]
    pub l4_idle: Duration,

    /// For the whole head of a request to arrive; then 408
    #[arg(
        id = "head-timeout",
        long = "head-timeout",
        allow_hyphen_values = true,
        value_name = "LENGTH",
        env = "WEIR_HEAD_TIMEOUT",
        default_value = "30s",
        value_parser = length::parse
    )]
    pub head: Duration,

    /// For what is in flight when the proxy is stopped; then it ends whatever runs
    #[arg(
        id = "drain-timeout",
        long = "drain-timeout",
        value_name = "LENGTH",
        env = "WEIR_DRAIN_TIMEOUT",
        default_value = "10s",
        value_parser = length::parse
    )]
    pub drain: Duration,
}

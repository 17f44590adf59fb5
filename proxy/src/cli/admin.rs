//! Where a running proxy answers its operators, as flags.

use std::net::SocketAddr;

use clap::Args;

use super::address;
use crate::runtime::admin::AdminAddresses;

/// Where the proxy answers questions about itself.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Addresses for operators")]
pub struct AdminArguments {
    /// Address of /config_dump, /healthz and /quitquitquit, or off
    #[arg(
        long,
        value_name = "ADDR|off",
        env = "WEIR_ADMIN",
        default_value = "127.0.0.1:15000",
        value_parser = parse_surface
    )]
    admin: Surface,

    /// Address of /metrics for Prometheus, or off
    #[arg(
        long,
        value_name = "ADDR|off",
        env = "WEIR_METRICS",
        default_value = "127.0.0.1:15020",
        value_parser = parse_surface
    )]
    metrics: Surface,

    /// Address of /healthz/ready, or off
    #[arg(
        long,
        value_name = "ADDR|off",
        env = "WEIR_READINESS",
        default_value = "127.0.0.1:15021",
        value_parser = parse_surface
    )]
    readiness: Surface,
}

/// An address that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Surface(Option<SocketAddr>);

impl AdminArguments {
    pub fn addresses(&self) -> AdminAddresses {
        AdminAddresses {
            admin: self.admin.0,
            metrics: self.metrics.0,
            readiness: self.readiness.0,
        }
    }
}

fn parse_surface(text: &str) -> Result<Surface, String> {
    if text == "off" {
        return Ok(Surface(None));
    }
    address::parse(text)
        .map(|address| Surface(Some(address)))
        .map_err(|error| format!("{error}; or off"))
}

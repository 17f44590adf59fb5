//! The values of flags, read from text. What is wrong with one is said so that it fits behind the name of the flag.

use std::net::SocketAddr;
use std::num::NonZeroUsize;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use super::address::{self, AddressError};
use crate::affinity::{Affinity, CompileError};
use crate::runtime::access_log::LogTarget;

pub fn listen(text: &str) -> Result<SocketAddr, String> {
    address::parse(text).map_err(|error| match error {
        AddressError::Empty => {
            "is empty; write one like 0.0.0.0:8080, and unset WEIR_LISTEN if it comes from there"
                .into()
        }
        AddressError::AddressMissing => {
            "has no address in front of the port; write one like 0.0.0.0:8080 or [::]:8080".into()
        }
        error => error.to_string(),
    })
}

pub fn access_log(text: &str) -> Result<LogTarget, String> {
    match text {
        "" => Err("names no file".to_owned()),
        "-" => Ok(LogTarget::Stdout),
        path => Ok(LogTarget::File(path.into())),
    }
}

pub fn affinity(text: &str) -> Result<Affinity, CompileError> {
    Affinity::compile(text)
}

pub fn workers(text: &str) -> Result<NonZeroUsize, String> {
    const MOST: usize = 1024;
    text.parse()
        .ok()
        .filter(|workers: &NonZeroUsize| workers.get() <= MOST)
        .ok_or_else(|| format!("not a number from 1 to {MOST}"))
}

pub fn max_endpoints(text: &str) -> Result<NonZeroUsize, String> {
    const MOST: usize = 1 << 20;
    text.parse()
        .ok()
        .filter(|endpoints: &NonZeroUsize| endpoints.get() <= MOST)
        .ok_or_else(|| format!("not a number from 1 to {MOST}"))
}

/// As the kernel names interfaces: 1 to 15 bytes, no slash, no colon, no space.
pub fn interface(text: &str) -> Result<String, String> {
    let is_forbidden = |character: char| character.is_whitespace() || "/:".contains(character);
    if text.is_empty() || text.len() > 15 || text.contains(is_forbidden) {
        return Err("not the name of an interface; `ip link` lists them".into());
    }
    Ok(text.to_owned())
}

/// Part of paths in the BPF file system.
pub fn instance(text: &str) -> Result<String, String> {
    let is_allowed =
        |character: char| character.is_ascii_alphanumeric() || "-_".contains(character);
    if text.is_empty() || text.len() > 63 || !text.chars().all(is_allowed) {
        return Err("not a name of 1 to 63 letters, digits, hyphens and underscores".into());
    }
    Ok(text.to_owned())
}

/// A bare word that is no level would be taken for the name of a module, and nothing be logged.
pub fn log(text: &str) -> Result<String, String> {
    let is_level = text.parse::<LevelFilter>().is_ok();
    let is_filter = text.contains('=') && EnvFilter::try_new(text).is_ok();
    if is_level || is_filter {
        Ok(text.to_owned())
    } else {
        Err("neither off, error, warn, info, debug or trace nor filters such as weir::balance=debug,info".into())
    }
}

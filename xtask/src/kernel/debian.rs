//! Debian's packages of the kernel toolchain.

use anyhow::{Context, Result};

use super::compiler::RUSTUP_COMMAND;
use crate::packages::apt_get;

/// A compiler with a prebuilt `core` for the bpf target.
pub const COMPILER: [&str; 2] = ["rustc-web", "libstd-rust-web-dev-bpf"];

/// What bpf-linker is built against.
pub fn llvm(major: u32) -> [String; 4] {
    [
        format!("llvm-{major}-dev"),
        format!("libpolly-{major}-dev"),
        "zlib1g-dev".to_owned(),
        "libzstd-dev".to_owned(),
    ]
}

pub fn install(packages: &[impl AsRef<str>]) -> Result<()> {
    let names: Vec<&str> = packages.iter().map(AsRef::as_ref).collect();
    let by_hand = format!(
        "as root: apt-get update && apt-get install {}\nWhere this Debian does not have them, use rustup: {}",
        names.join(" "),
        RUSTUP_COMMAND,
    );
    apt_get(names).context(by_hand)
}

//! The tests of `rendezvous` on a processor of another kind: proxies agree on an endpoint only if ARM computes the same
//! bits as x86. Linked by the linker that comes with Rust, against a C library that comes with the target, and run by
//! QEMU: one package and one target are all that is installed.

use std::process::Command;

use anyhow::{Result, bail};

use crate::command::{cargo, repository, run};
use crate::packages::{Wanted, install, is_installed};

const TARGET: &str = "aarch64-unknown-linux-musl";
const QEMU: Wanted = Wanted::tool(
    "qemu-aarch64",
    "qemu-user",
    "which runs programs for ARM processors",
);

/// What runs them; `None` where this is such a processor already. An error says what is missing.
pub fn tests() -> Result<Option<Command>> {
    if cfg!(target_arch = "aarch64") {
        return Ok(None);
    }
    install(&[QEMU])?;
    if !is_installed(QEMU.program) {
        bail!("needs {}", QEMU.program);
    }
    if !is_installed("rustup") {
        bail!("needs rustup, for Rust's library for {TARGET}");
    }
    run(Command::new("rustup")
        .args(["target", "add", TARGET])
        .current_dir(repository()))?;
    let mut tests = cargo();
    tests
        .args(["test", "--package", "weir-rendezvous", "--target", TARGET])
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER", "rust-lld")
        .env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER",
            QEMU.program,
        );
    Ok(Some(tests))
}

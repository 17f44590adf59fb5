//! Root, only for the step that needs it: attaching kernel programs, making network namespaces and installing packages.
//! Building never does.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

use anyhow::{Result, bail};

/// Whether this process may do everything.
pub fn is_root() -> bool {
    // The files of a process in /proc belong to its effective user.
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A command that will run as root: as it is for root, through sudo for others. `purpose` tells them why.
pub fn as_root(program: impl AsRef<OsStr>, purpose: &str) -> Result<Command> {
    if is_root() {
        return Ok(Command::new(program));
    }
    let sudo = sudo(purpose)?;
    let mut command = Command::new(sudo[0]);
    command.args(&sudo[1..]).arg(program);
    Ok(command)
}

/// What to put before a command line so that it runs as root with our environment; says that it asks, and what for.
pub fn sudo(purpose: &str) -> Result<[&'static str; 2]> {
    let known = Command::new("sudo").arg("--version").output();
    if !known.is_ok_and(|answer| answer.status.success()) {
        bail!("{purpose} needs root, and there is no sudo here: run this verb as root");
    }
    eprintln!("not root: asking sudo, because {purpose} needs root");
    Ok(["sudo", "--preserve-env"])
}

/// Has cargo run as root what it builds; building itself goes on without.
pub fn run_as_root(cargo: &mut Command, purpose: &str) -> Result<()> {
    if is_root() {
        return Ok(());
    }
    let sudo = sudo(purpose)?.join(" ");
    for processor in ["X86_64", "AARCH64"] {
        let runner = format!("CARGO_TARGET_{processor}_UNKNOWN_LINUX_GNU_RUNNER");
        cargo.env(runner, &sudo);
    }
    Ok(())
}

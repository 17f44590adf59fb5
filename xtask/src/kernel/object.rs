//! Builds the kernel object: the file the proxy embeds.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::Toolchain;
use super::compiler::TARGET;
use crate::command::{line, repository};

/// Builds the kernel programs and returns the object, `target/kernel/weir-ebpf.o`. Under a minute the first time, a
/// fraction of a second when nothing changed; the file is only touched when its bytes change.
pub fn build_object(toolchain: &Toolchain) -> Result<PathBuf> {
    let start = Instant::now();
    let folder = repository().join("target/bpf");
    let mut command = build(toolchain, &folder);
    let shown = line(&command);
    let output = command
        .output()
        .with_context(|| format!("cannot run `{shown}`"))?;
    let messages = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let hint = if messages.contains("Producer:") && messages.contains("Reader") {
            "\nbpf-linker's LLVM is older than the compiler's: both must be of one major version"
        } else {
            ""
        };
        bail!("`{shown}` failed: {}\n{messages}{hint}", output.status);
    }
    // Warnings of a compiler that succeeded.
    eprint!("{messages}");

    let built = folder.join(TARGET).join("release/weir-ebpf");
    let object = repository().join("target/kernel/weir-ebpf.o");
    if place(&built, &object)? {
        eprintln!(
            "built the kernel programs with {}, {:.1} s: {}",
            toolchain.compiler.name(),
            start.elapsed().as_secs_f64(),
            object.display()
        );
    }
    Ok(object)
}

fn build(toolchain: &Toolchain, folder: &Path) -> Command {
    let mut linker = std::ffi::OsString::from("linker=");
    linker.push(&toolchain.linker.path);
    // Between flags stands the unit separator, so that a space in a path does no harm.
    let mut flags = std::ffi::OsString::from("-C\x1f");
    flags.push(linker);
    for flag in ["debuginfo=2", "target-cpu=v3", "link-arg=--btf"] {
        flags.push("\x1f-C\x1f");
        flags.push(flag);
    }
    // Headers lie at odd places in a frame. Without this a word of theirs is read byte by byte, which costs time, and
    // more of the stack than there is. LLVM knows it since 22; the kernels of x86-64 and AArch64 take it.
    if toolchain.compiler.llvm >= 22 {
        flags.push("\x1f-C\x1flink-arg=--cpu-features=+allows-misaligned-mem-access");
    }

    let mut command = toolchain.compiler.cargo();
    command
        .args(["build", "--release", "--locked", "--quiet"])
        .args(["--package", "weir-ebpf", "--target", TARGET])
        .args(toolchain.compiler.build_flags())
        .arg("--target-dir")
        .arg(folder)
        .env("CARGO_ENCODED_RUSTFLAGS", flags);
    command
}

/// Puts the object in its place whole, if it differs from what is there; says whether it did.
fn place(built: &Path, object: &Path) -> Result<bool> {
    let bytes = std::fs::read(built).with_context(|| format!("cannot read {}", built.display()))?;
    if std::fs::read(object).is_ok_and(|there| there == bytes) {
        return Ok(false);
    }
    let folder = object.parent().expect("the object lies in a folder");
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let draft = object.with_extension("draft");
    std::fs::write(&draft, bytes).with_context(|| format!("cannot write {}", draft.display()))?;
    std::fs::rename(&draft, object)
        .with_context(|| format!("cannot write {}", object.display()))?;
    Ok(true)
}

//! The kernel side of a build: what compiles and links for the bpf target, and the object it makes of `ebpf/`.
//!
//! Two compilers will do. Debian's `rustc-web` comes with a prebuilt `core` for the target and needs neither nightly
//! nor rust-src; elsewhere a rustup nightly builds `core` itself. Both hand bitcode to bpf-linker, whose LLVM must be
//! of the compiler's major version.

mod compiler;
mod debian;
mod linker;
mod object;

use anyhow::{Result, bail};

use crate::packages::is_installed;
use compiler::Compiler;
use linker::Linker;

pub use object::build_object;

/// A compiler for the bpf target and a linker that reads what it writes.
pub struct Toolchain {
    compiler: Compiler,
    linker: Linker,
}

/// Finds the toolchain, and on Debian installs what is missing of it: about two minutes, once. Elsewhere the error
/// lists the commands that do.
pub fn ensure_toolchain() -> Result<Toolchain> {
    let compiler = match Compiler::find() {
        Some(compiler) => compiler,
        None => install_compiler()?,
    };
    let linker = match Linker::find(compiler.llvm) {
        Some(linker) => linker,
        None => install_linker(compiler.llvm)?,
    };
    linker.check_llvm(&compiler)?;
    Ok(Toolchain { compiler, linker })
}

fn install_compiler() -> Result<Compiler> {
    if is_installed("apt-get") {
        eprintln!(
            "kernel programs need a compiler for the bpf target: installing Debian's rustc-web beside the rustc you \
             have, about 100 MB and half a minute, once"
        );
        debian::install(&debian::COMPILER)?;
        if let Some(compiler) = Compiler::find() {
            return Ok(compiler);
        }
    }
    bail!(
        "no compiler for the bpf target. This one will do:\n\n  {}\n\nthen run the verb again",
        compiler::RUSTUP_COMMAND
    )
}

fn install_linker(llvm: u32) -> Result<Linker> {
    if !linker::has_llvm(llvm) && is_installed("apt-get") {
        eprintln!(
            "bpf-linker needs LLVM {llvm}: installing its development files, about 100 MB and half a minute, once"
        );
        debian::install(&debian::llvm(llvm))?;
    }
    if linker::has_llvm(llvm) {
        return linker::build(llvm);
    }
    bail!(
        "no bpf-linker that reads what LLVM {llvm} writes. Either install LLVM {llvm} with its headers (Fedora: dnf \
         install llvm-devel libffi-devel; Arch: pacman -S llvm), then\n\n  {}\n\nor take a release from \
         https://github.com/aya-rs/bpf-linker/releases that was built with LLVM {llvm}, put it on the PATH, and run \
         the verb again",
        linker::install_command(llvm)
    )
}

//! Finds a compiler for the bpf target.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{cargo, repository};

/// The bpf target of little-endian machines, which are all we know.
pub const TARGET: &str = "bpfel-unknown-none";

/// What brings a compiler where Debian's is not to be had.
pub const RUSTUP_COMMAND: &str = "rustup toolchain install nightly --component rust-src";

/// A compiler for the bpf target.
pub struct Compiler {
    /// Major version of its LLVM.
    pub llvm: u32,
    kind: Kind,
}

enum Kind {
    /// A stable compiler with a prebuilt `core`.
    Prebuilt { rustc: PathBuf },
    /// A rustup nightly that builds `core` from rust-src.
    Nightly,
}

impl Compiler {
    /// The distribution's compiler if it knows the target, otherwise rustup's nightly if it has rust-src.
    pub fn find() -> Option<Self> {
        Self::prebuilt(Path::new("/usr/bin/rustc")).or_else(Self::nightly)
    }

    fn prebuilt(rustc: &Path) -> Option<Self> {
        let ask = || clean(Command::new(rustc));
        let libraries = answer(ask().args(["--print", "target-libdir", "--target", TARGET]))?;
        let mut libraries = Path::new(libraries.trim()).read_dir().ok()?.flatten();
        if !libraries.any(|library| {
            library
                .file_name()
                .as_encoded_bytes()
                .starts_with(b"libcore")
        }) {
            return None;
        }
        Some(Self {
            llvm: llvm_major(&answer(ask().arg("-vV"))?)?,
            kind: Kind::Prebuilt {
                rustc: rustc.into(),
            },
        })
    }

    fn nightly() -> Option<Self> {
        let ask = || nightly("rustc");
        let sysroot = answer(ask().args(["--print", "sysroot"]))?;
        let core = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/core");
        if !core.is_dir() {
            return None;
        }
        Some(Self {
            llvm: llvm_major(&answer(ask().arg("-vV"))?)?,
            kind: Kind::Nightly,
        })
    }

    /// A cargo that builds with this compiler, at the top of the repository.
    pub fn cargo(&self) -> Command {
        match &self.kind {
            Kind::Prebuilt { rustc } => {
                let mut command = clean(cargo());
                command.env("RUSTC", rustc);
                // The target is a known one, but its ABI and the intrinsics the programs use are not stable.
                command.env("RUSTC_BOOTSTRAP", "1");
                command
            }
            Kind::Nightly => {
                let mut command = nightly("cargo");
                command.current_dir(repository());
                command
            }
        }
    }

    /// Flags of `cargo build` that only this compiler needs.
    pub fn build_flags(&self) -> &'static [&'static str] {
        match self.kind {
            Kind::Prebuilt { .. } => &[],
            Kind::Nightly => &["-Z", "build-std=core"],
        }
    }

    /// What a person would call it.
    pub fn name(&self) -> String {
        match &self.kind {
            Kind::Prebuilt { rustc } => rustc.display().to_string(),
            Kind::Nightly => "rustup's nightly".to_owned(),
        }
    }
}

fn nightly(program: &str) -> Command {
    let mut command = clean(Command::new("rustup"));
    command.args(["run", "nightly", program]);
    command
}

/// The cargo that runs this verb, and the shell around it, say which compiler, flags and folders their own build uses.
/// None of that is meant for the build of another target by another compiler.
pub fn clean(mut command: Command) -> Command {
    let of_the_outer_build = |name: &OsString| {
        let name = name.to_string_lossy();
        ["RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN", "CARGO"].contains(&&*name)
            || [
                "RUSTC_",
                "CARGO_BUILD_",
                "CARGO_ENCODED_",
                "CARGO_PROFILE_",
                "CARGO_TARGET_",
            ]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| of_the_outer_build(name)) {
        command.env_remove(name);
    }
    command
}

/// What a program prints when it succeeds.
pub fn answer(command: &mut Command) -> Option<String> {
    let output = command.output().ok()?;
    let success = output.status.success();
    success.then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads the line `LLVM version: 22.1.8` of `rustc -vV`.
fn llvm_major(version: &str) -> Option<u32> {
    let mut lines = version.lines();
    let llvm = lines.find_map(|line| line.strip_prefix("LLVM version: "))?;
    llvm.split('.').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_llvm_major_is_read_from_the_verbose_version() {
        let version =
            "rustc 1.96.0 (ac68faa20 2026-05-25)\nrelease: 1.96.0\nLLVM version: 22.1.8\n";
        assert_eq!(llvm_major(version), Some(22));
        assert_eq!(llvm_major("rustc 1.96.0\n"), None);
        assert_eq!(llvm_major("LLVM version: unknown\n"), None);
    }
}

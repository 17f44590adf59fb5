//! Finds or builds bpf-linker.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::compiler::{Compiler, answer, clean};
use crate::command::{cargo, line, repository, run};

const VERSION: &str = "0.13.0";

/// A bpf-linker.
pub struct Linker {
    pub path: PathBuf,
    /// Major version of its LLVM; unknown for one that was linked statically by somebody else.
    llvm: Option<u32>,
}

impl Linker {
    /// The one we built against this LLVM, otherwise the first on the PATH.
    pub fn find(llvm: u32) -> Option<Self> {
        let ours = root(llvm).join("bin/bpf-linker");
        if ours.is_file() {
            return Some(Self {
                path: ours,
                llvm: Some(llvm),
            });
        }
        let path = std::env::var_os("PATH")?;
        let mut candidates = std::env::split_paths(&path).map(|folder| folder.join("bpf-linker"));
        let path = candidates.find(|candidate| candidate.is_file())?;
        let shared_objects = answer(Command::new("ldd").arg(&path));
        let linker = Self {
            llvm: shared_objects.as_deref().and_then(llvm_of_shared_objects),
            path,
        };
        // Another LLVM than asked for: with luck the right one can be built beside it.
        (linker.llvm.is_none_or(|have| have == llvm) || !has_llvm(llvm)).then_some(linker)
    }

    /// Fails early, in words, where the linker itself would end with an unreadable attribute.
    pub fn check_llvm(&self, compiler: &Compiler) -> Result<()> {
        match self.llvm {
            Some(llvm) if llvm != compiler.llvm => bail!(
                "{} was built with LLVM {llvm}, but {} writes bitcode of LLVM {}: they must be of one major version. \
                 With LLVM {2} installed, `{}` makes one that fits",
                self.path.display(),
                compiler.name(),
                compiler.llvm,
                install_command(compiler.llvm),
            ),
            _ => Ok(()),
        }
    }
}

/// Whether bpf-linker can be built against this LLVM here.
pub fn has_llvm(major: u32) -> bool {
    prefix(major).join("include/llvm-c/Core.h").is_file()
}

/// Builds a bpf-linker for this LLVM inside the target folder; nothing of the user's is touched.
pub fn build(llvm: u32) -> Result<Linker> {
    eprintln!("building bpf-linker {VERSION} against LLVM {llvm}: a minute or two, once");
    run(&mut install(llvm)).with_context(|| format!("cannot build bpf-linker {VERSION}"))?;
    Ok(Linker {
        path: root(llvm).join("bin/bpf-linker"),
        llvm: Some(llvm),
    })
}

/// The command that makes a bpf-linker for this LLVM, as a person would type it.
pub fn install_command(llvm: u32) -> String {
    format!(
        "LLVM_PREFIX={} {}",
        prefix(llvm).display(),
        line(&install(llvm))
    )
}

fn install(llvm: u32) -> Command {
    let mut command = clean(cargo());
    command
        .args([
            "install",
            "bpf-linker",
            "--version",
            VERSION,
            "--locked",
            "--quiet",
        ])
        .args(["--no-default-features", "--features"])
        .arg(format!("llvm-{llvm}"))
        .arg("--root")
        .arg(root(llvm))
        .env("LLVM_PREFIX", prefix(llvm));
    command
}

/// Where ours lies: one a major version, so that a newer compiler gets a newer linker.
fn root(llvm: u32) -> PathBuf {
    repository().join(format!("target/tools/llvm-{llvm}"))
}

fn prefix(llvm: u32) -> PathBuf {
    let debian = format!("/usr/lib/llvm-{llvm}");
    if Path::new(&debian).is_dir() {
        return debian.into();
    }
    // Elsewhere the unversioned LLVM may be of the right version: ask it.
    match answer(Command::new("llvm-config").arg("--version")) {
        Some(version) if version.starts_with(&format!("{llvm}.")) => "/usr".into(),
        _ => debian.into(),
    }
}

/// Reads `libLLVM.so.22.1 => ...`, or `libLLVM-22.so`, in what ldd prints.
fn llvm_of_shared_objects(text: &str) -> Option<u32> {
    let (_, name) = text.split_once("libLLVM")?;
    let name = name
        .trim_start_matches(".so")
        .trim_start_matches(['.', '-']);
    let digits = name.find(|letter: char| !letter.is_ascii_digit())?;
    name[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_llvm_of_a_shared_linker_is_read_from_its_library() {
        let debian = "\tlibLLVM.so.22.1 => /usr/lib/llvm-22/lib/libLLVM.so.22.1 (0x7f)\n";
        assert_eq!(llvm_of_shared_objects(debian), Some(22));
        assert_eq!(
            llvm_of_shared_objects("\tlibLLVM-21.so => /usr/lib64\n"),
            Some(21)
        );
        assert_eq!(llvm_of_shared_objects("\tstatically linked\n"), None);
    }
}

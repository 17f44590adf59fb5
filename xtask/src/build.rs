//! `build`: the kernel object, then the release binary that carries it.

use std::path::PathBuf;

use anyhow::Result;

use crate::command::{cargo, run, target};

pub fn build() -> Result<()> {
    let weir = release(&["--package", "weir", "--bin", "weir"])?.join("weir");
    eprintln!("built {}", weir.display());
    Ok(())
}

/// Builds what `selection` names in release mode and returns the folder it lies in.
pub fn release(selection: &[&str]) -> Result<PathBuf> {
    run(cargo().args(["build", "--release"]).args(selection))?;
    Ok(target().join("release"))
}

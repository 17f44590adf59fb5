//! `build`: the kernel object (`build --kernel` stops there), then the release binary that carries it.

use std::path::PathBuf;

use anyhow::Result;

use crate::command::{cargo, run, target};
use crate::kernel::{build_object, ensure_toolchain};

pub fn build() -> Result<()> {
    kernel()?;
    let weir = release(&["--package", "weir", "--bin", "weir"])?.join("weir");
    eprintln!("built {}", weir.display());
    Ok(())
}

/// Builds the kernel object alone, having found or installed the toolchain it takes.
pub fn kernel() -> Result<()> {
    let object = build_object(&ensure_toolchain()?)?;
    eprintln!("kernel programs are at {}", object.display());
    Ok(())
}

/// Builds what `selection` names in release mode and returns the folder it lies in.
pub fn release(selection: &[&str]) -> Result<PathBuf> {
    run(cargo().args(["build", "--release"]).args(selection))?;
    Ok(target().join("release"))
}

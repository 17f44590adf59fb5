//! `sim`: builds the simulator, an example of the proxy's crate, and runs it at the top of the repository.

use std::process::Command;

use anyhow::Result;

use crate::build::release;
use crate::command::{repository, run};

#[derive(clap::Args)]
pub struct Arguments {
    /// Arguments of the simulator.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    simulator: Vec<String>,
}

pub fn sim(arguments: Arguments) -> Result<()> {
    let built = release(&["--package", "weir", "--example", "sim"])?;
    let mut sim = Command::new(built.join("examples/sim"));
    run(sim.current_dir(repository()).args(arguments.simulator))
}

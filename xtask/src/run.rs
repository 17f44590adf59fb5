//! `run`: the demo in network namespaces, or - with arguments after `--` - the real binary on this host.

use std::os::unix::process::CommandExt;

use anyhow::{Result, anyhow};

use crate::build::{build, release};
use crate::command::{line, target};
use crate::packages::{DEMO, install};
use crate::privilege::as_root;

#[derive(clap::Args)]
pub struct Arguments {
    /// End the demo after this long, for example 15s; without it, Ctrl-C ends it.
    #[arg(long = "for", value_name = "TIME")]
    length: Option<String>,
    /// Print one last table instead of one that refreshes in place.
    #[arg(long)]
    plain: bool,
    /// Arguments for the real binary: it runs on this host instead of the demo.
    #[arg(last = true, value_name = "WEIR ARGUMENTS")]
    weir: Vec<String>,
}

pub fn run(arguments: Arguments) -> Result<()> {
    build()?;
    if !arguments.weir.is_empty() {
        let mut weir = as_root(
            target().join("release/weir"),
            "attaching kernel programs to interfaces",
        )?;
        return Err(replace_by(weir.args(&arguments.weir)));
    }
    install(DEMO)?;
    let demo = release(&["--package", "weir-tests", "--bin", "demo"])?.join("demo");
    let mut demo = as_root(demo, "making network namespaces")?;
    demo.arg("--weir").arg(target().join("release/weir"));
    if let Some(length) = &arguments.length {
        demo.args(["--for", length]);
    }
    if arguments.plain {
        demo.arg("--plain");
    }
    Err(replace_by(&mut demo))
}

/// Signals and the exit status then are the program's own. Returns only if that fails.
fn replace_by(command: &mut std::process::Command) -> anyhow::Error {
    let error = command.exec();
    anyhow!(error).context(format!("cannot run `{}`", line(command)))
}

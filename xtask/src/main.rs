//! The verbs of this repository, `cargo xtask <verb>`: one file a verb. They call cargo and the programs it built, and
//! import nothing of the workspace, so that they work while everything else is broken.

mod bench;
mod build;
mod ci;
mod command;
mod emulated;
mod kernel;
mod packages;
mod privilege;
mod run;
mod setup;
mod sim;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Sets up, builds, runs, measures and checks Weir.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Install what building and testing need, and say what and why.
    Setup,
    /// Build the kernel programs and the release binary: target/release/weir.
    Build {
        /// Only the kernel programs: target/kernel/weir-ebpf.o.
        #[arg(long)]
        kernel: bool,
    },
    /// Show Weir at work in network namespaces, or run the real binary: cargo xtask run -- run --listen ...
    Run(run::Arguments),
    /// Run every test: unit, property, and end to end in network namespaces.
    Test(test::Arguments),
    /// Measure Weir beside nginx, HAProxy and a plain relay.
    Bench(bench::Arguments),
    /// Put the balancer and textbook policies through slow, failing and joining endpoints: cargo xtask sim --help.
    #[command(disable_help_flag = true)]
    Sim(sim::Arguments),
    /// Check the rules of the tree: imports, sizes, unsafe code, links.
    Tidy,
    /// All that a change must pass: formatting, lints, tree, tests.
    Ci,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().verb {
        Verb::Setup => setup::setup(),
        Verb::Build { kernel: true } => build::kernel(),
        Verb::Build { kernel: false } => build::build(),
        Verb::Run(arguments) => run::run(arguments),
        Verb::Test(arguments) => test::test(arguments),
        Verb::Bench(arguments) => bench::bench(arguments),
        Verb::Sim(arguments) => sim::sim(arguments),
        Verb::Tidy => tidy::tidy(),
        Verb::Ci => ci::ci(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

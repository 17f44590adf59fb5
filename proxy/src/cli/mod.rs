//! The command line: what can be asked, checked so far that nothing else need look at text. Every flag has a twin in the
//! environment, and `--help` is the manual.

mod address;
mod admin;
mod backends;
mod check;
mod detach;
mod explain;
mod length;
mod locality;
mod run;
mod summary;
mod table;
mod target;
#[cfg(test)]
mod tests;
mod timeouts;
mod value;
mod xdp;

pub use backends::{BackendsError, BackendsOptions};
pub use check::{CheckOptions, Report};
pub use detach::{DetachError, DetachOptions};
pub use explain::{ExplainError, ExplainOptions};
pub use run::RunOptions;
pub use timeouts::Timeouts;

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use run::Origin;

/// What to do.
#[derive(Debug)]
pub enum Command {
    Run(Box<RunOptions>),
    Check(Box<CheckOptions>),
    Backends(BackendsOptions),
    Detach(DetachOptions),
    Explain(ExplainOptions),
}

/// Reads the command line of this process. Ends it with the help, the version or a usage error where there is no
/// command to carry out.
pub fn parse() -> Command {
    parse_from(std::env::args_os()).unwrap_or_else(|error| error.exit())
}

/// Reads a command line, the program's name first.
pub fn parse_from(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
    let matches = Cli::command().try_get_matches_from(arguments)?;
    match Cli::from_arg_matches(&matches)?.verb {
        Verb::Run(mut options) => {
            let run = matches.subcommand_matches("run");
            let origin = |flag: &str| match run.and_then(|run| run.value_source(flag)) {
                Some(ValueSource::CommandLine) => Origin::Flag,
                Some(ValueSource::EnvVariable) => Origin::Variable,
                _ => Origin::Nowhere,
            };
            match options.settle(origin) {
                Ok(()) => Ok(Command::Run(options)),
                Err(problem) => {
                    let mut run = RunOptions::augment_args(clap::Command::new("weir run"));
                    Err(run.error(ErrorKind::ValueValidation, problem))
                }
            }
        }
        Verb::Check(options) => Ok(Command::Check(options)),
        Verb::Detach(options) => Ok(Command::Detach(options)),
        Verb::Explain(options) => Ok(Command::Explain(options)),
        Verb::Proxy(ProxyArguments {
            verb: ProxyVerb::Config(ConfigArguments { verb }),
        }) => match verb {
            ConfigVerb::Backends(options) => Ok(Command::Backends(options)),
        },
    }
}

/// Weir: a load-balancing data plane for Linux hosts.
///
/// Every request goes to the better of two endpoints drawn at random: the healthier, faster, less busy one. How fast an
/// endpoint is, eBPF programs measure on the wire.
#[derive(Debug, Parser)]
#[command(name = "weir", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Run(Box<RunOptions>),
    Check(Box<CheckOptions>),
    Explain(ExplainOptions),
    Proxy(ProxyArguments),
    Detach(DetachOptions),
}

/// Ask a running proxy.
#[derive(Debug, Args)]
struct ProxyArguments {
    #[command(subcommand)]
    verb: ProxyVerb,
}

#[derive(Debug, Subcommand)]
enum ProxyVerb {
    Config(ConfigArguments),
}

/// What a running proxy is configured with, and what it knows.
#[derive(Debug, Args)]
struct ConfigArguments {
    #[command(subcommand)]
    verb: ConfigVerb,
}

#[derive(Debug, Subcommand)]
enum ConfigVerb {
    Backends(BackendsOptions),
}

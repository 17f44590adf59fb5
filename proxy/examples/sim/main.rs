//! The simulator: Weir's real balancer and textbook policies are put through the same courses of events under a virtual
//! clock. `cargo xtask sim` prints a table for each scenario and writes figures, curves and shares to `target/sim`.
//!
//! One seed, one result: arrivals and work are drawn before any policy looks at them, so that all policies are given the
//! same requests.

mod agenda;
mod endpoint;
mod histogram;
mod plot;
mod policy;
mod record;
mod report;
mod run;
mod scenario;
#[cfg(test)]
mod tests;
mod world;

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

use crate::run::{Ejection, Run};
use crate::scenario::Scenario;

/// Put Weir's balancer and textbook policies through the same events, under a virtual clock.
///
/// Prints a table for each scenario, and writes its curves (SVG) and all its figures (text) to the folder --out.
#[derive(Parser)]
#[command(
    name = "cargo xtask sim",
    bin_name = "cargo xtask sim",
    after_help = "\
Examples:
  cargo xtask sim
  cargo xtask sim --scenario slow --policy seed,peak-ewma
  cargo xtask sim --scenario failing --ejection off --seed 7"
)]
struct Arguments {
    /// What happens; may be given several times [default: every scenario]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    scenario: Vec<scenario::Name>,

    /// Who decides; may be given several times [default: every policy]
    #[arg(long, value_enum, value_name = "NAME", value_delimiter = ',')]
    policy: Vec<policy::Name>,

    /// Whether endpoints that keep failing are ejected: after five failures in a row, for 3 s, then 6 s, 9 s ...
    #[arg(long, value_enum, default_value = "both")]
    ejection: EjectionChoice,

    /// Of everything random: the same seed gives the same run
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Virtual length of each scenario, its phases stretched alike [default: what the scenario says]
    #[arg(long, value_name = "N", value_parser = parse_seconds)]
    seconds: Option<Duration>,

    /// Requests, as the part of all servers they keep busy while all endpoints are well [default: what the scenario says]
    #[arg(long, value_name = "PART", value_parser = parse_load)]
    load: Option<f64>,

    /// Folder for curves and figures
    #[arg(long, value_name = "DIR", default_value = "target/sim")]
    out: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum EjectionChoice {
    On,
    Off,
    Both,
}

fn main() -> io::Result<()> {
    let arguments = Arguments::parse();
    std::fs::create_dir_all(&arguments.out)?;
    println!("seed {}", arguments.seed);
    for name in or_all(&arguments.scenario, scenario::Name::value_variants()) {
        let mut scenario = Scenario::of(name);
        if let Some(length) = arguments.seconds {
            scenario = scenario.lasting(length);
        }
        if let Some(load) = arguments.load {
            scenario = scenario.loaded(load);
        }
        let runs = run::play_all(&runs(&arguments, &scenario), &scenario, arguments.seed);
        print!("\n{}", report::summary(&scenario, &runs));
        report::write(&arguments.out, &scenario, &runs)?;
        plot::write(&arguments.out, &scenario, &runs)?;
    }
    println!("\ncurves and all figures: {}", arguments.out.display());
    Ok(())
}

/// Every policy asked for, with ejection as asked for. Where nothing fails, once is enough.
fn runs(arguments: &Arguments, scenario: &Scenario) -> Vec<Run> {
    let ejections: &[Ejection] = match arguments.ejection {
        EjectionChoice::On => &[Ejection::On],
        EjectionChoice::Off => &[Ejection::Off],
        EjectionChoice::Both if !scenario.may_fail => &[Ejection::On],
        EjectionChoice::Both => &[Ejection::On, Ejection::Off],
    };
    let policies = or_all(&arguments.policy, policy::Name::value_variants());
    let runs = ejections.iter().flat_map(|ejection| {
        policies.iter().map(|policy| Run {
            policy: *policy,
            ejection: *ejection,
        })
    });
    runs.collect()
}

fn or_all<T: Copy>(chosen: &[T], all: &[T]) -> Vec<T> {
    if chosen.is_empty() { all } else { chosen }.to_vec()
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse()
        .ok()
        .filter(|seconds| (1.0..=1e6).contains(seconds))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "not a number from 1 to 1000000".into())
}

fn parse_load(text: &str) -> Result<f64, String> {
    text.parse()
        .ok()
        .filter(|load| (0.0001..1.0).contains(load))
        .ok_or_else(|| "not a part such as 0.5: from 0.0001 to below 1".into())
}

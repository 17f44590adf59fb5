//! The measuring rig: HTTP proxies side by side, one worker each, on this machine's loopback. `cargo xtask bench http`
//! builds and starts it. `cargo xtask bench l4` is about connections (`l4`).
//!
//! What makes its figures comparable: every contender is started afresh for each round; rounds of the contenders
//! alternate, so that a change of the machine's mood meets all of them; the primary figure is the run time of the
//! contender's own threads per request, which does not depend on how fast the machine happens to be scheduled; and a
//! round in which other work took part of a core is done again, or named if it cannot be avoided.

mod contender;
mod figures;
mod l4;
mod memory;
mod network;
mod report;
mod round;
mod steering;
mod usage;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use contender::{Contender, Programs};
use figures::{Outcome, Subject};
use network::Network;
use report::Report;
use round::{Plan, Setting};
use weir_tests::load::Pace;

#[derive(Parser)]
#[command(name = "bench", about = "Measures proxies side by side")]
struct Arguments {
    #[command(subcommand)]
    subject: Command,
}

#[derive(Subcommand)]
enum Command {
    /// HTTP/1.1: CPU per request, rate, latency at half load, large bodies, memory of idle clients.
    Http(Http),
    /// Connections of TCP: run time and rate of L4 proxies, what a transfer takes, and a soak that checks every byte.
    L4(l4::Arguments),
    /// Which worker new connections come to while one is held up, with steering and without.
    Steering(steering::Arguments),
}

#[derive(clap::Args)]
struct Http {
    #[command(flatten)]
    programs: Programs,
    /// Where the result goes as JSON, and configurations of the others.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Who takes part.
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Contender::Weir, Contender::Relay, Contender::Nginx, Contender::Haproxy])]
    contenders: Vec<Contender>,
    /// What is measured.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Subject::USUAL)]
    subjects: Vec<Subject>,
    /// Only what kernel programs cost a request: Weir with them and without, in turn.
    #[arg(long, conflicts_with_all = ["subjects", "contenders"])]
    ebpf_cost: bool,
    /// Requests a second at half load, where peers were not measured to tell.
    #[arg(long)]
    rate: Option<f64>,
    /// Rounds of each contender.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds a round records.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Connections of the load.
    #[arg(long, default_value_t = 64)]
    connections: usize,
    /// Two rounds of one second: good enough to see a large difference.
    #[arg(long)]
    quick: bool,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().subject {
        Command::Http(arguments) => run(arguments),
        Command::L4(arguments) => l4::run(arguments),
        Command::Steering(arguments) => steering::run(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(mut arguments: Http) -> Result<()> {
    if arguments.quick {
        arguments.rounds = 2;
        arguments.seconds = 1.0;
    }
    if arguments.ebpf_cost {
        arguments.subjects = vec![Subject::EbpfCost];
        arguments.contenders = vec![Contender::Weir, Contender::WeirWithoutBpf];
    }
    std::fs::create_dir_all(&arguments.out)
        .with_context(|| format!("cannot make {}", arguments.out.display()))?;
    // The contenders may take relative paths otherwise than we do.
    arguments.out = arguments.out.canonicalize().context("just made")?;
    arguments.programs.keep_configuration_in(&arguments.out);

    let mut report = Report::new(&arguments.contenders);
    println!("{}", report.machine());
    for subject in arguments.subjects.clone() {
        measure(subject, &arguments, &mut report)?;
        report.print(subject);
    }
    let file = arguments.out.join("http.json");
    report.write(&file)?;
    println!("every round: {}", file.display());
    Ok(())
}

fn measure(subject: Subject, arguments: &Http, report: &mut Report) -> Result<()> {
    let plan = |setting, path, connections, pace| Plan {
        setting,
        path,
        connections,
        pace,
        warm_up: Duration::from_millis(400),
        length: Duration::from_secs_f64(arguments.seconds),
    };
    let small = "/small";
    let many = arguments.connections;
    let plan = match subject {
        Subject::SmallSplit => plan(Setting::Split, small, many, Pace::AsAnswered),
        Subject::SmallShared => plan(Setting::Shared, small, many, Pace::AsAnswered),
        Subject::LargeSplit => plan(Setting::Split, "/body", many.min(32), Pace::AsAnswered),
        Subject::HalfLoad => {
            let Some(rate) = arguments.rate.or_else(|| report.half_of_the_slower_peer()) else {
                eprintln!(
                    "half load is half of what nginx or HAProxy can do: measure small-split with them first, or give a rate"
                );
                return Ok(());
            };
            plan(Setting::Split, small, many, Pace::PerSecond(rate))
        }
        Subject::EbpfCost => plan(Setting::Shared, small, many, Pace::AsAnswered),
        Subject::Memory => return measure_memory(arguments, report),
    };
    let network = match subject {
        Subject::EbpfCost => Network::apart()?,
        _ => Network::Loopback,
    };
    for round in 0..arguments.rounds {
        for &contender in &arguments.contenders {
            say(subject, round, contender);
            let outcome = round::undisturbed(contender, &arguments.programs, &network, &plan)
                .with_context(|| format!("measuring {}", contender.name()))?;
            report.add(subject, contender, Outcome::Round(outcome));
        }
    }
    Ok(())
}

fn measure_memory(arguments: &Http, report: &mut Report) -> Result<()> {
    for round in 0..arguments.rounds.min(3) {
        for &contender in &arguments.contenders {
            say(Subject::Memory, round, contender);
            let memory = memory::measure(contender, &arguments.programs)
                .with_context(|| format!("measuring the memory of {}", contender.name()))?;
            report.add(Subject::Memory, contender, Outcome::Memory(memory));
        }
    }
    Ok(())
}

fn say(subject: Subject, round: usize, contender: Contender) {
    eprintln!(
        "{}, round {}: {}",
        subject.name(),
        round + 1,
        contender.name()
    );
}

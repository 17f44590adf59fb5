//! Connections side by side: made, a few bytes there and back, closed; and one long one. Client, contender and endpoints are
//! hosts of their own, joined by veth pairs, all on one core, so that no wake-up crosses cores and whatever the kernel does
//! for a packet is done in the time of somebody we look at.
//!
//! What a connection takes is the run time of all: client, endpoints, contender, and the kernel's thread for packets. What
//! it takes without a contender, through a mere router, is measured alike; the difference is the contender's, whether its
//! process does the work or the kernel on its behalf.

mod contender;
mod hosts;
mod measure;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;

use contender::Contender;
use hosts::Hosts;
use measure::{Bulk, Connections, Plan};

#[derive(clap::Args)]
pub struct Arguments {
    /// The weir binary.
    #[arg(long)]
    weir: PathBuf,
    /// Where configurations of the others go.
    #[arg(long, default_value = "target/bench")]
    out: PathBuf,
    /// Who takes part.
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Contender::ALL)]
    contenders: Vec<Contender>,
    /// What is measured.
    #[arg(long, value_delimiter = ',', value_enum,
          default_values_t = [Subject::Connections, Subject::Bulk])]
    subjects: Vec<Subject>,
    /// Rounds of each contender.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Seconds a round records.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Connections at a time.
    #[arg(long, default_value_t = 32)]
    at_once: usize,
    /// In place of rounds: this many connections of each contender, every byte of which must be right.
    #[arg(long, value_name = "CONNECTIONS")]
    soak: Option<u64>,
    /// One round of one second.
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Subject {
    /// What a connection takes.
    Connections,
    /// What a transfer takes.
    Bulk,
}

pub fn run(mut arguments: Arguments) -> Result<()> {
    if arguments.quick {
        arguments.rounds = 1;
        arguments.seconds = 1.0;
    }
    std::fs::create_dir_all(&arguments.out)?;
    arguments.out = arguments.out.canonicalize().context("just made")?;
    println!("IPVS: {}", ipvs());
    let hosts = Hosts::new()?;
    // For short connections it makes no difference to anybody.
    hosts.offload(false)?;
    if let Some(connections) = arguments.soak {
        return soak(&arguments, &hosts, connections);
    }
    for &subject in &arguments.subjects {
        match subject {
            Subject::Connections => connections(&arguments, &hosts)?,
            Subject::Bulk => bulk(&arguments, &hosts)?,
        }
    }
    Ok(())
}

/// Whether the kernel has what would be the nearest of all peers. What it takes is not measured.
fn ipvs() -> &'static str {
    let _ = std::process::Command::new("modprobe")
        .args(["-q", "ip_vs"])
        .status();
    match std::path::Path::new("/proc/net/ip_vs").exists() {
        true => "this kernel has it; it is not among the contenders yet",
        false => "this kernel does not have it",
    }
}

fn connections(arguments: &Arguments, hosts: &Hosts) -> Result<()> {
    let plan = Plan {
        at_once: arguments.at_once,
        warm_up: Duration::from_millis(300),
        length: Duration::from_secs_f64(arguments.seconds),
        most: u64::MAX,
    };
    let mut rounds = BTreeMap::<Contender, Vec<Connections>>::new();
    for round in 0..arguments.rounds {
        for &contender in &arguments.contenders {
            eprintln!("connections, round {}: {}", round + 1, contender.name());
            let running = contender.start(arguments, hosts)?;
            let measured = measure::connections(hosts, &running, &plan);
            let measured = measured.with_context(|| format!("measuring {}", contender.name()))?;
            if measured.wrong > 0 || measured.failed > measured.complete / 1000 {
                bail!(
                    "{}: of {} connections {} failed and {} were answered wrongly\n{}",
                    contender.name(),
                    measured.complete,
                    measured.failed,
                    measured.wrong,
                    running.output()
                );
            }
            rounds.entry(contender).or_default().push(measured);
        }
    }
    let median = |contender: Contender, of: fn(&Connections) -> f64| {
        middle(rounds.get(&contender)?.iter().map(of).collect())
    };
    let router = median(Contender::Router, |round| round.all_us);
    let haproxy = median(Contender::Haproxy, |round| round.all_us).zip(router);
    println!(
        "\na connection: connect, 64 bytes there and back, close; median of {} rounds",
        arguments.rounds
    );
    println!(
        "{:<14}{:>10}{:>12}{:>12}{:>14}{:>12}{:>10}{:>10}{:>9}",
        "",
        "PER SECOND",
        "ALL us",
        "PROCESS us",
        "OVER ROUTER",
        "TO HAPROXY",
        "P50 us",
        "P99 us",
        "FAILED"
    );
    for &contender in &arguments.contenders {
        let Some(all) = median(contender, |round| round.all_us) else {
            continue;
        };
        let figure = |of| median(contender, of).unwrap_or(f64::NAN);
        let over = router.map_or(f64::NAN, |router| all - router);
        let ratio = haproxy.map_or(f64::NAN, |(haproxy, router)| over / (haproxy - router));
        let failed: u64 = rounds[&contender].iter().map(|round| round.failed).sum();
        println!(
            "{:<14}{:>10.0}{:>12.1}{:>12.1}{:>14.1}{:>12.2}{:>10.0}{:>10.0}{:>9}",
            contender.name(),
            figure(|round| round.per_second),
            all,
            figure(|round| round.process_us),
            over,
            ratio,
            figure(|round| round.p50_us),
            figure(|round| round.p99_us),
            failed
        );
    }
    Ok(())
}

fn bulk(arguments: &Arguments, hosts: &Hosts) -> Result<()> {
    let mut rounds = BTreeMap::<Contender, Vec<Bulk>>::new();
    let length = Duration::from_secs_f64(arguments.seconds);
    let all: Vec<Contender> = arguments
        .contenders
        .iter()
        .copied()
        .chain(Contender::ON_THE_WAY)
        .collect();
    for round in 0..arguments.rounds {
        for &contender in &all {
            eprintln!("bulk, round {}: {}", round + 1, contender.name());
            hosts.offload(contender.takes_offload())?;
            let running = contender.start(arguments, hosts)?;
            let measured = measure::bulk(hosts, &running, length);
            let measured = measured.with_context(|| format!("measuring {}", contender.name()))?;
            rounds.entry(contender).or_default().push(measured);
        }
    }
    println!(
        "\none connection, bytes to the endpoint; median of {} rounds",
        arguments.rounds
    );
    println!("{:<26}{:>10}{:>14}", "", "Gbit/s", "ns per KiB");
    for contender in all {
        let figure = |of: fn(&Bulk) -> f64| {
            middle(rounds[&contender].iter().map(of).collect()).unwrap_or(f64::NAN)
        };
        let note = match contender.takes_offload() {
            true => "",
            false => "  without segmentation offload",
        };
        println!(
            "{:<26}{:>10.2}{:>14.0}{note}",
            contender.name(),
            figure(|round| round.gigabits),
            figure(|round| round.ns_per_kib)
        );
    }
    Ok(())
}

fn soak(arguments: &Arguments, hosts: &Hosts, connections: u64) -> Result<()> {
    let plan = Plan {
        at_once: arguments.at_once,
        warm_up: Duration::ZERO,
        length: Duration::from_secs(3600),
        most: connections,
    };
    for &contender in &arguments.contenders {
        let running = contender.start(arguments, hosts)?;
        let measured = measure::connections(hosts, &running, &plan)?;
        println!(
            "{}: {} connections right, {} failed, {} wrong, {:.0} a second",
            contender.name(),
            measured.complete,
            measured.failed,
            measured.wrong,
            measured.per_second
        );
        if measured.wrong > 0 || measured.failed > 0 {
            let failures = measured.failures.join(", ");
            bail!("not all were right: {failures}\n{}", running.output());
        }
    }
    Ok(())
}

fn middle(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

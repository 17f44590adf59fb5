//! Which worker new connections come to while one of two is held up for 200 of every 400 ms: by load, as `pick_worker`
//! chooses, and by the kernel's hash. Rounds alternate.

use std::path::PathBuf;

use anyhow::Result;
use weir_tests::skew::{Came, hold_up, two_workers};
use weir_tests::weir::Ebpf;

#[derive(clap::Args)]
pub struct Arguments {
    /// The weir binary.
    #[arg(long)]
    weir: PathBuf,
    /// Rounds of each, of four seconds.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
}

pub fn run(arguments: &Arguments) -> Result<()> {
    let ways = [
        ("pick_worker", Ebpf::Required),
        ("kernel's hash", Ebpf::Off),
    ];
    let mut rounds = [const { Vec::<Came>::new() }; 2];
    for round in 0..arguments.rounds {
        for ((name, ebpf), rounds) in ways.iter().zip(&mut rounds) {
            let came = hold_up(&two_workers(*ebpf, Some(arguments.weir.clone()))?)?;
            eprintln!("round {}: {name}, {came:?}", round + 1);
            rounds.push(came);
        }
    }
    println!("new connections that came while a worker was held up, and had to wait for it");
    println!("{:<16}{:>8}{:>9}{:>9}", "", "BEST", "MIDDLE", "WORST");
    for ((name, _), rounds) in ways.iter().zip(&mut rounds) {
        rounds.sort_by(|one, other| one.share().total_cmp(&other.share()));
        let percent = |place: usize| {
            rounds
                .get(place)
                .map_or(f64::NAN, |came| came.share() * 100.0)
        };
        let last = rounds.len().saturating_sub(1);
        println!(
            "{name:<16}{:>7.1}%{:>8.1}%{:>8.1}%",
            percent(0),
            percent(rounds.len() / 2),
            percent(last)
        );
    }
    Ok(())
}

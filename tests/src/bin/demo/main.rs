//! The demo: a client, the proxy's host and four endpoints in network namespaces of their own, Weir on the proxy's
//! host with kernel programs on its interfaces, load, and a table in which traffic leaves the slow and the flaky
//! endpoint. `cargo xtask run` builds and starts it; all it makes is gone when it ends.

mod scene;
mod table;

use std::io::{IsTerminal, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use clap::Parser;
use weir_tests::leftovers::{Interrupts, subscribe_to_interrupts, sweep};

use scene::Scene;
use table::Table;

/// Shows Weir at work in network namespaces.
#[derive(Parser)]
#[command(name = "demo")]
struct Arguments {
    /// The weir binary.
    #[arg(long)]
    weir: PathBuf,
    /// End after this long: 15s, 2m, 800ms; without it, Ctrl-C ends it.
    #[arg(long = "for", value_parser = parse_length)]
    length: Option<Duration>,
    /// Print one last table instead of one that refreshes in place.
    #[arg(long)]
    plain: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "making network namespaces needs root"
    );
    let interrupts = subscribe_to_interrupts();
    let left = sweep();
    if left > 0 {
        eprintln!("removed {left} namespaces an earlier run left behind");
    }
    let mut scene = Scene::start(&arguments.weir)?;
    let is_live = !arguments.plain && stdout().is_terminal();
    let last = watch(&mut scene, arguments, interrupts, is_live)?;
    let load = scene.stop()?;

    if !is_live {
        print!("{last}");
    }
    println!(
        "{} requests, {} answered with a failure, {} connections broken; namespaces and processes are removed",
        load.responses, load.failures, load.broken
    );
    match last.judge() {
        Ok(verdict) => println!("{verdict}"),
        Err(problem) => bail!("not what was to be seen: {problem}"),
    }
    ensure!(load.broken == 0, "connections of the client broke");
    Ok(())
}

/// Reads and, on a terminal, shows the table until the time is over. Returns the last one.
fn watch(
    scene: &mut Scene,
    arguments: &Arguments,
    interrupts: Interrupts,
    is_live: bool,
) -> Result<Table> {
    const REFRESH: Duration = Duration::from_millis(500);
    let start = Instant::now();
    let end = arguments.length.map(|length| start + length);
    if !is_live {
        let until = match arguments.length {
            Some(length) => format!("for {} s", length.as_secs_f64()),
            None => "until Ctrl-C".to_owned(),
        };
        eprintln!("load runs {until}; the table comes at the end");
    }
    let mut shown_lines = 0;
    loop {
        let table = scene.table(start.elapsed())?;
        if is_live {
            let text = table.to_string();
            if shown_lines > 0 {
                // Back to where the last table began, and clear from there.
                print!("\x1b[{shown_lines}A\x1b[J");
            }
            print!("{text}");
            stdout().flush()?;
            shown_lines = text.lines().count();
        }
        let now = Instant::now();
        if interrupts.is_interrupted() || end.is_some_and(|end| now >= end) {
            return Ok(table);
        }
        let next = end.map_or(REFRESH, |end| REFRESH.min(end - now));
        std::thread::sleep(next);
    }
}

fn parse_length(text: &str) -> Result<Duration, String> {
    let split = text
        .find(|letter: char| letter.is_ascii_alphabetic())
        .ok_or("a unit is missing: 15s, 2m, 800ms")?;
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{unit} is not one of ms, s, m, h")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{number} is not a number"))?;
    Duration::try_from_secs_f64(number * seconds).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_need_a_number_and_a_unit() {
        assert_eq!(parse_length("15s"), Ok(Duration::from_secs(15)));
        assert_eq!(parse_length("800ms"), Ok(Duration::from_millis(800)));
        assert_eq!(parse_length("1.5m"), Ok(Duration::from_secs(90)));
        for wrong in ["", "15", "s", "-1s", "15 days"] {
            assert!(parse_length(wrong).is_err(), "{wrong}");
        }
    }
}

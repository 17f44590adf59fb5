//! Figures for people: a table of the phase a policy is judged by, and a file with every phase and every endpoint.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;

use crate::record::{PhaseRecord, Record};
use crate::run::Run;
use crate::scenario::Scenario;

/// The table of one scenario: the judged phase, beside the first one where there are several.
pub fn summary(scenario: &Scenario, runs: &[(Run, Record)]) -> String {
    let mut out = heading(scenario);
    let judged = &scenario.phases[scenario.judged];
    let _ = writeln!(
        out,
        "phase \"{}\", {:.0} s:",
        judged.name,
        judged.length.as_secs_f64()
    );
    let _ = writeln!(
        out,
        "{:<14} {:<8} {} {:>8} {:>8}  {}",
        "POLICY",
        "EJECTION",
        quantile_heads(),
        "ERRORS",
        "MAX/MIN",
        watch_heads(scenario),
    );
    for (run, record) in runs {
        let phase = &record.phases[scenario.judged];
        let _ = writeln!(
            out,
            "{:<14} {:<8} {} {:>8} {:>8}  {}",
            run.policy.label(),
            run.ejection.label(),
            quantiles(phase),
            percent(phase.tally.error_rate()),
            max_to_min(scenario, scenario.judged, phase),
            watch(scenario, record),
        );
    }
    // Columns that are empty for this scenario leave no blanks behind.
    out.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Writes every phase of every run, and how often each endpoint was picked.
pub fn write(folder: &Path, scenario: &Scenario, runs: &[(Run, Record)]) -> io::Result<()> {
    let mut out = heading(scenario);
    for (run, record) in runs {
        let _ = writeln!(
            out,
            "\n{}, ejection {}",
            run.policy.label(),
            run.ejection.label()
        );
        let _ = writeln!(
            out,
            "{:<12} {:>9} {} {:>8} {:>8}  PICKS OF EACH ENDPOINT",
            "PHASE",
            "REQUESTS",
            quantile_heads(),
            "ERRORS",
            "MAX/MIN",
        );
        for (number, (phase, recorded)) in scenario.phases.iter().zip(&record.phases).enumerate() {
            let picks: Vec<String> = recorded.picks.iter().map(u64::to_string).collect();
            let _ = writeln!(
                out,
                "{:<12} {:>9} {} {:>8} {:>8}  {}",
                phase.name,
                recorded.tally.requests,
                quantiles(recorded),
                percent(recorded.tally.error_rate()),
                max_to_min(scenario, number, recorded),
                picks.join(" "),
            );
        }
    }
    fs::write(folder.join(format!("{}.txt", file_name(scenario))), out)
}

/// What the scenario is called on the command line and among files.
pub fn file_name(scenario: &Scenario) -> String {
    let value = scenario.name.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What is simulated, in one line.
pub fn description(scenario: &Scenario) -> String {
    let servers: Vec<usize> = scenario.endpoints.iter().map(|one| one.servers).collect();
    format!(
        "{} requests/s over {} endpoints of {} servers, {} ms a request{}",
        scenario.rate.round(),
        scenario.endpoints.len(),
        servers[0],
        service_times(scenario),
        match scenario.replicas {
            1 => String::new(),
            count => format!(", {count} replicas"),
        },
    )
}

fn service_times(scenario: &Scenario) -> String {
    let services = scenario.endpoints.iter().map(|one| one.service.as_millis());
    let mut services: Vec<u128> = services.collect();
    services.dedup();
    let services: Vec<String> = services.iter().map(u128::to_string).collect();
    services.join(" or ")
}

fn heading(scenario: &Scenario) -> String {
    format!(
        "{}: {}\n{}\n",
        file_name(scenario),
        scenario.title,
        description(scenario)
    )
}

const QUANTILES: [(&str, f64); 4] = [("P50", 0.5), ("P90", 0.9), ("P99", 0.99), ("P99.9", 0.999)];

fn quantile_heads() -> String {
    QUANTILES.map(|(name, _)| format!("{name:>9}")).join(" ")
}

fn quantiles(phase: &PhaseRecord) -> String {
    let cells = QUANTILES.map(|(_, quantile)| {
        let latency = phase.tally.latencies.quantile(quantile);
        format!("{:>9}", latency.map_or_else(|| "-".into(), millis))
    });
    cells.join(" ")
}

fn millis(latency: Duration) -> String {
    let millis = latency.as_secs_f64() * 1e3;
    if millis < 100.0 {
        format!("{millis:.1}ms")
    } else {
        format!("{millis:.0}ms")
    }
}

fn percent(part: f64) -> String {
    format!("{:.2}%", part * 100.0)
}

/// How unevenly members were picked: the most picked over the least picked.
fn max_to_min(scenario: &Scenario, number: usize, phase: &PhaseRecord) -> String {
    let members = &phase.picks[..scenario.members_in(number)];
    match (members.iter().max(), members.iter().min()) {
        (Some(max), Some(min)) if *min > 0 => format!("{:.2}", *max as f64 / *min as f64),
        _ => "-".into(),
    }
}

fn watch_heads(scenario: &Scenario) -> String {
    if scenario.watched.is_empty() {
        return String::new();
    }
    let share = format!("{:>10}", "FAIR SHARE");
    match scenario.turn() {
        Some(_) if scenario.judged > 0 => {
            format!("{share} {:>10} {:>10}", "P99.9 TO 1", "HALF AFTER")
        }
        _ => share,
    }
}

/// What the watched endpoints got of their fair share; the tail beside that of the first phase; and when they had half
/// their fair share again.
fn watch(scenario: &Scenario, record: &Record) -> String {
    if scenario.watched.is_empty() {
        return String::new();
    }
    let phase = &record.phases[scenario.judged].tally;
    let fair = scenario.fair_share(scenario.judged);
    let share = format!(
        "{:>10}",
        format!("{:.1}%", phase.watched_share() / fair * 100.0)
    );
    if scenario.turn().is_none() || scenario.judged == 0 {
        return share;
    }
    let tail = |phase: &PhaseRecord| phase.tally.latencies.quantile(0.999);
    let first = tail(&record.phases[0]);
    let judged = tail(&record.phases[scenario.judged]);
    let ratio = match (first, judged) {
        (Some(first), Some(judged)) => format!("{:.2}", judged.div_duration_f64(first)),
        _ => "-".into(),
    };
    let half = match record.half_share_after(scenario) {
        Some(after) => format!("{:.1}s", after.as_secs_f64()),
        None => "never".into(),
    };
    format!("{share} {ratio:>10} {half:>10}")
}

//! The curves of a scenario, all policies on top of each other: one file for ejection on, one for off.

mod axis;
mod panel;
mod svg;

use std::fs;
use std::io;
use std::path::Path;

use self::axis::Axis;
use self::panel::{Panel, Series};
use self::svg::{Anchor, Drawing, Point, Stroke, Style};
use crate::policy::Name;
use crate::record::{Record, Tally};
use crate::report::{description, file_name};
use crate::run::{Ejection, Run};
use crate::scenario::Scenario;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 24.0;
const HEADER: f64 = 108.0;
/// Height of a chart, and of what stands between two.
const CHART: f64 = 190.0;
const GAP: f64 = 58.0;

/// Writes `<scenario>.svg`, or `<scenario>-no-ejection.svg` for runs without.
pub fn write(folder: &Path, scenario: &Scenario, runs: &[(Run, Record)]) -> io::Result<()> {
    for (ejection, suffix) in [(Ejection::On, ""), (Ejection::Off, "-no-ejection")] {
        let runs = runs.iter().filter(|(run, _)| run.ejection == ejection);
        let runs: Vec<&(Run, Record)> = runs.collect();
        if runs.is_empty() {
            continue;
        }
        let name = format!("{}{suffix}.svg", file_name(scenario));
        fs::write(folder.join(name), draw(scenario, ejection, &runs))?;
    }
    Ok(())
}

fn draw(scenario: &Scenario, ejection: Ejection, runs: &[&(Run, Record)]) -> String {
    // Weir's own lines come first in the legend, and last in a chart: on top.
    let reversed: Vec<&(Run, Record)> = runs.iter().rev().copied().collect();
    let panels = panels(scenario, &reversed);
    let height = HEADER + panels.len() as f64 * (CHART + GAP);
    let mut out = Drawing::new(WIDTH, height);
    header(&mut out, scenario, ejection, runs);
    for (number, panel) in panels.iter().enumerate() {
        let top = HEADER + number as f64 * (CHART + GAP);
        let from = Point { x: LEFT, y: top };
        let to = Point {
            x: WIDTH - RIGHT,
            y: top + CHART,
        };
        panel.draw(&mut out, from, to);
    }
    out.finish()
}

fn panels(scenario: &Scenario, runs: &[&(Run, Record)]) -> Vec<Panel> {
    let latency = |quantile: f64| {
        move |tally: &Tally| {
            let latency = tally.latencies.quantile(quantile)?;
            Some(latency.as_secs_f64() * 1e3)
        }
    };
    let mut panels = vec![
        over_time(
            scenario,
            runs,
            "99th percentile of latency",
            "ms",
            latency(0.99),
        ),
        over_time(scenario, runs, "Median latency", "ms", latency(0.5)),
    ];
    if !scenario.watched.is_empty() {
        let even = scenario.watched.len() as f64 / scenario.endpoints.len() as f64;
        let title = "Requests to the endpoints in question, 100% = an even share";
        let share = |tally: &Tally| Some(tally.watched_share() / even * 100.0);
        panels.push(over_time(scenario, runs, title, "%", share));
    }
    if runs.iter().any(|(_, record)| has_errors(record)) {
        let errors = |tally: &Tally| Some(tally.error_rate() * 100.0);
        panels.push(over_time(scenario, runs, "Failed requests", "%", errors));
    }
    panels.push(shares(scenario, runs));
    panels
}

fn has_errors(record: &Record) -> bool {
    record.windows.iter().any(|tally| tally.errors > 0)
}

/// One figure of every window of time. Latency spans decades, what is a part of something does not.
fn over_time(
    scenario: &Scenario,
    runs: &[&(Run, Record)],
    title: &str,
    unit: &'static str,
    figure: impl Fn(&Tally) -> Option<f64>,
) -> Panel {
    let series: Vec<Series> = runs
        .iter()
        .map(|(run, record)| {
            let window = record.window.as_secs_f64();
            let middles = (0..).map(|number| (f64::from(number) + 0.5) * window);
            series_of(run.policy, middles.zip(record.windows.iter().map(&figure)))
        })
        .collect();
    let values = || series.iter().flat_map(values_of);
    let phases = scenario.starts().into_iter().zip(&scenario.phases);
    let turns = phases.map(|(start, phase)| (start.as_secs_f64(), phase.name));
    Panel {
        title: title.to_owned(),
        x: Axis::spanning(0.0, scenario.length().as_secs_f64()),
        y: if unit == "ms" {
            Axis::logarithmic(values())
        } else {
            Axis::from_zero(values().fold(0.0, f64::max))
        },
        x_unit: " s",
        y_unit: if unit == "ms" { " ms" } else { " %" },
        turns: turns.collect(),
        series,
    }
}

/// How evenly the judged phase was shared: each endpoint's share of the even one, the least picked first.
fn shares(scenario: &Scenario, runs: &[&(Run, Record)]) -> Panel {
    let members = scenario.members_in(scenario.judged);
    let series: Vec<Series> = runs
        .iter()
        .map(|(run, record)| {
            let mut picks = record.phases[scenario.judged].picks[..members].to_vec();
            picks.sort_unstable();
            let even = picks.iter().sum::<u64>().max(1) as f64 / members as f64;
            let last = (members - 1).max(1) as f64;
            let points = picks.iter().enumerate().map(|(rank, picks)| {
                let share = *picks as f64 / even * 100.0;
                (rank as f64 / last * 100.0, Some(share))
            });
            series_of(run.policy, points)
        })
        .collect();
    let highest = series.iter().flat_map(values_of).fold(0.0, f64::max);
    Panel {
        title: format!(
            "Share of each endpoint while \"{}\", the least picked on the left, 100% = an even share",
            scenario.phases[scenario.judged].name
        ),
        x: Axis::spanning(0.0, 100.0),
        y: Axis::from_zero(highest),
        x_unit: " %",
        y_unit: " %",
        turns: Vec::new(),
        series,
    }
}

fn values_of(series: &Series) -> impl Iterator<Item = f64> {
    series.points.iter().filter_map(|(_, y)| *y)
}

fn series_of(policy: Name, points: impl Iterator<Item = (f64, Option<f64>)>) -> Series {
    let (colour, width) = look(policy);
    Series {
        colour,
        width,
        points: points.collect(),
    }
}

/// Weir's own modes stand out.
fn look(policy: Name) -> (&'static str, f64) {
    match policy {
        Name::Seed => ("#0b6bcb", 2.4),
        Name::Adaptive => ("#d64545", 2.4),
        Name::RoundRobin => ("#9aa5b1", 1.3),
        Name::LeastRequest => ("#8d6cab", 1.3),
        Name::P2cPending => ("#e0a100", 1.3),
        Name::PeakEwma => ("#2f9e6e", 1.3),
    }
}

fn header(out: &mut Drawing, scenario: &Scenario, ejection: Ejection, runs: &[&(Run, Record)]) {
    let at = |y: f64| Point { x: 20.0, y };
    let style = |size: f64, colour: &'static str, is_bold: bool| Style {
        size,
        colour,
        anchor: Anchor::Start,
        is_bold,
    };
    out.text(at(28.0), scenario.title, style(17.0, "#1f2933", true));
    let ejection = match ejection {
        Ejection::On => "ejection on",
        Ejection::Off => "ejection off",
    };
    let line = format!("{}; {ejection}", description(scenario));
    out.text(at(47.0), &line, style(12.0, "#52606d", false));
    let mut x = 20.0;
    for (run, _) in runs {
        let (colour, width) = look(run.policy);
        let stroke = Stroke {
            colour,
            width: width + 0.6,
            dashes: "",
        };
        out.path(
            &[
                Point { x, y: 68.0 },
                Point {
                    x: x + 22.0,
                    y: 68.0,
                },
            ],
            stroke,
        );
        let label = run.policy.label();
        let place = Point {
            x: x + 28.0,
            y: 72.0,
        };
        out.text(place, label, style(12.0, "#1f2933", false));
        x += 52.0 + 7.0 * label.len() as f64;
    }
}

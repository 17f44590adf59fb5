//! Tables with medians, spreads and ratios, and all rounds as JSON.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::contender::Contender;
use crate::figures::{Figure, Outcome, Subject};
use crate::round::DISTURBED;

/// All outcomes, in the order of the rounds.
pub struct Report {
    machine: Machine,
    contenders: Vec<Contender>,
    outcomes: BTreeMap<(Subject, Contender), Vec<Outcome>>,
}

/// Smallest, middle and largest of some values.
struct Spread {
    least: f64,
    median: f64,
    most: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let (least, most) = (*values.first()?, *values.last()?);
        let middle = values.len() / 2;
        let median = match values.len() % 2 {
            0 => (values[middle - 1] + values[middle]) / 2.0,
            _ => values[middle],
        };
        Some(Self {
            least,
            median,
            most,
        })
    }
}

fn in_digits(spread: Option<Spread>, digits: usize) -> String {
    spread.map_or("-".to_owned(), |spread| {
        let Spread {
            least,
            median,
            most,
        } = spread;
        format!("{median:.digits$} ({least:.digits$} - {most:.digits$})")
    })
}

impl Report {
    pub fn new(contenders: &[Contender]) -> Self {
        Self {
            machine: Machine::here(),
            contenders: contenders.to_vec(),
            outcomes: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, subject: Subject, contender: Contender, outcome: Outcome) {
        let outcomes = self.outcomes.entry((subject, contender)).or_default();
        outcomes.push(outcome);
    }

    /// Half the requests a second of the slower of nginx and HAProxy; nothing if neither was measured.
    pub fn half_of_the_slower_peer(&self) -> Option<f64> {
        let per_second = Subject::SmallSplit.figures().last()?;
        [Contender::Nginx, Contender::Haproxy]
            .into_iter()
            .filter_map(|peer| self.spread(Subject::SmallSplit, peer, per_second))
            .map(|spread| spread.median / 2.0)
            .reduce(f64::min)
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Prints the table of a subject.
    pub fn print(&self, subject: Subject) {
        let figures = subject.figures();
        println!("\n{}: {}", subject.name(), subject.explanation());
        let mut header = format!("  {:14}", "");
        for figure in figures {
            header += &format!("{:>26}", figure.title);
        }
        for yardstick in subject.yardsticks() {
            header += &format!("{:>24}", format!("/ {}", yardstick.name()));
        }
        println!("{header}");
        for &contender in &self.contenders {
            let mut line = format!("  {:14}", contender.name());
            for figure in figures {
                line += &format!("{:>26}", self.cell(subject, contender, figure));
            }
            for &yardstick in subject.yardsticks() {
                let ratio = self.ratio(subject, contender, yardstick, &figures[0]);
                line += &format!("{:>24}", in_digits(ratio, subject.digits_of_ratio()));
            }
            println!("{line}");
        }
        println!(
            "  median (least - most); ratios are of {}",
            figures[0].title
        );
        self.print_disturbances(subject);
    }

    fn print_disturbances(&self, subject: Subject) {
        let (mut repeats, mut kept, mut worst) = (0, 0, 0.0_f64);
        for ((of, _), outcomes) in &self.outcomes {
            for outcome in outcomes.iter().filter(|_| *of == subject) {
                let Outcome::Round(round) = outcome else {
                    continue;
                };
                repeats += round.repeats;
                if round.others > DISTURBED {
                    kept += 1;
                    worst = worst.max(round.others);
                }
            }
        }
        if repeats > 0 {
            println!(
                "  {repeats} rounds were done again because other work took more than 4 % of a core"
            );
        }
        if kept > 0 {
            println!(
                "  {kept} rounds count although other work took up to {:.0} %: the machine was never quiet",
                worst * 100.0
            );
        }
    }

    fn cell(&self, subject: Subject, contender: Contender, figure: &Figure) -> String {
        let digits = figure.digits;
        in_digits(self.spread(subject, contender, figure), digits)
    }

    fn spread(&self, subject: Subject, contender: Contender, figure: &Figure) -> Option<Spread> {
        Spread::of(self.values(subject, contender, figure))
    }

    fn values(&self, subject: Subject, contender: Contender, figure: &Figure) -> Vec<f64> {
        let outcomes = self.outcomes.get(&(subject, contender));
        outcomes
            .into_iter()
            .flatten()
            .filter_map(|outcome| figure.of(outcome))
            .collect()
    }

    /// Ratios of rounds that ran one after the other: what drifts, drifts for both.
    fn ratio(
        &self,
        subject: Subject,
        contender: Contender,
        peer: Contender,
        figure: &Figure,
    ) -> Option<Spread> {
        let own = self.values(subject, contender, figure);
        let theirs = self.values(subject, peer, figure);
        let ratios = own.iter().zip(&theirs).map(|(own, theirs)| own / theirs);
        Spread::of(ratios.collect())
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        let measured: Vec<Entry> = self
            .outcomes
            .iter()
            .map(|(&(subject, contender), rounds)| Entry {
                subject: subject.name(),
                contender: contender.name(),
                rounds,
            })
            .collect();
        let text = serde_json::to_string_pretty(&File {
            machine: &self.machine,
            measured,
        })?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
    }
}

#[derive(Serialize)]
struct File<'a> {
    machine: &'a Machine,
    measured: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    subject: &'static str,
    contender: &'static str,
    rounds: &'a [Outcome],
}

/// What figures can only be compared on.
#[derive(Clone, Serialize)]
pub struct Machine {
    kernel: String,
    processor: String,
    nginx: String,
    haproxy: String,
}

impl Machine {
    pub fn here() -> Self {
        let read = |file: &str| std::fs::read_to_string(file).unwrap_or_default();
        let processors = read("/proc/cpuinfo");
        let processor = processors
            .lines()
            .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
            .map_or("unknown", |(_, name)| name.trim());
        Self {
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            processor: processor.to_owned(),
            nginx: version("nginx"),
            haproxy: version("haproxy"),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            kernel,
            processor,
            nginx,
            haproxy,
        } = self;
        write!(f, "Linux {kernel} on {processor}; {nginx}; {haproxy}")
    }
}

/// First line of what a program says of its version.
fn version(program: &str) -> String {
    let Some(file) = weir_tests::skip::find(program) else {
        return "missing".to_owned();
    };
    let Ok(output) = Command::new(file).arg("-v").output() else {
        return "unknown".to_owned();
    };
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or("unknown").to_owned()
}

//! `test`: every test of the workspace, then one line of totals. A test that cannot run here says what it missed and
//! is counted as skipped; under `CI=true` it fails instead.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use crate::build::build;
use crate::command::{cargo, line, target};
use crate::emulated;
use crate::packages::{TESTS, install};
use crate::privilege::{is_root, run_as_root};

#[derive(clap::Args, Default)]
pub struct Arguments {
    /// Only tests whose name contains this.
    filter: Option<String>,
}

/// Tests that cannot run add one line each to the file this variable names.
const SKIPS: &str = "WEIR_TEST_SKIPS";

pub fn test(arguments: Arguments) -> Result<()> {
    let start = Instant::now();
    install(TESTS)?;
    build()?;
    let skips = target().join("skipped-tests");
    let _ = std::fs::remove_file(&skips);

    let mut totals = Totals::default();
    for mut run in runs(&arguments, &skips)? {
        totals.add(&mut run)?;
    }
    // Tests that cannot run pass in the eyes of cargo.
    let mut skipped = lines_of(&skips);
    totals.passed = totals.passed.saturating_sub(skipped.len());
    skipped.extend(totals.add_emulated(&arguments)?);

    for reason in &skipped {
        println!("skipped: {reason}");
    }
    println!(
        "{} passed, {} failed, {} skipped in {:.0} s",
        totals.passed,
        totals.failed,
        skipped.len(),
        start.elapsed().as_secs_f64(),
    );
    if totals.failed > 0 {
        bail!("{} tests failed", totals.failed);
    }
    if totals.broken {
        bail!("a test program could not be built or ended early: see above");
    }
    Ok(())
}

/// One run of the whole workspace as root; otherwise one without root, and one that asks sudo for the scenarios alone.
fn runs(arguments: &Arguments, skips: &Path) -> Result<Vec<Command>> {
    let base = |selection: &[&str]| {
        let mut command = cargo();
        command.args(["test", "--no-fail-fast"]).args(selection);
        command.args(arguments.filter.as_deref());
        command.env(SKIPS, skips);
        command.env("WEIR_BINARY", target().join("release/weir"));
        command
    };
    if is_root() {
        return Ok(vec![base(&["--workspace"])]);
    }
    let pure = base(&["--workspace", "--exclude", "weir-tests"]);
    let mut scenarios = base(&["--package", "weir-tests"]);
    run_as_root(&mut scenarios, "running scenarios in network namespaces")?;
    Ok(vec![pure, scenarios])
}

fn lines_of(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[derive(Default)]
struct Totals {
    passed: usize,
    failed: usize,
    /// Something failed that is no single test.
    broken: bool,
}

impl Totals {
    /// Runs what must come out the same on another processor; returns why not, if that cannot be done here.
    fn add_emulated(&mut self, arguments: &Arguments) -> Result<Option<String>> {
        match emulated::tests() {
            Ok(Some(mut tests)) => self.add(tests.args(arguments.filter.as_deref()))?,
            Ok(None) => {}
            Err(error) => {
                let reason = format!("rendezvous on another processor: {error:#}");
                if std::env::var("CI").as_deref() == Ok("true") {
                    bail!("must not be skipped here: {reason}");
                }
                return Ok(Some(reason));
            }
        }
        Ok(None)
    }

    /// Runs one `cargo test`, shows what it prints and reads the results off it.
    fn add(&mut self, command: &mut Command) -> Result<()> {
        let line = line(command);
        eprintln!("+ {line}");
        let mut child = command
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot run `{line}`"))?;
        let stdout = child.stdout.take().expect("piped just above");
        let failed_before = self.failed;
        for text in BufReader::new(stdout).lines() {
            let text = text.context("cannot read what cargo prints")?;
            println!("{text}");
            if let Some(result) = Counts::parse(&text) {
                self.passed += result.passed;
                self.failed += result.failed;
            }
        }
        let status = child.wait().context("cannot wait for cargo")?;
        self.broken |= !status.success() && self.failed == failed_before;
        Ok(())
    }
}

struct Counts {
    passed: usize,
    failed: usize,
}

impl Counts {
    /// Reads `test result: ok. 12 passed; 0 failed; ...`, the last line of each test program.
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("test result: ")?;
        let count = |word: &str| {
            let before = text.split(word).next()?;
            before.split_whitespace().next_back()?.parse().ok()
        };
        Some(Self {
            passed: count(" passed;")?,
            failed: count(" failed;")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_line_gives_its_counts_and_other_lines_none() {
        let line =
            "test result: FAILED. 12 passed; 3 failed; 0 ignored; 0 measured; 1 filtered out";
        let counts = Counts::parse(line).expect("a result line");
        assert_eq!((counts.passed, counts.failed), (12, 3));
        assert!(Counts::parse("test result_is_kept ... ok").is_none());
        assert!(Counts::parse("running 3 tests").is_none());
    }
}

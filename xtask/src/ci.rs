//! `ci`: what every change must pass, cheapest first. Stops at the first step that fails.

use anyhow::Result;

use crate::command::{cargo, run, step};
use crate::{test, tidy};

pub fn ci() -> Result<()> {
    step("formatting", || {
        run(cargo().args(["fmt", "--all", "--check"]))
    })?;
    step("lints", || {
        run(cargo().args([
            "clippy",
            "--workspace",
            "--all-targets",
            "--quiet",
            "--",
            "--deny",
            "warnings",
        ]))
    })?;
    step("tree", tidy::tidy)?;
    step("tests", || test::test(test::Arguments::default()))
}

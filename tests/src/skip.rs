//! Tests that cannot run here. A skipped test passes in the eyes of cargo, so it says what it missed, is counted by
//! `cargo xtask test`, and fails where everything must run: under `CI=true`.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// What a test may need of the machine.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Root, for namespaces and kernel programs.
    Root,
    /// A program on the path.
    Program(&'static str),
}

/// Whether all of `needs` are met; if not, the test is recorded as skipped and must return.
///
/// # Panics
/// Under `CI=true`, if a need is not met.
#[must_use]
pub fn can_run(needs: &[Need]) -> bool {
    let missing: Vec<String> = needs.iter().filter_map(|need| need.missing()).collect();
    if missing.is_empty() {
        return true;
    }
    skip(&missing.join(", "));
    false
}

/// Records that the calling test did not run, because of `reason`.
///
/// # Panics
/// Under `CI=true`.
pub fn skip(reason: &str) {
    let thread = std::thread::current();
    let line = format!("{}: {reason}", thread.name().unwrap_or("a test"));
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "must not be skipped here: {line}"
    );
    println!("skipped: {line}");
    let Some(file) = std::env::var_os("WEIR_TEST_SKIPS") else {
        return;
    };
    let recorded = OpenOptions::new()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(format!("{line}\n").as_bytes()));
    if let Err(error) = recorded {
        println!("and it could not be recorded: {error}");
    }
}

impl Need {
    fn missing(self) -> Option<String> {
        match self {
            Need::Root => (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned()),
            Need::Program(program) => find(program).is_none().then(|| format!("needs {program}")),
        }
    }
}

/// Where a program lies: on the path, or where Debian keeps daemons, which is not on everyone's path.
pub fn find(program: &str) -> Option<std::path::PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(|directory| Path::new(directory).to_owned()))
        .map(|directory| directory.join(program))
        .find(|file| file.is_file())
}

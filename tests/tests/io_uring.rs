//! A host without io_uring: Weir does not start, and says what is missing in words.

use std::process::Command;

use anyhow::Result;
use weir_tests::process::Place;
use weir_tests::seccomp::refuse;
use weir_tests::weir::{binary, run_to_end};

#[test]
fn whoever_takes_io_uring_away_is_named() -> Result<()> {
    for (error, expected) in [
        (libc::EPERM, "io_uring is forbidden to this process"),
        (libc::ENOSYS, "a seccomp filter hides it"),
        (libc::ENOMEM, "ulimit -l"),
    ] {
        let mut command = Command::new(binary()?);
        command.args(["run", "--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"]);
        command.args(["--ebpf", "off", "--workers", "1"]);
        command.args(["--admin", "off", "--metrics", "off", "--readiness", "off"]);
        refuse(&mut command, libc::SYS_io_uring_setup, error);
        let output = run_to_end(command, &Place::default())?;
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "it runs without a ring");
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("panicked"), "{said}");
    }
    Ok(())
}

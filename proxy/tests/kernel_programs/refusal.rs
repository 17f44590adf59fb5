//! What is said where the kernel refuses. The binary is run with capabilities taken away.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::rig::{Rig, skip};

/// Each start is an instance of its own, as two of one name refuse to run beside each other.
static STARTED: AtomicUsize = AtomicUsize::new(0);

/// Capabilities left, and what is said of the others.
const CASES: [(&str, &str); 3] = [
    (
        "-all",
        "the capabilities CAP_BPF and CAP_NET_ADMIN are missing",
    ),
    ("-all,+bpf", "the capability CAP_NET_ADMIN is missing"),
    ("-all,+net_admin", "the capability CAP_BPF is missing"),
];

#[test]
fn where_bpf_is_required_missing_capabilities_are_the_error() {
    // Where programs do not run for us either, it would be another error.
    if Rig::new().is_none() {
        return;
    }
    for (left, missing) in CASES {
        let Some(weir) = start(left, "required") else {
            return skip("the setpriv command");
        };
        let output = weir.wait_with_output().expect("it was started");
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stderr);
        let error = format!("BPF is required, but {missing}");
        assert!(said.contains(&error), "{said}");
    }
}

#[test]
fn otherwise_it_is_a_warning_that_says_what_is_lost() {
    if Rig::new().is_none() {
        return;
    }
    for (left, missing) in CASES {
        let Some(mut weir) = start(left, "auto") else {
            return skip("the setpriv command");
        };
        let stderr = BufReader::new(weir.stderr.take().expect("piped"));
        let (sender, lines) = mpsc::channel();
        let reader = thread::spawn(move || {
            let lines = stderr.lines().map_while(Result::ok);
            // Nobody listens any more once the line was found.
            lines
                .take_while(|line| sender.send(line.clone()).is_ok())
                .count()
        });
        let lost = "handshakes, resets and retransmits are not counted";
        let found = std::iter::from_fn(|| lines.recv_timeout(Duration::from_secs(10)).ok())
            .find(|line| line.contains("no BPF"));
        drop(lines);
        weir.kill().expect("it was started");
        weir.wait().expect("it was started");
        reader.join().expect("reading cannot panic");
        let found = found.expect("it warns");
        assert!(found.contains(missing) && found.contains(lost), "{found}");
    }
}

fn start(capabilities: &str, ebpf: &str) -> Option<Child> {
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let instance = format!("test-{}-{number}", std::process::id());
    Command::new("setpriv")
        .args([&format!("--bounding-set={capabilities}"), "--inh-caps=-all"])
        .arg(env!("CARGO_BIN_EXE_weir"))
        .args(["run", "--ebpf", ebpf])
        .args(["--listen", "127.0.0.1:0", "--to", "127.0.0.1:9"])
        .args(["--instance", &instance])
        .args(["--admin", "off", "--metrics", "off", "--readiness", "off"])
        .stderr(Stdio::piped())
        .spawn()
        .ok()
}

//! What is said where the kernel refuses. Each case is a process of its own, with capabilities taken away.

use std::process::Command;

use weir::runtime::dataplane::{Dataplane, DataplaneError, EbpfMode, Unavailable};

use crate::rig::{options, skip};

#[test]
fn without_capabilities_the_first_missing_one_is_named() {
    for (kept, missing) in [("-all", "CAP_BPF"), ("-all,+bpf", "CAP_NET_ADMIN")] {
        let said = say_with_capabilities(kept);
        let Some(said) = said else {
            return skip("root, the setpriv command, and kernel programs in the binary");
        };
        assert!(
            said.contains(&format!("auto: the capability {missing} is missing")),
            "{said}"
        );
        let required = format!("required: BPF is required, but the capability {missing}");
        assert!(said.contains(&required), "{said}");
    }
}

/// What [`say_why`] says in a process with these capabilities.
fn say_with_capabilities(set: &str) -> Option<String> {
    let program = std::env::current_exe().expect("this program is a file");
    let child = Command::new("setpriv")
        .args([&format!("--bounding-set={set}"), "--inh-caps=-all"])
        .arg(program)
        .args(["--exact", "refusal::say_why", "--ignored", "--nocapture"])
        .output();
    let child = child.ok().filter(|child| child.status.success())?;
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    (!said.contains("not built")).then_some(said)
}

#[test]
#[ignore = "the other half of the test above, which runs it in a process without capabilities"]
fn say_why() {
    let required = Dataplane::open(options(EbpfMode::Required, 16, Vec::new())).err();
    if let Some(DataplaneError::Unavailable(Unavailable::NotBuilt)) = required {
        return println!("not built");
    }
    let auto = Dataplane::open(options(EbpfMode::Auto, 16, Vec::new()));
    let auto = auto.expect("auto goes without");
    println!(
        "auto: {}",
        auto.without_kernel().expect("it lacks capabilities")
    );
    println!("required: {}", required.expect("it lacks capabilities"));
}

//! Filters of a process that was killed: unlike links, nothing in the kernel says whose they are.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir::runtime::dataplane::{
    Dataplane, DataplaneOptions, EbpfMode, Hook, Interface, MOUNT_POINT, detach,
};

use crate::namespace::on_a_loopback_of_its_own;
use crate::rig::{Rig, options};

const TEST: &str = "killed::filters_of_a_killed_process_go_with_the_next_one_or_when_told_to";
/// Tells the process that is to be killed from the test that kills it.
const ROLE: &str = "WEIR_TEST_INSTANCE_TO_BE_KILLED";

#[test]
fn filters_of_a_killed_process_go_with_the_next_one_or_when_told_to() {
    if let Ok(instance) = std::env::var(ROLE) {
        return attach_and_wait(&instance);
    }
    on_a_loopback_of_its_own(|| {
        // Where programs do not run, there is nothing to see.
        if Rig::new().is_none() {
            return;
        }
        let instance = format!("test-{}-killed", std::process::id());
        let foreign = "filter add dev lo egress protocol all u32 match u32 0 0";
        assert!(tc("qdisc add dev lo clsact").is_empty());
        assert!(tc(foreign).is_empty());

        kill(start(&instance));
        assert_eq!(filters(), 2, "nobody has removed them");
        let next = Dataplane::open(pinned(&instance)).expect("the instance is free");
        assert_eq!(filters(), 0);
        drop(next);

        kill(start(&instance));
        assert_eq!(filters(), 2);
        detach(Path::new(MOUNT_POINT), &instance, false).expect("the instance is free");
        assert_eq!(filters(), 0);
        assert!(
            tc("filter show dev lo egress").contains("u32"),
            "none of ours"
        );
    });
}

fn attach_and_wait(instance: &str) {
    let dataplane = Dataplane::open(pinned(instance)).expect("the instance is free");
    let loopback = Interface::named("lo").expect("every namespace has one");
    dataplane
        .attach_by(&loopback, Hook::Clsact)
        .expect("the kernel has the qdisc");
    println!("{ROLE}");
    std::thread::sleep(Duration::from_secs(60));
}

fn pinned(instance: &str) -> DataplaneOptions {
    DataplaneOptions {
        instance: instance.to_owned(),
        bpffs: Some(MOUNT_POINT.into()),
        ..options(EbpfMode::Required, 16, Vec::new())
    }
}

/// This test once more, in a process that attaches and waits.
fn start(instance: &str) -> Child {
    let program = std::env::current_exe().expect("a test is a program");
    let mut child = Command::new(program)
        .args([TEST, "--exact", "--nocapture"])
        .env(ROLE, instance)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it was started before");
    let lines = BufReader::new(child.stdout.take().expect("piped just above")).lines();
    let is_ready = lines.map_while(Result::ok).any(|line| line.contains(ROLE));
    assert!(is_ready, "it ended early");
    child
}

fn kill(mut child: Child) {
    child.kill().expect("it runs");
    child.wait().expect("it was started");
}

fn filters() -> usize {
    let sides = ["egress", "ingress"].map(|side| tc(&format!("filter show dev lo {side}")));
    let lines = sides.iter().flat_map(|text| text.lines());
    lines.filter(|line| line.contains("wire_")).count()
}

fn tc(words: &str) -> String {
    let tc = Command::new("tc").args(words.split(' ')).output();
    String::from_utf8(tc.expect("iproute2 brings tc").stdout).expect("text")
}

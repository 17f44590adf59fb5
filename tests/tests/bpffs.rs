//! Where the BPF file system is missing or the kernel says no: Weir helps itself if it may, goes on with less if not, says
//! so once, and leaves alone what runs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use rustix::process::Signal;
use weir_tests::endpoint::scripts::answers_after;
use weir_tests::scenario::Scenario;
use weir_tests::skip::{Need, can_run};
use weir_tests::weir::{Ebpf, binary};

const NEEDS: &[Need] = &[
    Need::Root,
    Need::Program("unshare"),
    Need::Program("setpriv"),
];
const PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs Weir after some preparation.
struct Wrapped(PathBuf);

impl Wrapped {
    /// `command` gets Weir and its arguments as its own.
    fn new(label: &str, command: &str) -> Result<Self> {
        let file = std::env::temp_dir().join(format!("weir-{}-{label}", std::process::id()));
        let text = format!(
            "#!/bin/sh\nset -- {} \"$@\"\n{command}\n",
            binary()?.display()
        );
        fs::write(&file, text)?;
        fs::set_permissions(&file, PermissionsExt::from_mode(0o755))?;
        Ok(Self(file))
    }
}

impl Drop for Wrapped {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Runs what follows where no BPF file system is mounted; what it mounts goes with it.
const UNMOUNTED: &str =
    "exec unshare -m sh -c 'while umount /sys/fs/bpf 2>/dev/null; do :; done; exec \"$@\"' sh";
const NO_ADMINISTRATOR: &str = "setpriv --bounding-set=-sys_admin --inh-caps=-all";
const NO_BPF: &str = "exec setpriv --bounding-set=-bpf,-sys_admin --inh-caps=-all";

fn start(program: &Wrapped) -> Result<Scenario> {
    let answer = vec![answers_after(Duration::from_millis(1))];
    Scenario::start(answer, |star, options| {
        let mut options = options.measured_on([star.endpoints[0].interface.as_str()]);
        options.binary = Some(program.0.clone());
        options
    })
}

#[test]
fn a_bpf_file_system_that_is_not_mounted_is_mounted() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let program = Wrapped::new("unmounted", &format!("{UNMOUNTED} \"$@\""))?;
    let scenario = start(&program)?;
    let output = scenario.weir.process.output();
    assert!(output.contains("mounted the BPF file system"), "{output}");
    assert!(!output.contains("WARN"), "{output}");
    // Files are where its mount namespace sees them.
    let instance = scenario.options.instance.name();
    let folder = format!(
        "/proc/{}/root/sys/fs/bpf/weir/{instance}",
        scenario.weir.process.id()
    );
    assert!(fs::read_dir(folder)?.next().is_some());
    Ok(())
}

#[test]
fn where_it_cannot_be_mounted_a_warning_says_what_is_lost_and_measuring_works() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let program = Wrapped::new(
        "unmountable",
        &format!("{UNMOUNTED} {NO_ADMINISTRATOR} \"$@\""),
    )?;
    let scenario = start(&program)?;
    for _ in 0..5 {
        assert_eq!(scenario.client()?.get("/")?.status(), 200);
    }
    assert_eq!(scenario.dump()?[0].wire.finished, 5);
    let output = scenario.weir.process.output();
    assert_eq!(output.matches("WARN").count(), 1, "{output}");
    assert!(
        output.contains("no place in the BPF file system"),
        "{output}"
    );
    Ok(())
}

#[test]
fn who_may_not_load_programs_leaves_those_that_run_alone() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let answer = vec![answers_after(Duration::from_millis(1))];
    let mut scenario = Scenario::start(answer, |star, options| {
        options.measured_on([star.endpoints[0].interface.as_str()])
    })?;
    scenario.weir.process.signal(Signal::KILL)?;
    scenario.weir.process.wait(PATIENCE)?;
    let pinned = scenario.options.instance.pinned();

    let program = Wrapped::new("powerless", &format!("{NO_BPF} \"$@\""))?;
    scenario.options.binary = Some(program.0.clone());
    scenario.options.ebpf = Ebpf::Auto;
    scenario.start_again()?;
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    let output = scenario.weir.process.output();
    assert!(
        output.contains("the capability CAP_BPF is missing"),
        "{output}"
    );
    assert_eq!(output.matches("WARN").count(), 1, "{output}");
    assert_eq!(scenario.options.instance.pinned(), pinned);
    Ok(())
}

#[test]
fn a_folder_others_may_write_to_is_not_used() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let open = "mount -t bpf bpf /sys/fs/bpf && mkdir -m 0777 /sys/fs/bpf/weir; exec \"$@\"";
    let program = Wrapped::new("open", &format!("{UNMOUNTED} sh -c '{open}' sh \"$@\""))?;
    let scenario = start(&program)?;
    let output = scenario.weir.process.output();
    assert!(output.contains("is not ours alone"), "{output}");
    assert_eq!(scenario.client()?.get("/")?.status(), 200);
    Ok(())
}

/// Runs Weir after this preparation, in a mount namespace with a fresh BPF file system. Says that nothing outlives it,
/// once, and serves and measures.
fn goes_on_unpinned(label: &str, preparation: &str, why: &str) -> Result<()> {
    let mount = format!("mount -t bpf bpf /sys/fs/bpf && {preparation}; exec \"$@\"");
    let program = Wrapped::new(label, &format!("{UNMOUNTED} sh -c '{mount}' sh \"$@\""))?;
    let scenario = start(&program)?;
    for _ in 0..5 {
        assert_eq!(scenario.client()?.get("/")?.status(), 200);
    }
    assert_eq!(scenario.dump()?[0].wire.finished, 5);
    let output = scenario.weir.process.output();
    assert_eq!(output.matches("WARN").count(), 1, "{output}");
    assert!(
        output.contains("no place in the BPF file system"),
        "{output}"
    );
    assert!(output.contains(why), "{output}");
    Ok(())
}

#[test]
fn one_that_may_only_be_read_or_holds_a_file_in_our_place_is_not_used() -> Result<()> {
    if !can_run(NEEDS) {
        return Ok(());
    }
    let read_only = "mount -o remount,ro /sys/fs/bpf";
    goes_on_unpinned("read-only", read_only, "Read-only file system")?;
    let file = "ln -s /nowhere /sys/fs/bpf/weir";
    goes_on_unpinned("file", file, "is not ours alone")
}

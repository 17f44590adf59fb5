//! Nothing of a run may stay on the machine. Names of namespaces carry the process that made them, so that an
//! interrupted run can remove its own and the next run those of a killed one: `weir-<pid>-<start>-<number>-<label>`,
//! where `start` tells the process from a later one of the same pid.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, PoisonError};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

const PREFIX: &str = "weir-";
const FOLDER: &str = "/run/netns";

static MADE: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
static NUMBER: AtomicUsize = AtomicUsize::new(0);
static SUBSCRIBED: AtomicBool = AtomicBool::new(false);
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// A name for a namespace of this run. The first call removes what killed runs left and begins to watch for signals.
pub(crate) fn claim(label: &str) -> String {
    static FIRST: Once = Once::new();
    FIRST.call_once(|| {
        sweep();
        watch_signals();
    });
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let start = start_of(pid).unwrap_or_default();
    let name = format!("{PREFIX}{pid}-{start}-{number}-{label}");
    made().insert(name.clone());
    name
}

/// Removes a namespace of this run.
pub(crate) fn remove(name: &str) {
    if made().remove(name) {
        delete(name);
    }
}

/// Asks to be told of the first Ctrl-C instead of ending there; the second one ends the run all the same.
pub fn subscribe_to_interrupts() -> Interrupts {
    SUBSCRIBED.store(true, Ordering::Relaxed);
    Interrupts(())
}

/// Whether the run was asked to end.
#[derive(Clone, Copy)]
pub struct Interrupts(());

impl Interrupts {
    pub fn is_interrupted(self) -> bool {
        INTERRUPTED.load(Ordering::Relaxed)
    }
}

/// Removes namespaces whose maker is no more, and the processes in them. Returns how many there were.
pub fn sweep() -> usize {
    let Ok(entries) = std::fs::read_dir(FOLDER) else {
        return 0;
    };
    let left: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| is_orphan(name))
        .collect();
    for name in &left {
        delete(name);
    }
    left.len()
}

/// Whether a namespace is one of ours whose maker is no more.
fn is_orphan(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let mut parts = rest.split('-');
    let pid = parts.next().and_then(|part| part.parse().ok());
    let start = parts.next().and_then(|part| part.parse::<u64>().ok());
    match (pid, start) {
        (Some(pid), Some(start)) => start_of(pid) != Some(start),
        _ => false,
    }
}

/// When a process started, in clock ticks after boot; nothing if there is none.
fn start_of(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in parentheses, which may hold anything; the start time is the 22nd.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(19)?.parse().ok()
}

/// Ends what runs in the namespace and removes it, with the interfaces in it.
fn delete(name: &str) {
    if let Ok(output) = ip(&["netns", "pids", name]).stderr(Stdio::null()).output() {
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let pids = text.split_whitespace().filter_map(|pid| pid.parse().ok());
        for pid in pids.filter_map(rustix::process::Pid::from_raw) {
            // A process that ended in between is as good.
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
    match ip(&["netns", "delete", name]).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => eprintln!(
            "namespace {name} stays: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) => eprintln!("namespace {name} stays: cannot run ip: {error}"),
    }
}

fn ip(arguments: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(arguments);
    command
}

fn watch_signals() {
    let mut signals = match Signals::new([SIGINT, SIGTERM, SIGHUP]) {
        Ok(signals) => signals,
        Err(error) => {
            eprintln!("an interrupted run will leave its namespaces to the next one: {error}");
            return;
        }
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let first = !INTERRUPTED.swap(true, Ordering::Relaxed);
            if first && SUBSCRIBED.load(Ordering::Relaxed) {
                continue;
            }
            for name in std::mem::take(&mut *made()) {
                delete(&name);
            }
            // Only fails for signals without a default, which these are not.
            let _ = emulate_default_handler(signal);
        }
    });
}

/// A panic elsewhere must not keep the names from being removed.
fn made() -> std::sync::MutexGuard<'static, BTreeSet<String>> {
    MADE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_namespaces_of_dead_makers_are_orphans() {
        let own = std::process::id();
        let start = start_of(own).expect("we are alive");
        assert!(!is_orphan(&format!("weir-{own}-{start}-0-client")));
        assert!(is_orphan(&format!("weir-{own}-{}-0-client", start + 1)));
        assert!(is_orphan("weir-4294967295-1-0-client"));
        assert!(!is_orphan("weir-lab"));
        assert!(!is_orphan("someone-1-2-3"));
    }
}

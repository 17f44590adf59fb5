//! Other programs as children: in a namespace, on a core, with their output kept for the message of a failure. A child
//! never outlives its value, nor the thread that started it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, set_parent_process_death_signal};
use rustix::thread::{CpuSet, LinkNameSpaceType, move_into_link_name_space, sched_setaffinity};

use crate::wait::becomes_some;

/// Where a child or a thread runs: by default where its starter does.
#[derive(Clone, Debug, Default)]
pub struct Place {
    namespace: Option<Arc<File>>,
    core: Option<usize>,
    is_batch: bool,
}

impl Place {
    pub(crate) fn inside(namespace: Arc<File>) -> Self {
        Self {
            namespace: Some(namespace),
            ..Self::default()
        }
    }

    /// The same place, and only on this core.
    pub fn on_core(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    /// The same place, where waking up interrupts nobody: each runs until it waits or its slice is over (SCHED_BATCH).
    pub fn as_batch(mut self) -> Self {
        self.is_batch = true;
        self
    }

    /// Moves the calling thread there.
    pub fn move_here(&self) -> io::Result<()> {
        if let Some(namespace) = &self.namespace {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
        }
        if let Some(core) = self.core {
            let mut only = CpuSet::new();
            only.set(core);
            sched_setaffinity(None, &only)?;
        }
        if self.is_batch {
            become_batch()?;
        }
        Ok(())
    }

    /// Runs `work` there, on a thread of its own, and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.move_here()
                    .expect("the place exists while its value lives");
                work()
            });
            match thread.join() {
                Ok(value) => value,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        })
    }

    /// Runs `work` there, on a thread of its own.
    pub fn spawn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let place = self.clone();
        std::thread::spawn(move || {
            place
                .move_here()
                .expect("the place exists while its value lives");
            work()
        })
    }

    /// Makes the command run there, and end with the thread that starts it.
    pub fn prepare(&self, command: &mut Command) {
        let place = self.clone();
        let enter = move || {
            set_parent_process_death_signal(Some(Signal::KILL))?;
            place.move_here()
        };
        // SAFETY: between fork and exec the closure only makes the system calls prctl, setns, sched_setaffinity and
        // sched_setscheduler; it takes no lock and allocates nothing.
        unsafe { command.pre_exec(enter) };
    }
}

fn become_batch() -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: pid 0 is the calling thread, and the parameters live through the call, which only reads them.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A running child. Dropping it kills it.
pub struct Process {
    name: String,
    child: Child,
    output: Arc<Mutex<Vec<u8>>>,
}

/// How much of a child's output is kept: its beginning.
const OUTPUT_LIMIT: usize = 256 * 1024;

impl Process {
    pub fn start(mut command: Command, place: &Place) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        place.prepare(&mut command);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let output = Arc::new(Mutex::new(Vec::new()));
        collect(child.stdout.take().expect("piped just above"), &output);
        collect(child.stderr.take().expect("piped just above"), &output);
        Ok(Self {
            name,
            child,
            output,
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it printed so far, errors included.
    pub fn output(&self) -> String {
        let output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&output).into_owned()
    }

    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(self.id().cast_signed()).context("a child has a pid")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }

    /// Waits for it to end by itself.
    pub fn wait(&mut self, limit: Duration) -> Result<ExitStatus> {
        let child = &mut self.child;
        match becomes_some(limit, || child.try_wait().transpose()) {
            Some(status) => Ok(status?),
            None => bail!("{} still runs after {limit:?}", self.name),
        }
    }

    /// Asks it to end, and waits until it has.
    pub fn stop(&mut self, limit: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.wait(limit)
    }

    /// Resident memory that is its own, in bytes: shared pages count by their share.
    pub fn memory(&self) -> Result<u64> {
        let file = format!("/proc/{}/smaps_rollup", self.id());
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        let kilobytes = text
            .lines()
            .find_map(|line| line.strip_prefix("Pss:"))
            .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
            .with_context(|| format!("no Pss in {file}"))?;
        Ok(kilobytes * 1024)
    }

    /// How many of its threads have a name that starts like this; those the kernel runs for it included.
    pub fn threads_named(&self, prefix: &str) -> Result<usize> {
        let folder = format!("/proc/{}/task", self.id());
        let threads =
            std::fs::read_dir(&folder).with_context(|| format!("cannot read {folder}"))?;
        let names = threads
            .filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        Ok(names.filter(|name| name.starts_with(prefix)).count())
    }

    /// Descriptors it holds.
    pub fn descriptors(&self) -> Result<usize> {
        let folder = format!("/proc/{}/fd", self.id());
        Ok(std::fs::read_dir(&folder)
            .with_context(|| format!("cannot read {folder}"))?
            .count())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Both fail only for a child that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("--- {} printed:\n{}---", self.name, self.output());
        }
    }
}

/// Reads all of a child's output, so that it never blocks on a full pipe, and keeps the beginning.
fn collect(mut from: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) {
    let into = into.clone();
    std::thread::spawn(move || {
        let mut chunk = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut chunk) {
            let mut output = into.lock().unwrap_or_else(PoisonError::into_inner);
            let room = OUTPUT_LIMIT - output.len().min(OUTPUT_LIMIT);
            output.extend_from_slice(&chunk[..count.min(room)]);
        }
    });
}

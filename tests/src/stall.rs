//! Holds up one thread of another process again and again, as a bad neighbour or a page that must be read would: by
//! stopping it with ptrace, which leaves the other threads running.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::wait::becomes_some;

/// Stops of one thread, going on until it is dropped or finished.
pub struct Stalls {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<io::Result<Vec<Stall>>>>,
}

/// The thread did nothing from one moment to the other.
#[derive(Clone, Copy, Debug)]
pub struct Stall {
    pub from: Instant,
    pub to: Instant,
}

impl Stalls {
    /// The thread of that name stops for `length`, runs for `pause`, and so on.
    pub fn begin(process: u32, name: &str, length: Duration, pause: Duration) -> Result<Self> {
        // A process may be ready before all its threads have got their names.
        let thread = becomes_some(Duration::from_secs(5), || thread_named(process, name));
        let thread = thread.context("no thread of that name")?;
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        // All calls must come from the thread that traces.
        let tracer = thread::spawn(move || {
            let mut stalls = Vec::new();
            trace(libc::PTRACE_SEIZE, thread)?;
            while !over.load(Ordering::Relaxed) {
                trace(libc::PTRACE_INTERRUPT, thread)?;
                wait_until_stopped(thread)?;
                let from = Instant::now();
                thread::sleep(length);
                let to = Instant::now();
                trace(libc::PTRACE_CONT, thread)?;
                stalls.push(Stall { from, to });
                thread::sleep(pause);
            }
            // The end of this thread lets the other go.
            Ok(stalls)
        });
        Ok(Self {
            is_over,
            thread: Some(tracer),
        })
    }

    /// Ends it and says when the thread was stopped.
    pub fn finish(mut self) -> Result<Vec<Stall>> {
        self.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("taken once");
        let stalls = thread.join().expect("it does not panic");
        stalls.context("the thread could not be stopped")
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

fn thread_named(process: u32, name: &str) -> Option<libc::pid_t> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).ok()?;
    tasks.flatten().find_map(|task| {
        let found = fs::read_to_string(task.path().join("comm")).ok()?;
        let is_it = found.trim_end() == name;
        is_it.then(|| task.file_name().to_str()?.parse().ok())?
    })
}

fn trace(request: libc::c_uint, thread: libc::pid_t) -> io::Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: none of the requests made here reads or writes memory of ours.
    match unsafe { libc::ptrace(request, thread, nothing, nothing) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

fn wait_until_stopped(thread: libc::pid_t) -> io::Result<()> {
    let mut status = 0;
    // SAFETY: the call writes one integer, which outlives it.
    match unsafe { libc::waitpid(thread, &raw mut status, libc::__WALL) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

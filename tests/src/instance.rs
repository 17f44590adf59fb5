//! Names of instances, and what Weir leaves in the kernel under them: nothing of a run may stay on the machine, and
//! instances of tests that run beside each other must not meet.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

/// Where Weir pins what outlives it.
const PINS: &str = "/sys/fs/bpf/weir";
const PREFIX: &str = "test-";

/// The name of an instance of this run. What Weir pinned under it is removed with the last clone.
#[derive(Clone, Debug)]
pub struct Instance(Arc<Name>);

#[derive(Debug)]
struct Name(String);

impl Instance {
    /// A new name. The first call removes what killed runs left.
    pub fn new() -> Self {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        static FIRST: Once = Once::new();
        FIRST.call_once(sweep);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{PREFIX}{}-{number}", std::process::id());
        Self(Arc::new(Name(name)))
    }

    pub fn name(&self) -> &str {
        &self.0.0
    }

    /// The folder of what it has pinned.
    pub fn pins(&self) -> PathBuf {
        Path::new(PINS).join(self.name())
    }

    /// Names of the files it has pinned, in order; none if there is no folder.
    pub fn pinned(&self) -> Vec<String> {
        let layouts = fs::read_dir(self.pins()).into_iter().flatten().flatten();
        let files = layouts.flat_map(|layout| fs::read_dir(layout.path()).into_iter().flatten());
        let mut names: Vec<String> = files
            .flatten()
            .map(|file| file.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Default for Instance {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Name {
    fn drop(&mut self) {
        remove(&Path::new(PINS).join(&self.0));
    }
}

/// Removes pins whose maker is no more.
fn sweep() {
    for entry in fs::read_dir(PINS).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            remove(&entry.path());
        }
    }
}

fn remove(folder: &Path) {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            eprintln!("{} stays: {error}", folder.display());
        }
        _ => {}
    }
}

//! One process at a time has an instance. The lock is on the instance's folder and ends with the process that holds it,
//! however that ends.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock, major, minor};

use super::bpffs::ensure_private;

/// A process that was killed a moment ago may still be on its way out.
const PAUSE: Duration = Duration::from_millis(50);
const TRIES: usize = 20;

#[derive(Debug)]
pub struct Lock {
    folder: File,
}

#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// By this process, if that could be found out.
    #[error("it is held by {}", .0.map_or("another process".to_owned(), |pid| format!("process {pid}")))]
    Held(Option<u32>),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Lock {
    /// Makes the folder, and the one it lies in, if need be, and locks it.
    pub fn take(parent: &Path, name: &str) -> Result<Self, LockError> {
        let folder = &parent.join(name);
        for _ in 0..TRIES {
            ensure_private(parent)?;
            match ensure_private(folder) {
                // Somebody removed the empty parent in between.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                made => made?,
            }
            match Self::try_take(folder) {
                Ok(Some(lock)) => return Ok(lock),
                // Removed by its last owner in between.
                Ok(None) => {}
                Err(LockError::Held(_)) => thread::sleep(PAUSE),
                Err(error) => return Err(error),
            }
        }
        Self::try_take(folder)?.ok_or(LockError::Io(io::ErrorKind::NotFound.into()))
    }

    /// The lock of a process that hands it over: it is held until both have let go. None if it is of another folder.
    pub fn handed_over(folder: &Path, lock: OwnedFd) -> io::Result<Option<Self>> {
        let file = File::from(lock);
        let (ours, there) = (file.metadata()?, fs::metadata(folder)?);
        let is_it = (ours.dev(), ours.ino()) == (there.dev(), there.ino());
        Ok(is_it.then_some(Self { folder: file }))
    }

    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Locks the folder; None if it is not there any more.
    pub fn try_take(folder: &Path) -> Result<Option<Self>, LockError> {
        let file = match File::open(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(LockError::Held(holder(&file))),
            Err(error) => return Err(io::Error::from(error).into()),
        }
        let is_there = fs::metadata(folder).is_ok_and(|now| {
            file.metadata()
                .is_ok_and(|ours| (ours.dev(), ours.ino()) == (now.dev(), now.ino()))
        });
        Ok(is_there.then_some(Self { folder: file }))
    }
}

/// The process that has the lock, as the kernel lists it.
fn holder(folder: &File) -> Option<u32> {
    let found = folder.metadata().ok()?;
    let device = found.dev();
    let place = format!(
        "{:02x}:{:02x}:{}",
        major(device),
        minor(device),
        found.ino()
    );
    let list = fs::read_to_string("/proc/locks").ok()?;
    listed_holder(&list, &place)
}

/// Lines look like `1: FLOCK  ADVISORY  WRITE 708 00:16:528 0 EOF`.
fn listed_holder(list: &str, place: &str) -> Option<u32> {
    let mut lines = list.lines().map(|line| line.split_whitespace());
    lines.find_map(|mut words| {
        let is_flock = words.nth(1) == Some("FLOCK");
        let pid = words.nth(2)?.parse().ok()?;
        (is_flock && words.next() == Some(place)).then_some(pid)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_is_read_off_the_kernels_list() {
        let list = "1: POSIX  ADVISORY  WRITE 4 00:1b:77 0 EOF\n\
                    2: FLOCK  ADVISORY  WRITE 708 00:1b:77 0 EOF\n\
                    2: -> FLOCK  ADVISORY  WRITE 900 00:1b:77 0 EOF\n\
                    3: FLOCK  ADVISORY  WRITE 5 00:1b:78 0 EOF\n";
        assert_eq!(listed_holder(list, "00:1b:77"), Some(708));
        assert_eq!(listed_holder(list, "00:1b:79"), None);
        assert_eq!(listed_holder("", "00:1b:77"), None);
    }

    #[test]
    fn a_folder_is_locked_once_and_again_when_the_holder_is_gone() {
        let parent = std::env::temp_dir().join(format!("weir-lock-{}", std::process::id()));
        let folder = parent.join("blue");
        let held = Lock::take(&parent, "blue").expect("nobody else has it");
        let pid = std::process::id();
        let second = Lock::try_take(&folder);
        assert!(
            matches!(second, Err(LockError::Held(Some(holder))) if holder == pid),
            "{second:?}"
        );
        drop(held);
        assert!(Lock::try_take(&folder).expect("it is free").is_some());
        fs::remove_dir_all(&parent).expect("it is ours");
        assert!(Lock::try_take(&folder).expect("no error").is_none());
    }
}

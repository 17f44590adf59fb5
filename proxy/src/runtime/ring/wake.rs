//! Wakes a worker out of its `enter` from another thread, by an eventfd the ring reads.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;

/// Wakes one worker; cheap to clone.
#[derive(Clone)]
pub struct Waker(Arc<File>);

impl Waker {
    pub fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was made just now and nobody else owns it.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self(Arc::new(File::from(fd))))
    }

    pub fn wake(&self) {
        // Fails only if the counter is full, and then the worker is awake already.
        let _ = (&*self.0).write(&1u64.to_ne_bytes());
    }

    pub(super) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

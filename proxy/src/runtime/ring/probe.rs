//! What can stop a ring from being made, in words, and the limits of this process.

use std::fs;
use std::io;

use thiserror::Error;

#[derive(Debug, Error)]
pub enum RingError {
    #[error(
        "io_uring is not there: the kernel was built without it, or a seccomp filter hides it (containers do)"
    )]
    Missing,
    #[error(
        "io_uring is switched off by the sysctl kernel.io_uring_disabled = {value}: set it to 0"
    )]
    SwitchedOff { value: String },
    #[error("io_uring is forbidden to this process, most likely by a seccomp filter")]
    Forbidden,
    #[error("the kernel is too old for this ring: Linux 6.6 or newer is needed")]
    TooOld,
    #[error("no memory for the ring: raise the limit of locked memory (ulimit -l)")]
    OutOfMemory,
    #[error("the ring cannot be set up: {0}")]
    Setup(io::Error),
}

impl RingError {
    pub(super) fn from_setup(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(libc::ENOSYS) => Self::Missing,
            Some(libc::EPERM) => match fs::read_to_string("/proc/sys/kernel/io_uring_disabled") {
                Ok(value) if value.trim() != "0" => Self::SwitchedOff {
                    value: value.trim().to_owned(),
                },
                _ => Self::Forbidden,
            },
            Some(libc::EINVAL) => Self::TooOld,
            Some(libc::ENOMEM) => Self::OutOfMemory,
            _ => Self::Setup(error),
        }
    }
}

/// Limits of this process, read once at start.
pub mod limits {
    use std::io;

    /// Raises the soft limit of open descriptors to the hard one and gives it back.
    pub fn raise_descriptors() -> io::Result<u64> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: `limit` is a valid place for the answer.
        if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
        limit.rlim_cur = limit.rlim_max;
        // SAFETY: `limit` is valid and read only.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(limit.rlim_cur)
    }

    /// Descriptors open at this moment, the one that lists them left out.
    pub fn open_descriptors() -> io::Result<u64> {
        let listed = std::fs::read_dir("/proc/self/fd")?.count() as u64;
        Ok(listed.saturating_sub(1))
    }
}

//! The file lines go to. It is opened anew when somebody has moved it away, as rotation does, and tried again after an
//! error; a file that takes no more for a while is waited for.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::time::sleep;
use tokio_uring::buf::BoundedBuf;
use tokio_uring::fs::File;

use crate::metrics::LogCounters;
use crate::runtime::words;

/// Where lines are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTarget {
    Stdout,
    File(PathBuf),
}

#[derive(Debug, Error)]
pub enum LogError {
    #[error("--access-log {}: {}", .path.display(), words::of(.source))]
    Open { path: PathBuf, source: io::Error },
    #[error("--access-log -: {}", words::of(.0))]
    Stdout(io::Error),
    #[error("the thread of the access log: {0}")]
    Thread(io::Error),
}

/// How often it is looked whether the file was moved away.
const LOOK: Duration = Duration::from_secs(1);
/// How often an error is told.
const TELL: Duration = Duration::from_secs(10);
/// How long a full pipe is left alone.
const FULL: Duration = Duration::from_millis(50);
/// The file's own position, which is its end.
const AT_END: u64 = u64::MAX;

/// A log that can be opened, found out before anything is served.
pub struct Opened {
    target: LogTarget,
    file: Option<(fs::File, Identity)>,
}

/// Device and inode.
type Identity = (u64, u64);

impl Opened {
    /// What cannot be opened is an error - but for a pipe nobody reads yet.
    pub fn new(target: LogTarget) -> Result<Self, LogError> {
        let file = match open(&target) {
            Ok(file) => Some(file),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => None,
            Err(source) => {
                return Err(match target {
                    LogTarget::File(path) => LogError::Open { path, source },
                    LogTarget::Stdout => LogError::Stdout(source),
                });
            }
        };
        Ok(Self { target, file })
    }
}

/// The log on the thread that writes it.
pub struct LogFile {
    target: LogTarget,
    open: Option<(File, Identity)>,
    looked: Instant,
    told: Option<Instant>,
    counters: Arc<LogCounters>,
}

impl LogFile {
    pub fn new(opened: Opened, counters: Arc<LogCounters>) -> Self {
        let open = opened.file;
        Self {
            target: opened.target,
            open: open.map(|(file, identity)| (File::from_std(file), identity)),
            looked: Instant::now(),
            told: None,
            counters,
        }
    }

    /// Writes so many lines, or loses them. Gives the memory back.
    pub async fn write(&mut self, lines: Vec<u8>, count: u64) -> Vec<u8> {
        let (written, lines) = self.try_write(lines).await;
        match written {
            Ok(()) => self.counters.written.add(count),
            Err(error) => {
                self.counters.lost.add(count);
                self.counters.errors.increment();
                self.tell(&error);
                self.open = None;
            }
        }
        lines
    }

    async fn try_write(&mut self, mut lines: Vec<u8>) -> (io::Result<()>, Vec<u8>) {
        self.forget_if_moved();
        let file = match self.file() {
            Ok(file) => file,
            Err(error) => return (Err(error), lines),
        };
        let mut from = 0;
        while from < lines.len() {
            let (written, rest) = file.write_at(lines.slice(from..), AT_END).submit().await;
            lines = rest.into_inner();
            match written {
                Ok(0) => return (Err(io::ErrorKind::WriteZero.into()), lines),
                Ok(count) => from += count,
                Err(error) if is_passing(&error) => sleep(FULL).await,
                Err(error) => return (Err(error), lines),
            }
        }
        (Ok(()), lines)
    }

    fn file(&mut self) -> io::Result<&File> {
        let (file, identity) = match self.open.take() {
            Some(open) => open,
            None => {
                let (file, identity) = open(&self.target)?;
                (File::from_std(file), identity)
            }
        };
        Ok(&self.open.insert((file, identity)).0)
    }

    /// A file whose name leads elsewhere by now was rotated away.
    fn forget_if_moved(&mut self) {
        let LogTarget::File(path) = &self.target else {
            return;
        };
        if self.looked.elapsed() < LOOK {
            return;
        }
        self.looked = Instant::now();
        let named = fs::metadata(path).ok().map(|found| identity(&found));
        if self.open.as_ref().map(|(_, identity)| *identity) != named {
            self.open = None;
        }
    }

    fn tell(&mut self, error: &io::Error) {
        if self.told.is_none_or(|told| told.elapsed() >= TELL) {
            self.told = Some(Instant::now());
            tracing::warn!("the access log loses lines: {}", words::of(error));
        }
    }
}

/// Never waits: a pipe nobody reads is an error (ENXIO).
fn open(target: &LogTarget) -> io::Result<(fs::File, Identity)> {
    let file = match target {
        LogTarget::Stdout => fs::File::from(io::stdout().as_fd().try_clone_to_owned()?),
        LogTarget::File(path) => OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o640)
            .custom_flags(libc::O_NONBLOCK)
            .open(path)?,
    };
    let identity = identity(&file.metadata()?);
    Ok((file, identity))
}

fn identity(metadata: &fs::Metadata) -> Identity {
    (metadata.dev(), metadata.ino())
}

fn is_passing(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

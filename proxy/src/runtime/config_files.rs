//! Reads the files of a configuration: one file, or all of a directory that end in `.yaml`, `.yml` or `.json`.

use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::words;
use crate::config::Source;

#[derive(Debug, Error)]
pub enum FilesError {
    #[error("{}: {}", .path.display(), words::of(.source))]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{}: no file in it ends in .yaml, .yml or .json", .0.display())]
    Empty(PathBuf),
}

/// The texts, in the order of their names. Directories in a directory and hidden files are left alone: that is how
/// Kubernetes mounts what it is about to exchange.
pub fn load(path: &Path) -> Result<Vec<Source>, FilesError> {
    let unreadable = |source| FilesError::Unreadable {
        path: path.to_owned(),
        source,
    };
    if !std::fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![read(path)?]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.file_name().is_some_and(is_ours_by_name) && file.is_file() {
            files.push(file);
        }
    }
    if files.is_empty() {
        return Err(FilesError::Empty(path.to_owned()));
    }
    files.sort();
    files.iter().map(|file| read(file)).collect()
}

/// Whether a file of this name in a directory is one of the configuration.
pub fn is_ours_by_name(name: &OsStr) -> bool {
    let extension = Path::new(name).extension().and_then(OsStr::to_str);
    matches!(extension, Some("yaml" | "yml" | "json")) && !name.as_encoded_bytes().starts_with(b".")
}

/// The text of one file.
pub fn read(path: &Path) -> Result<Source, FilesError> {
    let text = read_regular(path).map_err(|source| FilesError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Ok(Source {
        name: path.display().to_string(),
        text,
    })
}

/// Opening a FIFO waits for somebody who writes, and a device may have no end: neither is to hold up a reload.
fn read_regular(path: &Path) -> io::Result<String> {
    let mut options = OpenOptions::new();
    let mut file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_no_end_is_refused_at_once() {
        for path in ["/dev/zero", "/dev", "/proc/self/fd"] {
            let error = read(Path::new(path)).expect_err(path).to_string();
            assert!(error.starts_with(path), "{error}");
            assert!(error.ends_with("is not a regular file"), "{error}");
        }
    }
}

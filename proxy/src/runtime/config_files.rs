//! Reads the files of a configuration: one file, or all of a directory that end in `.yaml`, `.yml` or `.json`.

use std::ffi::OsStr;
use std::io;
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
    let text = std::fs::read_to_string(path).map_err(|source| FilesError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Ok(Source {
        name: path.display().to_string(),
        text,
    })
}

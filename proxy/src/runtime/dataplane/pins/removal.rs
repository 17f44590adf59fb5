//! Removes what is pinned: first the links, which takes the programs off their interfaces, then the tables.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::super::interfaces::Interface;
use super::super::kernel::Direction;
use super::super::link::Link;
use super::super::{tcx, xdp};
use super::filters::remove_recorded;
use super::lock::{Lock, LockError};
use super::{VIP_LOOKUP, bpffs, link_index, root};

/// What was there, and is not any more.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Removed {
    /// Interfaces programs were taken off, each once.
    pub interfaces: Vec<String>,
    pub tables: usize,
}

#[derive(Debug, thiserror::Error)]
pub enum DetachError {
    #[error("instance {instance} is in use: {source}; stop it first, or use --force")]
    InUse { instance: String, source: LockError },
    #[error("instance {instance}: filters on {} are in another network namespace: run this there", .interfaces.join(", "))]
    Elsewhere {
        instance: String,
        interfaces: Vec<String>,
    },
    #[error("instance {instance}: {source}")]
    Io { instance: String, source: io::Error },
}

/// Names of the instances that have pins.
pub fn instances(bpffs: &Path) -> io::Result<Vec<String>> {
    let folder = match fs::read_dir(root(bpffs)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        found => found?,
    };
    let mut names = folder
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<io::Result<Vec<_>>>()?;
    names.sort();
    Ok(names)
}

/// Removes everything of an instance. One that has nothing is as good.
///
/// # Errors
/// `InUse` while a process has the instance, unless `is_forced`.
pub fn detach(bpffs: &Path, instance: &str, is_forced: bool) -> Result<Removed, DetachError> {
    let root = root(bpffs);
    let folder = root.join(instance);
    let lock = match Lock::try_take(&folder) {
        Ok(None) => return Ok(Removed::default()),
        Ok(Some(lock)) => Some(lock),
        Err(LockError::Held(_)) if is_forced => None,
        Err(source @ LockError::Held(_)) => {
            return Err(DetachError::InUse {
                instance: instance.to_owned(),
                source,
            });
        }
        Err(LockError::Io(source)) => {
            return Err(DetachError::Io {
                instance: instance.to_owned(),
                source,
            });
        }
    };
    let removed = remove_instance(&folder).map_err(|source| DetachError::Io {
        instance: instance.to_owned(),
        source,
    })?;
    drop(lock);
    // Fails while there are other instances, as it should.
    let _ = fs::remove_dir(root);
    let (removed, left) = removed;
    if !left.is_empty() {
        return Err(DetachError::Elsewhere {
            instance: instance.to_owned(),
            interfaces: left,
        });
    }
    Ok(removed)
}

fn remove_instance(folder: &Path) -> io::Result<(Removed, Vec<String>)> {
    let mut total = Removed::default();
    let mut left = Vec::new();
    for layout in sorted(folder)? {
        left.extend(remove_recorded(&layout)?);
        if left.is_empty() {
            let removed = remove_layout(&layout)?;
            total.interfaces.extend(removed.interfaces);
            total.tables += removed.tables;
        }
    }
    if left.is_empty() {
        fs::remove_dir(folder)?;
    }
    total.interfaces.sort();
    total.interfaces.dedup();
    Ok((total, left))
}

/// Removes one layout's folder with all that is in it.
pub fn remove_layout(folder: &Path) -> io::Result<Removed> {
    remove_recorded(folder)?;
    let mut removed = Removed::default();
    let (links, tables): (Vec<PathBuf>, Vec<PathBuf>) = sorted(folder)?
        .into_iter()
        .partition(|path| is_link(&file_name(path)));
    for path in links {
        if let Ok(link) = Link::open(&path) {
            if file_name(&path) != VIP_LOOKUP {
                removed.interfaces.extend(interface_name(&link));
            }
            // Also from under a process that holds it. A link whose interface is gone has nothing to detach from.
            let _ = link.detach();
        }
        bpffs::remove(&path)?;
    }
    for path in tables {
        bpffs::remove(&path)?;
        removed.tables += 1;
    }
    fs::remove_dir(folder)?;
    Ok(removed)
}

fn is_link(file: &str) -> bool {
    link_index(file).is_some() || file == VIP_LOOKUP
}

/// None if it is on none any more.
fn interface_name(link: &Link) -> Option<String> {
    let index = link.interface()?;
    match Interface::at(index).filter(|_| is_on(link, index)) {
        Some(interface) => Some(interface.name),
        None => Some(format!("interface {index} of another network namespace")),
    }
}

/// Whether it is attached to this interface of our network namespace.
fn is_on(link: &Link, index: u32) -> bool {
    let mut sides = Direction::BOTH.into_iter();
    sides.any(|side| tcx::is_on(link, index, side)) || xdp::is_on(link, index)
}

fn sorted(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

//! clsact filters stay when their process is killed, and nothing in the BPF file system stands for them. A symbolic link
//! does: its target says where a filter is, so that the next process, or `weir detach`, can remove it.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use aya::programs::TcAttachType;
use aya::programs::tc::{SchedClassifierLink, TcHandle};

use super::super::interfaces::Interface;
use super::super::kernel::Direction;
use super::{Pins, bpffs, side_name};

const PREFIX: &str = "clsact_";

/// The record of one filter. Dropping it removes the record.
#[derive(Debug)]
pub struct FilterPin {
    path: PathBuf,
}

impl FilterPin {
    /// Lets the record be.
    pub fn leave(mut self) {
        // An empty path names no file.
        self.path = PathBuf::new();
    }
}

impl Drop for FilterPin {
    fn drop(&mut self) {
        // A record of a filter that is gone does no harm.
        let _ = bpffs::remove(&self.path);
    }
}

/// Where a filter is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterPlace {
    /// Inode of the network namespace.
    pub namespace: u64,
    pub interface: Interface,
    pub side: Direction,
    pub priority: u16,
    pub handle: u32,
}

impl Pins {
    /// Records a filter that was just made.
    pub fn record(
        &self,
        filter: &SchedClassifierLink,
        side: Direction,
        interface: &Interface,
    ) -> io::Result<FilterPin> {
        let place = FilterPlace {
            namespace: own_namespace()?,
            interface: interface.clone(),
            side,
            priority: filter.priority().map_err(io::Error::other)?,
            handle: filter.handle().map_err(io::Error::other)?.into(),
        };
        let file = format!("{PREFIX}{}_{}", side_name(side), interface.index);
        let path = self.folder().join(file);
        bpffs::remove(&path)?;
        symlink(place.to_string(), &path)?;
        Ok(FilterPin { path })
    }

    /// Removes the filters an earlier process left.
    pub fn remove_filters(&self) -> io::Result<Vec<String>> {
        remove_recorded(self.folder())
    }
}

/// Removes the filters recorded in a folder, and their records; names what could not be removed from here.
pub fn remove_recorded(folder: &Path) -> io::Result<Vec<String>> {
    let mut left = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        let target = fs::read_link(entry.path())?;
        match target.to_str().and_then(FilterPlace::parse) {
            Some(place) if place.namespace != own_namespace()? => {
                left.push(place.interface.name);
                continue;
            }
            Some(place) => place.remove_filter(),
            None => {}
        }
        bpffs::remove(&entry.path())?;
    }
    Ok(left)
}

impl FilterPlace {
    /// Only from the same interface: another one of its name or number may have other people's filters there.
    fn remove_filter(&self) {
        if Interface::at(self.interface.index).as_ref() != Some(&self.interface) {
            return;
        }
        let side = match self.side {
            Direction::Egress => TcAttachType::Egress,
            Direction::Ingress => TcAttachType::Ingress,
        };
        let handle = TcHandle::from(self.handle);
        let name = &self.interface.name;
        // Dropping it removes the filter.
        drop(SchedClassifierLink::attached(
            name,
            side,
            self.priority,
            handle,
            None,
        ));
    }

    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let place = Self {
            namespace: words.next()?.parse().ok()?,
            interface: Interface {
                index: words.next()?.parse().ok()?,
                name: words.next()?.to_owned(),
            },
            side: match words.next()? {
                "egress" => Direction::Egress,
                "ingress" => Direction::Ingress,
                _ => return None,
            },
            priority: words.next()?.parse().ok()?,
            handle: words.next()?.parse().ok()?,
        };
        words.next().is_none().then_some(place)
    }
}

impl fmt::Display for FilterPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{} {} {} {} {} {}",
            self.namespace,
            self.interface.index,
            self.interface.name,
            side_name(self.side),
            self.priority,
            self.handle
        )
    }
}

/// Inode of the network namespace of this thread.
fn own_namespace() -> io::Result<u64> {
    Ok(fs::metadata("/proc/thread-self/ns/net")?.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_reads_as_it_was_written_and_nonsense_does_not() {
        let place = FilterPlace {
            namespace: 4_026_531_840,
            interface: Interface {
                name: "eth0.100".to_owned(),
                index: 7,
            },
            side: Direction::Egress,
            priority: 49_152,
            handle: 1,
        };
        let text = place.to_string();
        assert_eq!(FilterPlace::parse(&text), Some(place));
        for wrong in [
            "",
            "1 2 eth0 egress 3",
            "1 2 eth0 sideways 3 4",
            &format!("{text} 1"),
        ] {
            assert_eq!(FilterPlace::parse(wrong), None, "{wrong}");
        }
    }
}

//! What outlives the process: the tables, so that the next one starts with warm scores, and the links, so that measuring
//! goes on when a process is killed. They are files under `<BPF file system>/weir/<instance>/v<layout>/`; one process at
//! a time has an instance.

pub mod bpffs;
mod filters;
mod lock;
mod removal;
mod tables;

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use weir_common::LAYOUT_VERSION;

use super::kernel::Direction;
use lock::Lock;

pub use filters::FilterPin;
pub use lock::LockError;
pub use removal::{DetachError, Removed, detach, instances};
pub use tables::{TABLES, Unfit, bytes_of, service_rows};

/// An instance's folder, ours while this lives.
#[derive(Debug)]
pub struct Pins {
    instance: PathBuf,
    layout: PathBuf,
    lock: Lock,
}

impl Pins {
    /// # Errors
    /// [`LockError::Held`] while another process has the instance, and has not handed it over; otherwise there is no place to pin.
    pub fn claim(
        bpffs: &Path,
        instance: &str,
        handed_over: Option<OwnedFd>,
    ) -> Result<Self, LockError> {
        bpffs::ensure_mounted(bpffs)?;
        let root = root(bpffs);
        let handed_over = handed_over
            .map(|lock| Lock::handed_over(&root.join(instance), lock))
            .transpose()?
            .flatten();
        let lock = match handed_over {
            Some(lock) => lock,
            None => Lock::take(&root, instance)?,
        };
        let instance = root.join(instance);
        let layout = instance.join(layout_name());
        let pins = Self {
            instance,
            layout,
            lock,
        };
        pins.make_folder()?;
        Ok(pins)
    }

    /// Another version, which has the instance for a while, removes it.
    pub fn make_folder(&self) -> io::Result<()> {
        bpffs::ensure_private(&self.layout)
    }

    /// Gives the instance back. Folders that hold nothing go: nobody has pinned anything.
    pub fn abandon(self) {
        for folder in [&self.layout, &self.instance] {
            // Fails where there is something in it, as it should.
            let _ = fs::remove_dir(folder);
        }
        let root = self.instance.parent();
        let _ = root.map(fs::remove_dir);
    }

    /// What another process takes over the instance by.
    pub fn lock(&self) -> BorrowedFd<'_> {
        self.lock.as_fd()
    }

    pub fn folder(&self) -> &Path {
        &self.layout
    }

    /// The file of a table.
    pub fn table(&self, name: &str) -> PathBuf {
        self.layout.join(name)
    }

    /// The file of a link at one side of an interface. Names of interfaces hold dots, which the file system does not
    /// want.
    pub fn link(&self, side: Direction, index: u32) -> PathBuf {
        self.layout.join(format!("{}_{index}", side_name(side)))
    }

    /// The file of the link of `xdp_ingress` to an interface.
    pub fn xdp_link(&self, index: u32) -> PathBuf {
        self.layout.join(format!("{XDP}_{index}"))
    }

    /// Indexes of the interfaces whose links of `xdp_ingress` have a file.
    pub fn xdp_indexes(&self) -> io::Result<BTreeSet<u32>> {
        let mut indexes = BTreeSet::new();
        for entry in fs::read_dir(&self.layout)? {
            let name = entry?.file_name().to_string_lossy().into_owned();
            indexes.extend(link_index(&name).filter(|_| name.starts_with(XDP)));
        }
        Ok(indexes)
    }

    /// The file of the link to the network namespace.
    pub fn vip_lookup(&self) -> PathBuf {
        self.layout.join(VIP_LOOKUP)
    }

    /// Takes the program of an earlier process off the network namespace, if it is there.
    pub fn remove_vip_lookup(&self) -> io::Result<()> {
        bpffs::remove(&self.vip_lookup())
    }

    /// Pins these in place of whatever is there.
    pub fn publish(&self, tables: &[(&str, BorrowedFd<'_>)]) -> io::Result<()> {
        for name in TABLES {
            bpffs::remove(&self.table(name))?;
        }
        for (name, fd) in tables {
            bpffs::pin(*fd, &self.table(name))?;
        }
        Ok(())
    }

    /// Removes what other versions of Weir left for this instance, links included, and names their layouts.
    pub fn remove_other_layouts(&self) -> io::Result<Vec<String>> {
        let own = layout_name();
        let mut removed = Vec::new();
        for entry in fs::read_dir(&self.instance)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name != own {
                removal::remove_layout(&entry.path())?;
                removed.push(name);
            }
        }
        Ok(removed)
    }

    /// Removes links an earlier process left on interfaces that are not among these: that detaches its programs.
    pub fn remove_other_links(
        &self,
        measured: &BTreeSet<u32>,
        with_xdp: &BTreeSet<u32>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(&self.layout)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let kept = match name.starts_with(XDP) {
                true => with_xdp,
                false => measured,
            };
            if link_index(&name).is_some_and(|index| !kept.contains(&index)) {
                bpffs::remove(&entry.path())?;
            }
        }
        Ok(())
    }
}

const VIP_LOOKUP: &str = "vip_lookup";

fn root(bpffs: &Path) -> PathBuf {
    bpffs.join("weir")
}

fn layout_name() -> String {
    format!("v{LAYOUT_VERSION}")
}

/// What the files of links of `xdp_ingress` begin with.
const XDP: &str = "xdp";

const fn side_name(side: Direction) -> &'static str {
    match side {
        Direction::Egress => "egress",
        Direction::Ingress => "ingress",
    }
}

/// The interface of a link, by the name of its file; None for other files.
fn link_index(file: &str) -> Option<u32> {
    let (side, index) = file.split_once('_')?;
    let is_link = side == XDP || Direction::BOTH.map(side_name).contains(&side);
    is_link.then(|| index.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_links_are_told_from_files_of_tables() {
        assert_eq!(link_index("egress_12"), Some(12));
        assert_eq!(link_index("ingress_1"), Some(1));
        assert_eq!(link_index("xdp_3"), Some(3));
        assert_eq!(link_index("ENDPOINT_STATE"), None);
        assert_eq!(link_index("egress_eth0"), None);
        assert_eq!(link_index("META"), None);
    }
}

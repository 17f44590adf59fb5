//! Array tables of the kernel as memory of ours. Each is mapped once, for as long as anybody holds its rows.

use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use weir_common::{Cells, Table};

use super::syscall::Shape;

/// Why an array table cannot be shared with the kernel.
#[derive(Debug, thiserror::Error)]
pub enum MappingError {
    #[error("it was made for another version of this program")]
    Layout,
    #[error("the kernel did not make it mappable")]
    NotMappable,
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Maps all rows of an array table.
///
/// # Errors
/// `Layout` if its rows are of another size than `C`, or fewer than `count`.
pub fn map_rows<C: Cells>(table: &impl AsFd, count: usize) -> Result<Table<C>, MappingError> {
    let shape = Shape::of(table.as_fd())?;
    if shape.value_size as usize != size_of::<C>() || (shape.max_entries as usize) < count {
        return Err(MappingError::Layout);
    }
    if !shape.is_mappable() {
        return Err(MappingError::NotMappable);
    }
    let mapping = Mapping::of(table, count * size_of::<C>())?;
    let rows = mapping.start.cast::<C>();
    // SAFETY: the mapping is `count` rows long, starts at a page and thereby at an address aligned for `C`, is zeroed by
    // the kernel and written by nobody but those who know the layout; the owner handed over unmaps it when it is dropped.
    Ok(unsafe { Table::over(rows, count, Arc::new(mapping)) })
}

struct Mapping {
    start: NonNull<libc::c_void>,
    length: usize,
}

impl Mapping {
    fn of(table: &impl AsFd, length: usize) -> io::Result<Self> {
        let fd = table.as_fd().as_raw_fd();
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice overlaps nothing of ours.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                libc::MAP_SHARED,
                fd,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start).ok_or(io::ErrorKind::InvalidData)?;
        Ok(Self { start, length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one `of` mapped, and whoever held its rows held this owner, too.
        unsafe { libc::munmap(self.start.as_ptr(), self.length) };
    }
}

// SAFETY: the mapping belongs to the process, not to a thread; it is only unmapped, once, by whoever drops it last.
unsafe impl Send for Mapping {}
// SAFETY: shared access does nothing.
unsafe impl Sync for Mapping {}

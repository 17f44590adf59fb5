//! A table of shared rows: memory that kernel programs and every worker write at the same time. The same type stands
//! over a BPF map's mapping and over plain memory, so there is one code path with and without BPF.

use core::ops::Deref;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::any::Any;
use std::sync::Arc;

/// A row made of atomics only.
///
/// # Safety
/// The type is `repr(C)`, has no implicit padding and consists of atomics alone, so that any bit pattern is valid and
/// other processors and the kernel may write it at any time.
pub unsafe trait Cells: Default + Send + Sync + 'static {}

/// Rows of `C`, shared. Cloning shares the same memory.
pub struct Table<C: Cells> {
    rows: NonNull<C>,
    count: usize,
    owner: Arc<dyn Any + Send + Sync>,
}

impl<C: Cells> Table<C> {
    /// A table in plain memory, all zero. Rows nobody has written to take none.
    pub fn anonymous(count: usize) -> Self {
        let rows = Layout::array::<C>(count).expect("tables are far below isize::MAX");
        let memory = Arc::new(Zeroed::with_room_for(rows));
        Self {
            rows: memory.first_aligned(rows.align()).cast(),
            count,
            owner: memory,
        }
    }

    /// A table over memory that `owner` keeps mapped.
    ///
    /// # Safety
    /// `rows` points to `count` rows of zeroed or earlier written cells, aligned for `C`, readable and writable for as
    /// long as `owner` lives.
    pub unsafe fn over(rows: NonNull<C>, count: usize, owner: Arc<dyn Any + Send + Sync>) -> Self {
        Self { rows, count, owner }
    }
}

impl<C: Cells> Deref for Table<C> {
    type Target = [C];

    fn deref(&self) -> &[C] {
        // SAFETY: `rows` holds `count` valid rows while `owner` lives, which is as long as `self`; `Cells` promises
        // that shared access to them is atomic.
        unsafe { core::slice::from_raw_parts(self.rows.as_ptr(), self.count) }
    }
}

impl<C: Cells> Clone for Table<C> {
    fn clone(&self) -> Self {
        Self {
            rows: self.rows,
            count: self.count,
            owner: self.owner.clone(),
        }
    }
}

// SAFETY: the rows are `Send + Sync` by the bound of `Cells`, and so is the owner.
unsafe impl<C: Cells> Send for Table<C> {}
// SAFETY: shared access gives `&[C]` only, and `C` is `Sync`.
unsafe impl<C: Cells> Sync for Table<C> {}

/// Memory from the allocator, which zeroes a large piece by taking it fresh from the kernel - but only where it is not
/// asked for an alignment of its own: those it would write to. So there is some room to align within.
struct Zeroed {
    start: NonNull<u8>,
    layout: Layout,
}

impl Zeroed {
    fn with_room_for(wanted: Layout) -> Self {
        let layout = Layout::from_size_align(wanted.size() + wanted.align(), align_of::<u64>())
            .expect("tables are far below isize::MAX");
        // SAFETY: the layout is not empty, as no alignment is 0.
        let start = unsafe { alloc_zeroed(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, layout }
    }

    /// The first place aligned like this. What was asked for fits behind it.
    fn first_aligned(&self, align: usize) -> NonNull<u8> {
        let offset = self.start.align_offset(align);
        // SAFETY: the next multiple of `align` is less than `align` away, and there are as many bytes more than asked for.
        unsafe { self.start.add(offset) }
    }
}

impl Drop for Zeroed {
    fn drop(&mut self) {
        // SAFETY: allocated in `with_room_for` with this layout, and whoever held the rows held this owner, too.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
    }
}

// SAFETY: the memory belongs to whoever owns the value, which is freed once; it is not tied to a thread.
unsafe impl Send for Zeroed {}
// SAFETY: shared access gives a pointer only; what is done with it is the affair of `Table`.
unsafe impl Sync for Zeroed {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EndpointState, EndpointStateCells};
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn rows_in_plain_memory_are_aligned_zero_and_apart() {
        for count in [0, 1, 3, 5000] {
            let table: Table<EndpointStateCells> = Table::anonymous(count);
            assert_eq!(table.len(), count);
            assert_eq!(
                table
                    .as_ptr()
                    .align_offset(align_of::<EndpointStateCells>()),
                0
            );
            for (number, row) in (1..).zip(&table[..]) {
                assert_eq!(row.read(), EndpointState::default());
                row.latency_samples.store(number, Relaxed);
            }
            let written = table.iter().map(|row| row.latency_samples.load(Relaxed));
            assert!(written.eq(1..=count as u64));
        }
    }
}

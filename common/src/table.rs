//! A table of shared rows: memory that kernel programs and every worker write at the same time. The same type stands
//! over a BPF map's mapping and over plain memory, so there is one code path with and without BPF.

use core::ops::Deref;
use core::ptr::NonNull;
use std::any::Any;
use std::boxed::Box;
use std::iter::repeat_with;
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
    /// A table in plain memory, all zero.
    pub fn anonymous(count: usize) -> Self {
        let rows: Arc<Box<[C]>> = Arc::new(repeat_with(C::default).take(count).collect());
        let first = NonNull::from(&rows[..]).cast();
        Self {
            rows: first,
            count,
            owner: rows,
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

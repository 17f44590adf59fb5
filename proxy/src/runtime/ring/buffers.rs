//! Receive buffers the kernel picks from by itself (a provided-buffer ring), so that an idle connection holds none.
//!
//! Where the kernel can, it fills a buffer bit by bit (`IOU_PBUF_RING_INC`, Linux 6.12): a few large buffers then serve
//! both many small receives and bulk. Each receive is handed out as a [`Slice`]; the buffer goes back to the kernel
//! when it is full and its last slice is dropped. Few buffers on purpose: the ring hands them out first-in first-out,
//! and a pool larger than the L2 cache is always cache-cold.

use std::alloc::{Layout, handle_alloc_error};
use std::cell::Cell;
use std::io;
use std::ops::{Deref, Range};
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::atomic::{AtomicU16, Ordering};

use io_uring::IoUring;
use io_uring::types::BufRingEntry;

/// The only buffer group of a worker.
pub const GROUP: u16 = 0;
const PAGE: usize = 4096;
/// `IOU_PBUF_RING_INC` of the kernel's interface.
const INCREMENTAL: u16 = 2;

/// How the pool is cut.
#[derive(Clone, Copy, Debug)]
pub struct BufferSizes {
    /// A power of two.
    pub count: u16,
    pub bytes: u32,
}

impl BufferSizes {
    /// With incremental filling: bulk gets large reads, small requests share a buffer.
    pub const INCREMENTAL: Self = Self {
        count: 16,
        bytes: 64 * 1024,
    };
    /// Without it, each receive takes a buffer whole, however small.
    pub const WHOLE: Self = Self {
        count: 128,
        bytes: 8 * 1024,
    };
}

/// The pool of one worker; clones share it.
#[derive(Clone)]
pub struct BufferPool(Rc<Pool>);

struct Pool {
    memory: NonNull<u8>,
    memory_layout: Layout,
    entries: NonNull<BufRingEntry>,
    entries_layout: Layout,
    sizes: BufferSizes,
    tail: Cell<u16>,
    buffers: Box<[Buffer]>,
    /// Buffers that are full and still referred to by a slice.
    held: Cell<u16>,
}

#[derive(Default)]
struct Buffer {
    slices: Cell<u32>,
    filled: Cell<u32>,
    with_kernel: Cell<bool>,
}

impl BufferPool {
    /// Makes a pool and registers it with `ring`. It must outlive the ring: the kernel writes to it until the ring is
    /// gone.
    pub fn register(ring: &IoUring) -> io::Result<Self> {
        Self::register_sized(ring, BufferSizes::INCREMENTAL, INCREMENTAL)
            .or_else(|_| Self::register_sized(ring, BufferSizes::WHOLE, 0))
    }

    fn register_sized(ring: &IoUring, sizes: BufferSizes, flags: u16) -> io::Result<Self> {
        let pool = Pool::allocate(sizes);
        // SAFETY: the entries are page-aligned, hold `count` entries, and live as long as the pool, which the ring's
        // owner keeps beyond the ring.
        unsafe {
            ring.submitter().register_buf_ring_with_flags(
                pool.entries.as_ptr() as u64,
                sizes.count,
                GROUP,
                flags,
            )
        }?;
        for id in 0..sizes.count {
            pool.give_to_kernel(id);
        }
        Ok(Self(Rc::new(pool)))
    }

    /// The bytes of one receive: `length` bytes behind those already handed out of buffer `id`. `more` says that the
    /// kernel goes on filling this buffer. `None` if the kernel names bytes the pool does not have.
    pub fn received(&self, id: u16, length: u32, more: bool) -> Option<Slice> {
        let buffer = self.0.buffers.get(usize::from(id))?;
        let start = buffer.filled.get();
        let end = start
            .checked_add(length)
            .filter(|end| *end <= self.0.sizes.bytes)?;
        buffer.filled.set(end);
        buffer.slices.set(buffer.slices.get() + 1);
        if !more {
            buffer.with_kernel.set(false);
            self.0.held.set(self.0.held.get() + 1);
        }
        Some(Slice {
            pool: self.0.clone(),
            id,
            start,
            end,
        })
    }

    /// Whether so many buffers are held that new bytes should be copied out instead.
    pub fn is_scarce(&self) -> bool {
        self.0.held.get() >= self.0.sizes.count / 2
    }

    pub fn is_exhausted(&self) -> bool {
        self.0.held.get() >= self.0.sizes.count
    }

    /// Buffers that are full and not given back yet.
    pub fn held(&self) -> u16 {
        self.0.held.get()
    }
}

impl Pool {
    fn allocate(sizes: BufferSizes) -> Self {
        let layout = |bytes: usize| {
            Layout::from_size_align(bytes, PAGE).expect("a pool is far below isize::MAX")
        };
        let memory_layout = layout(sizes.bytes as usize * usize::from(sizes.count));
        let entries_layout = layout(size_of::<BufRingEntry>() * usize::from(sizes.count));
        Self {
            memory: map(memory_layout),
            memory_layout,
            entries: map(entries_layout).cast(),
            entries_layout,
            sizes,
            tail: Cell::new(0),
            buffers: (0..sizes.count).map(|_| Buffer::default()).collect(),
            held: Cell::new(0),
        }
    }

    fn start_of(&self, id: u16) -> NonNull<u8> {
        debug_assert!(id < self.sizes.count);
        let offset = usize::from(id) * self.sizes.bytes as usize;
        // SAFETY: `id < count`, so the offset lies within the allocation of `count * bytes`.
        unsafe { self.memory.add(offset) }
    }

    fn give_to_kernel(&self, id: u16) {
        let buffer = &self.buffers[usize::from(id)];
        buffer.filled.set(0);
        buffer.with_kernel.set(true);
        let tail = self.tail.get();
        let place = usize::from(tail & (self.sizes.count - 1));
        // SAFETY: `place < count`, the number of entries allocated.
        let entry = unsafe { self.entries.add(place) };
        // SAFETY: the kernel reads this entry only once the tail below has passed it.
        let entry = unsafe { &mut *entry.as_ptr() };
        entry.set_addr(self.start_of(id).as_ptr() as u64);
        entry.set_len(self.sizes.bytes);
        entry.set_bid(id);
        self.tail.set(tail.wrapping_add(1));
        self.publish_tail();
    }

    fn publish_tail(&self) {
        // SAFETY: `entries` is the base of the ring, as `tail` wants.
        let tail = unsafe { BufRingEntry::tail(self.entries.as_ptr()) };
        // SAFETY: the tail is an aligned u16 in our allocation that the kernel only reads.
        let tail = unsafe { AtomicU16::from_ptr(tail.cast_mut()) };
        tail.store(self.tail.get(), Ordering::Release);
    }

    fn release(&self, id: u16) {
        let buffer = &self.buffers[usize::from(id)];
        buffer.slices.set(buffer.slices.get() - 1);
        if buffer.slices.get() == 0 && !buffer.with_kernel.get() {
            self.held.set(self.held.get() - 1);
            self.give_to_kernel(id);
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: mapped in `allocate` with this length, and no slice is left, as each keeps the pool alive.
        unsafe { libc::munmap(self.memory.as_ptr().cast(), self.memory_layout.size()) };
        // SAFETY: as above; the ring that knew these entries is gone, as its owner drops it first.
        unsafe { libc::munmap(self.entries.as_ptr().cast(), self.entries_layout.size()) };
    }
}

/// Memory of its own pages, all zero. Those nobody writes to take no memory: a worker without traffic has no buffers.
fn map(layout: Layout) -> NonNull<u8> {
    const ACCESS: i32 = libc::PROT_READ | libc::PROT_WRITE;
    const KIND: i32 = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at a place the kernel chooses touches nothing that exists.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), layout.size(), ACCESS, KIND, -1, 0) };
    let memory = NonNull::new(memory.cast()).filter(|_| memory != libc::MAP_FAILED);
    memory.unwrap_or_else(|| handle_alloc_error(layout))
}

/// Received bytes; the buffer they lie in goes back to the kernel when the last of its slices is dropped.
pub struct Slice {
    pool: Rc<Pool>,
    id: u16,
    start: u32,
    end: u32,
}

impl Slice {
    /// A part of these bytes that shares the buffer.
    pub fn part(&self, range: Range<usize>) -> Slice {
        let bytes = &self[range.clone()];
        let start = self.start + range.start as u32;
        let end = start + bytes.len() as u32;
        let buffer = &self.pool.buffers[usize::from(self.id)];
        buffer.slices.set(buffer.slices.get() + 1);
        Slice {
            pool: self.pool.clone(),
            id: self.id,
            start,
            end,
        }
    }
}

impl Deref for Slice {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let length = (self.end - self.start) as usize;
        // SAFETY: `start <= end <= bytes`, so this stays within the buffer.
        let start = unsafe { self.pool.start_of(self.id).add(self.start as usize) };
        // SAFETY: the kernel wrote these bytes and will not touch them again before the buffer is given back, which
        // this slice prevents; what it still fills lies behind `end`.
        unsafe { std::slice::from_raw_parts(start.as_ptr(), length) }
    }
}

impl Drop for Slice {
    fn drop(&mut self) {
        self.pool.release(self.id);
    }
}

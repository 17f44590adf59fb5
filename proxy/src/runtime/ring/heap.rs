//! Memory the allocator keeps although nobody uses it.

/// Gives the free pages of the heap back to the system. Takes up to some milliseconds, in which threads that allocate
/// may have to wait: for quiet moments.
#[cfg(target_env = "gnu")]
pub fn give_back() {
    // SAFETY: the call takes a number and touches only what the allocator has free, under its own locks.
    unsafe { libc::malloc_trim(0) };
}

/// Other allocators give back by themselves, or not at all.
#[cfg(not(target_env = "gnu"))]
pub fn give_back() {}

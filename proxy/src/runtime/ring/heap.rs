//! Memory the allocator keeps although nobody uses it.

/// Keeps large pieces out of the heap: they are mapped, which lets them grow in place and go back when they are freed. By
/// itself the allocator raises the bound to the largest piece it saw freed, and from then on a list of connections that
/// doubles leaves all its former selves in the heap. Said once, at the start.
#[cfg(target_env = "gnu")]
pub fn map_large_pieces() {
    const LARGE: libc::c_int = 128 * 1024;
    // SAFETY: the call takes two numbers and changes a setting of the allocator, under its own lock.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Other allocators have no such bound.
#[cfg(not(target_env = "gnu"))]
pub fn map_large_pieces() {}

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

//! The only folder that touches the world: descriptors, the kernel, threads and clocks.

pub mod ring;

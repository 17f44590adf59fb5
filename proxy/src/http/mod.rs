//! Version-free HTTP: framing, hop-by-hop fields. Each version has a module below.
pub mod h1;

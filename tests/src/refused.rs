//! A Weir one of whose kernel programs no verifier accepts: the binary under test, with the first instruction of that
//! program made to read a register nobody has written.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context, Result};

use crate::weir::binary;

/// The patched binary. It is gone when this is.
pub struct Refused(PathBuf);

impl Refused {
    /// `section` of the kernel object is the program's, as `sk_lookup`.
    pub fn new(section: &str) -> Result<Self> {
        let mut bytes = fs::read(binary()?)?;
        let object = objects(&bytes).find_map(|start| {
            let place = section_of(&bytes[start..], section)?;
            Some(start + place)
        });
        let place = object.context("the binary holds no kernel object with that program")?;
        // r0 = r9
        const MOVE: [u8; 8] = [0xbf, 0x90, 0, 0, 0, 0, 0, 0];
        bytes[place..place + MOVE.len()].copy_from_slice(&MOVE);
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("weir-refused-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::write(&path, bytes)?;
        let refused = Self(path);
        fs::set_permissions(&refused.0, PermissionsExt::from_mode(0o755))?;
        Ok(refused)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Refused {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Where ELF files for the BPF machine begin.
fn objects(bytes: &[u8]) -> impl Iterator<Item = usize> {
    const EM_BPF: [u8; 2] = [247, 0];
    let headers = bytes.windows(20).enumerate();
    headers
        .filter(|(_, header)| header.starts_with(b"\x7fELF") && header[18..20] == EM_BPF)
        .map(|(start, _)| start)
}

/// Offset of a section's bytes in a 64-bit little-endian ELF file.
fn section_of(elf: &[u8], wanted: &str) -> Option<usize> {
    let number = |at: usize, length: usize| -> Option<usize> {
        let bytes = elf.get(at..at + length)?;
        let value = bytes
            .iter()
            .rev()
            .fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        usize::try_from(value).ok()
    };
    let (table, size) = (number(40, 8)?, number(58, 2)?);
    let (count, names) = (number(60, 2)?, number(62, 2)?);
    let offset = |index: usize| number(table + index * size + 24, 8);
    let names = offset(names)?;
    (0..count).find_map(|index| {
        let name = elf.get(names + number(table + index * size, 4)?..)?;
        let is_it = name.starts_with(wanted.as_bytes()) && name.get(wanted.len()) == Some(&0);
        is_it.then(|| offset(index))?
    })
}

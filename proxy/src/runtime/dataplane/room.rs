//! Whether the host has room for the tables. The kernel gives all of a table's memory at once, as long as it finds any,
//! and takes it from whoever else is there: that is found out before it is asked.

use super::pins::{TABLES, bytes_of};
use super::unavailable::Unavailable;
use crate::balance::shared::Sizes;

/// Refuses tables that are larger than the memory that is available, and names the largest.
pub fn check(sizes: Sizes, connections: u32) -> Result<(), Unavailable> {
    // Where the kernel does not tell, it is left to find out.
    match available() {
        Some(available) => check_within(available, sizes, connections),
        None => Ok(()),
    }
}

fn check_within(available: u64, sizes: Sizes, connections: u32) -> Result<(), Unavailable> {
    let bytes = |table: &'static str| bytes_of(table, sizes, connections);
    let total = TABLES
        .iter()
        .fold(0_u64, |sum, table| sum.saturating_add(bytes(table)));
    match TABLES.iter().max_by_key(|table| bytes(table)) {
        Some(table) if total > available => Err(Unavailable::Memory {
            table,
            bytes: bytes(table),
            total,
            available,
        }),
        _ => Ok(()),
    }
}

/// Bytes of memory that can be had without swapping.
fn available() -> Option<u64> {
    listed(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn listed(text: &str) -> Option<u64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_larger_than_the_memory_that_is_left_are_refused_by_name_and_size() {
        let sizes = Sizes {
            capacity: 1 << 20,
            workers: 1024,
            cpus: 2,
            flows: 1,
        };
        let refused = check_within(8 << 30, sizes, 4096).expect_err("32 GiB for one of them");
        let said = refused.to_string();
        assert!(said.contains("ENDPOINT_ATTEMPTS alone 32768 MiB"), "{said}");
        assert!(said.contains("has 8192 MiB left"), "{said}");
        let few = Sizes {
            capacity: 4096,
            workers: 2,
            ..sizes
        };
        assert!(check_within(8 << 30, few, 4096).is_ok());
        let refused = check_within(8 << 30, few, 1 << 26).expect_err("10 GiB of connections");
        assert!(refused.to_string().contains("CONNECTION"), "{refused}");
    }

    #[test]
    fn what_is_available_is_read_off_the_kernels_list() {
        let text = "MemTotal:       24000000 kB\nMemAvailable:   23000 kB\nBuffers: 1 kB\n";
        assert_eq!(listed(text), Some(23_000 << 10));
        assert_eq!(listed("MemTotal: 1 kB\n"), None);
    }
}

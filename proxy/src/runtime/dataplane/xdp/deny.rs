//! The deny list in the kernel: two tables of prefixes, one for each family.

use std::io;
use std::net::IpAddr;

use weir_common::{DenyKeyV4, DenyKeyV6};

use super::super::keys;
use super::super::syscall::HashTable;
use crate::snapshot::{DenyList, Prefix};

pub struct DenyTables {
    pub v4: HashTable<DenyKeyV4, u32>,
    pub v6: HashTable<DenyKeyV6, u32>,
}

impl DenyTables {
    /// Goes from one list to another: what is new is denied first, then what is left out is let in again, so that what
    /// both deny is denied all the time.
    ///
    /// # Errors
    /// What the kernel says, mostly for want of memory; then what was denied before is denied still, and nothing else.
    pub fn exchange(&self, before: &DenyList, after: &DenyList) -> io::Result<()> {
        for prefix in after.beyond(before) {
            if let Err(error) = self.insert(prefix) {
                for added in after.beyond(before) {
                    self.remove(added)?;
                }
                return Err(error);
            }
        }
        for prefix in before.beyond(after) {
            self.remove(prefix)?;
        }
        Ok(())
    }

    fn insert(&self, prefix: Prefix) -> io::Result<()> {
        match key(prefix) {
            Key::V4(key) => self.v4.insert(&key, &1),
            Key::V6(key) => self.v6.insert(&key, &1),
        }
    }

    /// One that is not there is as good.
    fn remove(&self, prefix: Prefix) -> io::Result<()> {
        match key(prefix) {
            Key::V4(key) => self.v4.remove(&key),
            Key::V6(key) => self.v6.remove(&key),
        }
        .map(|_| ())
    }
}

enum Key {
    V4(DenyKeyV4),
    V6(DenyKeyV6),
}

fn key(prefix: Prefix) -> Key {
    let length = prefix.length().into();
    match prefix.first() {
        IpAddr::V4(v4) => Key::V4(DenyKeyV4 {
            length,
            address: u32::from_ne_bytes(v4.octets()),
        }),
        v6 @ IpAddr::V6(_) => Key::V6(DenyKeyV6 {
            length,
            address: keys::address(v6),
        }),
    }
}

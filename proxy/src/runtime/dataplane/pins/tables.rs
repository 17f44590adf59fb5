//! Whether the tables an earlier process pinned are of use to this one: of our layout, whole, and large enough.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use weir_common::{
    Connection, ConnectionKey, EndpointAttempts, EndpointIdentity, EndpointLoad, EndpointOutlook,
    EndpointReading, EndpointScore, EndpointState, EndpointWire, LAYOUT_VERSION, MAGIC, Meta,
    MetaCells, Reason, Service, ServiceEndpoint,
};

use super::super::mapping::map_rows;
use super::super::syscall::Shape;
use super::{Pins, bpffs};
use crate::balance::shared::Sizes;

/// The tables that are pinned, `META` last: where it is, the others are. `FLOW`, `FLOW_SAMPLE` and `ENDPOINT_ID` speak of
/// connections and rows of one process, and end with it.
pub const TABLES: [&str; 13] = [
    "ENDPOINT_READING",
    "ENDPOINT_OUTLOOK",
    "ENDPOINT_SCORE",
    "SERVICE_ENDPOINT",
    "SERVICE",
    "CONNECTION",
    "ENDPOINT_STATE",
    "ENDPOINT_IDENTITY",
    "ENDPOINT_LOAD",
    "ENDPOINT_ATTEMPTS",
    "ENDPOINT_WIRE",
    "REASON",
    "META",
];

/// Why pinned tables are not used.
#[derive(Debug, thiserror::Error)]
pub enum Unfit {
    #[error("there are none")]
    None,
    #[error("{0} is missing")]
    Incomplete(&'static str),
    #[error("{0} is of another shape")]
    Shape(&'static str),
    #[error("they are of another layout")]
    Layout,
    #[error("they are for {} endpoints, {} workers and {} CPUs", .0.capacity, .0.workers, .0.cpus)]
    Size(Sizes),
    #[error("they are for {} connections of L4 services, and {} are needed", .found / 2, .needed / 2)]
    Connections { found: u32, needed: u32 },
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Pins {
    /// The sizes of the tables an earlier process pinned, if a process with these needs can go on with them; `connections`
    /// are rows of `CONNECTION`.
    pub fn adoptable(&self, needed: Sizes, connections: u32) -> Result<Sizes, Unfit> {
        let tables = self.open_all()?;
        let [.., (_, meta)] = &tables;
        let meta = map_rows::<MetaCells>(&meta.as_fd(), 1).map_err(|_| Unfit::Shape("META"))?;
        let meta = meta[0].read();
        if (meta.magic, meta.layout_version) != (MAGIC, LAYOUT_VERSION) {
            return Err(Unfit::Layout);
        }
        let found = sizes(&meta, needed.flows).ok_or(Unfit::Layout)?;
        for (name, fd) in &tables {
            let shape = Shape::of(fd.as_fd())?;
            let (value, rows) = expected(name, found);
            let is_fit = shape.value_size as usize == value
                && rows.is_none_or(|rows| rows == shape.max_entries as usize);
            if !is_fit {
                return Err(Unfit::Shape(name));
            }
            if *name == "CONNECTION" {
                are_enough(shape.max_entries, connections)?;
            }
        }
        let is_enough = found.capacity >= needed.capacity && found.workers >= needed.workers;
        if !is_enough || found.cpus != needed.cpus {
            return Err(Unfit::Size(found));
        }
        Ok(found)
    }

    fn open_all(&self) -> Result<[(&'static str, OwnedFd); TABLES.len()], Unfit> {
        let mut missing = None;
        let mut tables = Vec::new();
        for name in TABLES {
            // Asked of the file system first: whoever may not open anything is to hear of that, not of tables.
            let file = self.table(name);
            match file.symlink_metadata().and_then(|_| bpffs::open(&file)) {
                Ok(fd) => tables.push((name, fd)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => missing = Some(name),
                Err(error) => return Err(error.into()),
            }
        }
        let is_empty = tables.is_empty();
        tables.try_into().map_err(|_| match missing {
            Some(name) if !is_empty => Unfit::Incomplete(name),
            _ => Unfit::None,
        })
    }
}

/// More will do. With fewer, connections that stand would make room for new ones, and nobody would hear of it.
fn are_enough(found: u32, needed: u32) -> Result<(), Unfit> {
    match found >= needed {
        true => Ok(()),
        false => Err(Unfit::Connections { found, needed }),
    }
}

/// None for numbers no table can have.
fn sizes(meta: &Meta, flows: usize) -> Option<Sizes> {
    let within = |count: u64| usize::try_from(count).ok().filter(|count| *count < 1 << 24);
    Some(Sizes {
        capacity: within(meta.capacity)?,
        workers: within(meta.workers)?,
        cpus: within(meta.cpus)?,
        flows,
    })
}

/// Bytes a table of these sizes takes at once, with so many rows of `CONNECTION`; of `SERVICE`, which is small, none.
pub fn bytes_of(table: &str, sizes: Sizes, connections: u32) -> u64 {
    /// What the kernel has for each element of a hash table beside key and value, its bucket included.
    const ELEMENT: usize = 64;
    let (value, rows) = match table {
        "CONNECTION" => (
            size_of::<ConnectionKey>() + size_of::<Connection>() + ELEMENT,
            Some(connections as usize),
        ),
        _ => expected(table, sizes),
    };
    (value as u64).saturating_mul(rows.unwrap_or(0) as u64)
}

/// Rows of `SERVICE_ENDPOINT`: twice those a change can need, so that it is written beside what is drawn from.
pub fn service_rows(capacity: usize) -> usize {
    2 * capacity.max(1)
}

/// Bytes of a value, and rows; None where any number of them will do.
fn expected(table: &str, sizes: Sizes) -> (usize, Option<usize>) {
    let (value, rows) = match table {
        "CONNECTION" => return (size_of::<Connection>(), None),
        "SERVICE" => return (size_of::<Service>(), None),
        "SERVICE_ENDPOINT" => (size_of::<ServiceEndpoint>(), service_rows(sizes.capacity)),
        "ENDPOINT_SCORE" => (size_of::<EndpointScore>(), sizes.capacity),
        "ENDPOINT_READING" => (size_of::<EndpointReading>(), sizes.capacity),
        "ENDPOINT_OUTLOOK" => (size_of::<EndpointOutlook>(), sizes.capacity),
        "ENDPOINT_STATE" => (size_of::<EndpointState>(), sizes.capacity),
        "ENDPOINT_IDENTITY" => (size_of::<EndpointIdentity>(), sizes.capacity),
        "ENDPOINT_LOAD" => (size_of::<EndpointLoad>(), sizes.workers * sizes.capacity),
        "ENDPOINT_ATTEMPTS" => (
            size_of::<EndpointAttempts>(),
            sizes.workers * sizes.capacity,
        ),
        "ENDPOINT_WIRE" => (size_of::<EndpointWire>(), sizes.cpus * sizes.capacity),
        "REASON" => (size_of::<u64>(), Reason::COUNT as usize),
        _ => (size_of::<Meta>(), 1),
    };
    (value, Some(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_fewer_connections_than_are_needed_is_refused_with_both_numbers() {
        let refused = are_enough(4096, 131_072).expect_err("too few");
        assert_eq!(
            refused.to_string(),
            "they are for 2048 connections of L4 services, and 65536 are needed"
        );
        assert!(are_enough(131_072, 4096).is_ok());
        assert!(are_enough(4096, 4096).is_ok());
    }
}

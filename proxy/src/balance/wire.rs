//! What kernel programs count of each endpoint on the wire, in a row for each CPU. Scrapers, dumps and rows that change
//! hands look at it, and nobody else; so the kernel's table is asked row by row and not mapped: all of a mapped table is
//! resident, which here would be half a megabyte for each CPU.

use std::sync::Arc;

use weir_common::EndpointWire;

use super::shared::Sizes;

/// Rows `cpu * capacity + endpoint`, wherever they lie.
pub trait WireRows: Send + Sync {
    fn read(&self, row: usize) -> EndpointWire;

    /// A packet that is just passing may still be counted afterwards.
    fn clear(&self, row: usize);
}

/// Without kernel programs.
pub struct NothingCounted;

impl WireRows for NothingCounted {
    fn read(&self, _row: usize) -> EndpointWire {
        EndpointWire::default()
    }

    fn clear(&self, _row: usize) {}
}

/// A test counts in the kernel's place.
#[cfg(test)]
impl WireRows for weir_common::Table<weir_common::EndpointWireCells> {
    fn read(&self, row: usize) -> EndpointWire {
        self[row].read()
    }

    fn clear(&self, row: usize) {
        self[row].clear();
    }
}

/// `ENDPOINT_WIRE`, summed over CPUs. Clones share the rows.
#[derive(Clone)]
pub struct Wire {
    rows: Arc<dyn WireRows>,
    capacity: usize,
    cpus: usize,
}

impl Wire {
    pub fn over(rows: impl WireRows + 'static, sizes: Sizes) -> Self {
        Self {
            rows: Arc::new(rows),
            capacity: sizes.capacity,
            cpus: sizes.cpus,
        }
    }

    /// What was counted of one endpoint; all zero where nobody counts.
    pub fn total(&self, endpoint: u32) -> EndpointWire {
        let mut total = EndpointWire::default();
        for place in self.places(endpoint) {
            let row = self.rows.read(place);
            total.started += row.started;
            total.finished += row.finished;
            total.first_byte_ns_sum += row.first_byte_ns_sum;
            total.first_byte_count += row.first_byte_count;
            total.connect_ns_sum += row.connect_ns_sum;
            total.connect_count += row.connect_count;
            total.opened += row.opened;
            total.closed += row.closed;
            total.retransmits += row.retransmits;
            total.resets += row.resets;
            total.bytes_out += row.bytes_out;
            total.bytes_in += row.bytes_in;
        }
        total
    }

    /// Forgets what was counted of an endpoint that is gone.
    pub fn forget(&self, endpoint: u32) {
        self.places(endpoint)
            .for_each(|place| self.rows.clear(place));
    }

    fn places(&self, endpoint: u32) -> impl Iterator<Item = usize> {
        let capacity = self.capacity;
        (0..self.cpus).map(move |cpu| cpu * capacity + endpoint as usize)
    }
}

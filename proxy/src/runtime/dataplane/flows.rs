//! Registers a worker's upstream connections with the kernel, which then measures them. Slots of `FLOW_SAMPLE` are
//! divided among the workers once, so that a worker gives and takes its own without a lock.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use weir_common::{Flow, FlowKey, FlowSampleCells, Table};

use super::keys::flow_key;
use super::syscall::HashTable;
use crate::seam::{FlowSlot, Peer};

pub type FlowTable = HashTable<FlowKey, Flow>;

/// One worker's share of the flow slots.
pub struct Flows {
    /// None without BPF.
    table: Option<Arc<FlowTable>>,
    samples: Table<FlowSampleCells>,
    slots: Slots,
    unmeasured: Arc<Unmeasured>,
}

impl Flows {
    pub(super) fn new(
        table: Option<Arc<FlowTable>>,
        samples: Table<FlowSampleCells>,
        range: Range<u32>,
        unmeasured: Arc<Unmeasured>,
    ) -> Self {
        Self {
            table,
            samples,
            slots: Slots::new(range),
            unmeasured,
        }
    }

    /// Has the kernel measure a connection from its next byte on: call it when the connection is made and before its
    /// first request is sent. Its samples will lie in row `slot` of `FLOW_SAMPLE`, which is zeroed here.
    ///
    /// None if the connection goes unmeasured, which is counted: there is no BPF, or no room.
    pub fn register(&mut self, local: SocketAddr, peer: Peer) -> Option<FlowSlot> {
        let Some(table) = &self.table else {
            self.unmeasured.no_kernel.fetch_add(1, Relaxed);
            return None;
        };
        let key = flow_key(local, peer.address);
        let Some(slot) = self.slots.take(key) else {
            self.unmeasured.no_room.fetch_add(1, Relaxed);
            return None;
        };
        let sample = &self.samples[slot as usize];
        sample.exchange.store(0, Relaxed);
        sample.first_byte_ns.store(0, Relaxed);
        let flow = Flow {
            endpoint: peer.endpoint,
            slot,
            generation: peer.generation,
            ..Flow::default()
        };
        if table.insert(&key, &flow).is_err() {
            self.slots.give_back(slot);
            self.unmeasured.no_room.fetch_add(1, Relaxed);
            return None;
        }
        Some(FlowSlot(slot))
    }

    /// Ends measuring a connection. Best called after its descriptor was closed, so that the kernel still sees and
    /// counts the end; earlier, it makes the kernel ignore what follows, as for a connection that became a tunnel.
    /// A slot that is not out does nothing.
    pub fn release(&mut self, slot: FlowSlot) {
        let Some(key) = self.slots.give_back(slot.0) else {
            return;
        };
        let Some(table) = &self.table else {
            return;
        };
        // After the close the port may belong to another worker's connection already, which is not ours to remove.
        let is_ours = matches!(table.find(&key), Ok(Some(flow)) if flow.slot == slot.0);
        if is_ours && table.remove(&key).is_err() {
            self.unmeasured.not_removed.fetch_add(1, Relaxed);
        }
    }
}

/// Slots that are free, and the connections of those that are not. Memory grows with the most that were out at a time.
struct Slots {
    range: Range<u32>,
    /// Connection of `range.start + index`; None while the slot is free.
    keys: Vec<Option<FlowKey>>,
    free: Vec<u32>,
}

impl Slots {
    fn new(range: Range<u32>) -> Self {
        Self {
            range,
            keys: Vec::new(),
            free: Vec::new(),
        }
    }

    fn take(&mut self, key: FlowKey) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.keys[index as usize] = Some(key);
            return Some(self.range.start + index);
        }
        let index = u32::try_from(self.keys.len()).ok()?;
        let slot = self.range.start.checked_add(index)?;
        if slot >= self.range.end {
            return None;
        }
        self.keys.push(Some(key));
        Some(slot)
    }

    fn give_back(&mut self, slot: u32) -> Option<FlowKey> {
        let index = slot.checked_sub(self.range.start)?;
        let key = self.keys.get_mut(index as usize)?.take()?;
        self.free.push(index);
        Some(key)
    }
}

/// What the kernel does not measure: connections, and of endpoints the handshakes.
#[derive(Debug, Default)]
pub struct Unmeasured {
    /// There is no BPF.
    pub no_kernel: AtomicU64,
    /// All slots of the worker were out, or `FLOW` was full.
    pub no_room: AtomicU64,
    /// A flow could not be removed: it occupies its place in `FLOW` until its port is used again.
    pub not_removed: AtomicU64,
    /// `ENDPOINT_ID` had no room for an endpoint.
    pub unidentified: AtomicU64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(port: u16) -> FlowKey {
        FlowKey {
            local_port: port,
            ..FlowKey::default()
        }
    }

    #[test]
    fn slots_of_a_worker_stay_in_its_range_and_run_out() {
        let mut slots = Slots::new(4..6);
        assert_eq!(slots.take(key(1)), Some(4));
        assert_eq!(slots.take(key(2)), Some(5));
        assert_eq!(slots.take(key(3)), None);
    }

    #[test]
    fn a_slot_given_back_is_given_out_again_with_its_new_connection() {
        let mut slots = Slots::new(4..5);
        slots.take(key(1));
        assert_eq!(slots.give_back(4), Some(key(1)));
        assert_eq!(slots.take(key(2)), Some(4));
        assert_eq!(slots.give_back(4), Some(key(2)));
    }

    #[test]
    fn a_slot_that_is_not_out_cannot_be_given_back() {
        let mut slots = Slots::new(4..6);
        slots.take(key(1));
        assert_eq!(slots.give_back(3), None);
        assert_eq!(slots.give_back(5), None);
        slots.give_back(4);
        assert_eq!(slots.give_back(4), None, "twice");
        assert_eq!(slots.free.len(), 1);
    }

    #[test]
    fn without_bpf_every_connection_is_counted_as_unmeasured() {
        let unmeasured = Arc::new(Unmeasured::default());
        let mut flows = Flows::new(None, Table::anonymous(4), 0..4, unmeasured.clone());
        let peer = Peer {
            address: "10.0.0.2:80".parse().expect("an address"),
            endpoint: 0,
            generation: 0,
        };
        let local = "10.0.0.1:40000".parse().expect("an address");
        assert_eq!(flows.register(local, peer), None);
        assert_eq!(unmeasured.no_kernel.load(Relaxed), 1);
    }
}

//! The tables. User space gives those whose size depends on it their size when it loads the programs.

use aya_ebpf::Global;
use aya_ebpf::bindings::BPF_F_MMAPABLE;
use aya_ebpf::macros::map;
use aya_ebpf::maps::{
    Array, HashMap, LpmTrie, LruHashMap, PerCpuArray, ReusePortSockArray, SockMap,
};
use weir_common::{
    Address, Connection, ConnectionKey, EndpointAttempts, EndpointId, EndpointIdValue,
    EndpointIdentity, EndpointLoad, EndpointOutlook, EndpointReading, EndpointScore, EndpointState,
    EndpointWire, Flow, FlowKey, FlowSample, LISTENER_GROUPS, ListenerGroup, MAX_DENIED, Meta,
    Reason, Service, ServiceEndpoint, ServiceKey, VIP_PREFIXES, Vip, VipKey, Worker, WorkerSteered,
};

/// Endpoints the tables hold, and the stride of `ENDPOINT_WIRE`. Set at load, so that programs see a constant.
#[unsafe(no_mangle)]
static CAPACITY: Global<u32> = Global::new(1);

#[inline(always)]
pub fn capacity() -> u32 {
    CAPACITY.load()
}

#[map]
pub static META: Array<Meta> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
pub static ENDPOINT_ID: HashMap<EndpointId, EndpointIdValue> = HashMap::with_max_entries(1, 0);

#[map]
pub static ENDPOINT_WIRE: Array<EndpointWire> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
pub static ENDPOINT_STATE: Array<EndpointState> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
static ENDPOINT_READING: Array<EndpointReading> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
static ENDPOINT_OUTLOOK: Array<EndpointOutlook> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
static ENDPOINT_IDENTITY: Array<EndpointIdentity> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
static ENDPOINT_LOAD: Array<EndpointLoad> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
static ENDPOINT_ATTEMPTS: Array<EndpointAttempts> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
pub static FLOW: HashMap<FlowKey, Flow> = HashMap::with_max_entries(1, 0);

#[map]
pub static FLOW_SAMPLE: Array<FlowSample> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
pub static WORKER: Array<Worker> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
pub static WORKER_STEERED: Array<WorkerSteered> = Array::with_max_entries(1, BPF_F_MMAPABLE);

#[map]
pub static LISTENER: ReusePortSockArray = ReusePortSockArray::with_max_entries(1, 0);

/// Sockets of listeners on virtual addresses: those of `LISTENER` cannot be assigned by `vip_lookup`.
#[map]
pub static VIP_LISTENER: SockMap = SockMap::with_max_entries(1, 0);

/// [`VipKey`] is what the trie takes for its key: the bits that count, then the bits.
#[map]
pub static VIP: LpmTrie<VipBits, Vip> = LpmTrie::with_max_entries(VIP_PREFIXES, 0);

/// [`VipKey`] without its length.
pub type VipBits = [u32; 5];

const _: () = assert!(size_of::<aya_ebpf::maps::lpm_trie::Key<VipBits>>() == size_of::<VipKey>());

/// One entry for each socket of `LISTENER` and `VIP_LISTENER`.
#[map]
pub static LISTENER_GROUP: HashMap<u64, ListenerGroup> =
    HashMap::with_max_entries(LISTENER_GROUPS, 0);

#[map]
pub static REASON: PerCpuArray<u64> = PerCpuArray::with_max_entries(Reason::COUNT, 0);

/// A SYN to an endpoint on its way.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Connecting {
    pub sent_ns: u64,
    pub generation: u64,
    pub endpoint: u32,
    /// Initial sequence number of the connection.
    pub sequence: u32,
}

/// Handshakes under way. The oldest make room: those are answers that never came.
#[map]
pub static CONNECTING: LruHashMap<FlowKey, Connecting> = LruHashMap::with_max_entries(4096, 0);

/// Denied sources. Keys are `DenyKeyV4`; values say nothing.
#[map]
pub static DENY_V4: LpmTrie<u32, u32> = LpmTrie::with_max_entries(2 * MAX_DENIED, 0);

/// Denied sources. Keys are `DenyKeyV6`; values say nothing.
#[map]
pub static DENY_V6: LpmTrie<Address, u32> = LpmTrie::with_max_entries(2 * MAX_DENIED, 0);

/// What clients send to.
#[map]
pub static SERVICE: HashMap<ServiceKey, Service> = HashMap::with_max_entries(1024, 0);

#[map]
pub static SERVICE_ENDPOINT: Array<ServiceEndpoint> = Array::with_max_entries(1, 0);

#[map]
pub static ENDPOINT_SCORE: Array<EndpointScore> = Array::with_max_entries(1, BPF_F_MMAPABLE);

/// Connections of L4 services, two elements each. The longest unused make room.
#[map]
pub static CONNECTION: LruHashMap<ConnectionKey, Connection> = LruHashMap::with_max_entries(1, 0);

/// Where packets were to go that had no link address to go to: user space has the kernel ask for it.
#[map]
pub static UNRESOLVED: LruHashMap<Address, u32> = LruHashMap::with_max_entries(256, 0);

/// Ports of ours that connections of L4 services get: outside of those the host gives to its own sockets. Set at load.
#[unsafe(no_mangle)]
static NAT_PORTS: Global<NatPorts> = Global::new(NatPorts {
    first: 10_240,
    count: 22_528,
});

/// A range of ports.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct NatPorts {
    pub first: u32,
    pub count: u32,
}

#[inline(always)]
pub fn nat_ports() -> NatPorts {
    NAT_PORTS.load()
}

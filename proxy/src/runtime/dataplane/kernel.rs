//! The kernel programs and their tables, loaded: what there is when there is BPF.

use std::error::Error;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aya::maps::{Map, PerCpuArray};
use aya::{Ebpf, EbpfLoader};
use aya_log::EbpfLogger;
use log::Log;
use weir_common::{
    Address, Cells, EndpointId, EndpointIdValue, EndpointWire, LISTENER_GROUPS, Reason, Table,
};

use super::flows::FlowTable;
use super::mapping::{MappingError, map_rows};
use super::nat_ports;
use super::pins::{Pins, TABLES, Unfit, service_rows};
use super::programs::Programs;
use super::room;
use super::steering::Steering;
use super::syscall::HashTable;
use super::unavailable::{Unavailable, in_one_line};
use super::vip_lookup::VipLookup;
use super::xdp::{DenyTables, ServiceTables, Sweep};
use crate::balance::shared::{SharedTables, Sizes};
use crate::balance::{Eased, Wire, WireRows};
use crate::runtime::ring::heap;

/// Ring of what the programs log, which is little and seldom: all of it is mapped, twice over. A power of two of pages.
const LOG_BYTES: u32 = 16 * 1024;

/// Which of the two programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Egress,
    Ingress,
}

impl Direction {
    pub const BOTH: [Self; 2] = [Self::Egress, Self::Ingress];

    pub(super) const fn program(self) -> &'static str {
        match self {
            Self::Egress => "wire_egress",
            Self::Ingress => "wire_ingress",
        }
    }
}

/// Dropping it unloads everything; programs that are attached stay until they are detached, too.
pub struct Kernel {
    programs: Mutex<Programs>,
    pub tables: SharedTables,
    /// Or why nothing is measured on the wire.
    pub measuring: Result<(), Unavailable>,
    pub flows: Arc<FlowTable>,
    pub identities: HashTable<EndpointId, EndpointIdValue>,
    /// Or why the kernel spreads connections over workers by its own hash.
    pub steering: Result<Arc<Steering>, Unavailable>,
    pub deny: DenyTables,
    /// Or why nobody can be listened for without a socket of that address.
    pub vips: Result<VipLookup, Unavailable>,
    pub services: Mutex<ServiceTables>,
    /// Addresses whose next stop has to be asked for.
    pub unresolved: HashTable<Address, u32>,
    pub sweep: Mutex<Sweep>,
    logger: Option<Mutex<EbpfLogger<&'static dyn Log>>>,
}

/// Loaded and found to run; what is pinned has not been changed yet.
pub struct Proven {
    kernel: Kernel,
    pins: Option<Pins>,
    are_adopted: bool,
}

impl Proven {
    /// Nothing that is pinned is touched.
    pub fn unpinned(kernel: Kernel) -> Self {
        Self {
            kernel,
            pins: None,
            are_adopted: false,
        }
    }

    /// Whether what an earlier process has pinned will be ours.
    pub fn has_pins(&self) -> bool {
        self.pins.is_some()
    }

    /// Leaves the tables for processes to come, in place of those that could not be gone on with.
    pub fn keep(self) -> Kernel {
        if let Some(pins) = self.pins {
            let mut programs = self.kernel.programs();
            match programs.pin_tables(&pins, self.are_adopted) {
                Ok(()) => programs.pins = Some(pins),
                Err(error) => unpinned(&error),
            }
        }
        self.kernel
    }
}

impl Kernel {
    /// Loads the embedded object with tables of these sizes and maps them.
    ///
    /// With pins, goes on with the tables an earlier process left there if it can. Nothing that is pinned is changed
    /// before the new programs have been accepted and have run.
    pub fn load(
        needed: Sizes,
        connections: u32,
        pins: Option<Pins>,
    ) -> Result<Proven, Unavailable> {
        let adopted = pins
            .as_ref()
            .and_then(|pins| adoptable(pins, needed, connections));
        let kept = pins.as_ref().filter(|_| adopted.is_some());
        let sizes = adopted.unwrap_or(needed);
        let loaded = Self::load_programs(sizes, connections, kept, Ok(()));
        let proven = loaded.and_then(|kernel| {
            // Without pins nothing that runs is at stake.
            if pins.is_some() {
                kernel.programs().prove()?;
            }
            Ok(kernel)
        });
        match proven {
            Ok(kernel) => Ok(Proven {
                kernel,
                are_adopted: adopted.is_some(),
                pins,
            }),
            Err(cause) => {
                if let Some(pins) = pins {
                    pins.abandon();
                }
                Err(cause)
            }
        }
    }

    /// Loads everything but the programs that measure, which cannot be had for this cause, with tables that end with
    /// this process: those that are pinned belong to the programs that may still run on them.
    pub fn load_unmeasured(
        sizes: Sizes,
        connections: u32,
        cause: Unavailable,
    ) -> Result<Self, Unavailable> {
        Self::load_programs(sizes, connections, None, Err(cause))
    }

    fn load_programs(
        sizes: Sizes,
        connections: u32,
        kept: Option<&Pins>,
        measuring: Result<(), Unavailable>,
    ) -> Result<Self, Unavailable> {
        let object = OBJECT.ok_or(Unavailable::NotBuilt)?;
        raise_locked_memory_limit();
        if kept.is_none() {
            room::check(sizes, connections)?;
        }
        let mut ebpf = load_object(object, sizes, connections, kept)?;
        let tables = map_tables(&mut ebpf, sizes)?;
        let steering = Steering::load(&mut ebpf, sizes.workers).map(Arc::new);
        if let Err(cause) = &steering {
            tracing::warn!("new connections are spread over workers by the kernel's hash: {cause}");
        }
        let vips = VipLookup::load(&mut ebpf);
        // A kernel that has no such programs is told of when somebody asks for what takes them.
        if let Err(cause @ Unavailable::Verifier { .. }) = &vips {
            tracing::warn!("prefixes and ranges of ports cannot be listened on: {cause}");
        }
        let kernel = Self {
            tables,
            steering,
            vips,
            flows: Arc::new(hash_table(&mut ebpf, "FLOW")?),
            identities: hash_table(&mut ebpf, "ENDPOINT_ID")?,
            deny: DenyTables {
                v4: hash_table(&mut ebpf, "DENY_V4")?,
                v6: hash_table(&mut ebpf, "DENY_V6")?,
            },
            services: Mutex::new(ServiceTables::new(
                hash_table(&mut ebpf, "SERVICE")?,
                hash_table(&mut ebpf, "SERVICE_ENDPOINT")?,
                u32::try_from(service_rows(sizes.capacity)).unwrap_or(u32::MAX),
            )),
            unresolved: hash_table(&mut ebpf, "UNRESOLVED")?,
            sweep: Mutex::new(Sweep::over(hash_table(&mut ebpf, "CONNECTION")?)),
            // Without its ring buffer the programs still count; there is only nothing to read.
            logger: EbpfLogger::init(&mut ebpf).ok().map(Mutex::new),
            programs: Mutex::new(Programs::load(ebpf, measuring.as_ref().err())?),
            measuring,
        };
        // Loading reads the types of the whole kernel: megabytes that are free by now.
        heap::give_back();
        Ok(kernel)
    }

    /// The programs, for one who attaches them or shows them packets.
    pub fn programs(&self) -> MutexGuard<'_, Programs> {
        self.programs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How often each reason was counted, over all CPUs.
    pub fn reasons(&self) -> Vec<(Reason, u64)> {
        let programs = self.programs();
        let table = programs.table("REASON");
        let table = table.and_then(|map| PerCpuArray::<_, u64>::try_from(map).ok());
        let count = |reason| {
            let counts = table.as_ref()?.get(&(reason as u32), 0).ok()?;
            Some(counts.iter().sum())
        };
        let count = |reason| count(reason).unwrap_or(0);
        Reason::ALL.map(|reason| (reason, count(reason))).to_vec()
    }

    /// Hands on what the programs logged since the last call.
    pub fn flush_log(&self) {
        if let Some(logger) = &self.logger {
            logger
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .flush();
        }
    }
}

#[cfg(kernel_object)]
const OBJECT: Option<&[u8]> = Some(aya::include_bytes_aligned!(env!("WEIR_KERNEL_OBJECT")));
#[cfg(not(kernel_object))]
const OBJECT: Option<&[u8]> = None;

/// Says what becomes of the tables an earlier process left, if there are any.
fn adoptable(pins: &Pins, needed: Sizes, connections: u32) -> Option<Sizes> {
    let folder = pins.folder().display();
    match pins.adoptable(needed, connections) {
        Ok(sizes) => {
            tracing::info!("going on with the tables an earlier process left in {folder}");
            Some(sizes)
        }
        Err(Unfit::None) => None,
        // Then nothing can be loaded either, which is said at length.
        Err(Unfit::Io(error)) if is_forbidden(&error) => None,
        Err(unfit) => {
            tracing::warn!(
                "the tables an earlier process left in {folder} are of no use, starting afresh: {unfit}"
            );
            None
        }
    }
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::ENOSYS))
}

/// Says that what is learnt will end with this process, and why.
pub fn unpinned(cause: &dyn Error) {
    tracing::warn!(
        "no place in the BPF file system: a restart will start with what it knows of endpoints at zero, and nothing is \
         measured after a crash: {}",
        in_one_line(cause)
    );
}

fn load_object(
    object: &[u8],
    sizes: Sizes,
    connections: u32,
    adopt: Option<&Pins>,
) -> Result<Ebpf, Unavailable> {
    let rows = |count: usize| u32::try_from(count.max(1)).unwrap_or(u32::MAX);
    let capacity = rows(sizes.capacity);
    let log_level = if tracing::enabled!(tracing::Level::DEBUG) {
        aya_log::Level::Debug
    } else {
        aya_log::Level::Warn
    } as u8;
    let nat_ports = nat_ports::chosen();
    let mut loader = EbpfLoader::new();
    for name in TABLES {
        if let Some(pins) = adopt {
            loader.map_pin_path(name, pins.table(name));
        }
    }
    loader
        .btf(None)
        .override_global("CAPACITY", &capacity, true)
        .override_global("NAT_PORTS", &nat_ports, true)
        .override_global(aya_log::LEVEL, &log_level, false)
        .map_max_entries("ENDPOINT_ID", capacity)
        .map_max_entries("ENDPOINT_STATE", capacity)
        .map_max_entries("ENDPOINT_READING", capacity)
        .map_max_entries("ENDPOINT_OUTLOOK", capacity)
        .map_max_entries("ENDPOINT_IDENTITY", capacity)
        .map_max_entries("ENDPOINT_LOAD", rows(sizes.workers * sizes.capacity))
        .map_max_entries("ENDPOINT_ATTEMPTS", rows(sizes.workers * sizes.capacity))
        .map_max_entries("ENDPOINT_WIRE", rows(sizes.cpus * sizes.capacity))
        .map_max_entries("ENDPOINT_SCORE", capacity)
        .map_max_entries("SERVICE_ENDPOINT", rows(service_rows(sizes.capacity)))
        .map_max_entries("CONNECTION", connections)
        .map_max_entries("FLOW", rows(sizes.flows))
        .map_max_entries("FLOW_SAMPLE", rows(sizes.flows))
        .map_max_entries("WORKER", rows(sizes.workers))
        .map_max_entries("WORKER_STEERED", rows(sizes.workers))
        .map_max_entries(
            "LISTENER",
            rows(sizes.workers).saturating_mul(LISTENER_GROUPS),
        )
        .map_max_entries(
            "VIP_LISTENER",
            rows(sizes.workers).saturating_mul(LISTENER_GROUPS),
        )
        .map_max_entries(
            "LISTENER_GROUP",
            rows(sizes.workers).saturating_mul(LISTENER_GROUPS),
        )
        .map_max_entries("AYA_LOGS", LOG_BYTES)
        .load(object)
        .map_err(Unavailable::load)
}

fn map_tables(ebpf: &mut Ebpf, sizes: Sizes) -> Result<SharedTables, Unavailable> {
    let tables = SharedTables {
        sizes,
        meta: array(ebpf, "META", 1)?,
        state: array(ebpf, "ENDPOINT_STATE", sizes.capacity)?,
        readings: array(ebpf, "ENDPOINT_READING", sizes.capacity)?,
        outlooks: array(ebpf, "ENDPOINT_OUTLOOK", sizes.capacity)?,
        identity: array(ebpf, "ENDPOINT_IDENTITY", sizes.capacity)?,
        load: array(ebpf, "ENDPOINT_LOAD", sizes.workers * sizes.capacity)?,
        attempts: array(ebpf, "ENDPOINT_ATTEMPTS", sizes.workers * sizes.capacity)?,
        wire: Wire::over(
            hash_table::<u32, EndpointWire>(ebpf, "ENDPOINT_WIRE")?,
            sizes,
        ),
        samples: array(ebpf, "FLOW_SAMPLE", sizes.flows)?,
        score: array(ebpf, "ENDPOINT_SCORE", sizes.capacity)?,
        worker: array(ebpf, "WORKER", sizes.workers)?,
        steered: array(ebpf, "WORKER_STEERED", sizes.workers)?,
        ejections: Arc::default(),
        eased: Eased::new(sizes.capacity),
        watch: Arc::default(),
    };
    tables.announce();
    Ok(tables)
}

/// The table has a row for all that is asked for, so neither can fail.
impl WireRows for HashTable<u32, EndpointWire> {
    fn read(&self, row: usize) -> EndpointWire {
        let found = self.find(&(row as u32));
        found.ok().flatten().unwrap_or_default()
    }

    fn clear(&self, row: usize) {
        let _ = self.insert(&(row as u32), &EndpointWire::default());
    }
}

fn array<C: Cells>(
    ebpf: &mut Ebpf,
    table: &'static str,
    rows: usize,
) -> Result<Table<C>, Unavailable> {
    let Some(Map::Array(map)) = ebpf.map(table) else {
        return Err(Unavailable::Layout);
    };
    map_rows(map.fd(), rows).map_err(|source| match source {
        MappingError::Layout => Unavailable::Layout,
        source => Unavailable::Mapping { table, source },
    })
}

/// A table whose elements are read and written by system calls.
pub(super) fn hash_table<K, V>(
    ebpf: &mut Ebpf,
    table: &'static str,
) -> Result<HashTable<K, V>, Unavailable>
where
    K: super::syscall::Plain,
    V: super::syscall::Plain,
{
    let fd = match ebpf.map(table) {
        Some(
            Map::Array(map)
            | Map::HashMap(map)
            | Map::LruHashMap(map)
            | Map::LpmTrie(map)
            | Map::ReusePortSockArray(map)
            | Map::SockMap(map),
        ) => map.fd().as_fd(),
        _ => return Err(Unavailable::Layout),
    };
    fd.try_clone_to_owned()
        .and_then(HashTable::over)
        .map_err(|source| match source.kind() {
            std::io::ErrorKind::InvalidData => Unavailable::Layout,
            _ => Unavailable::Table { table, source },
        })
}

/// Before Linux 5.11 tables counted against the limit of locked memory. Failing is no error: newer kernels do not ask.
fn raise_locked_memory_limit() {
    let unlimited = libc::rlimit {
        rlim_cur: libc::RLIM_INFINITY,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the call reads one rlimit that outlives it.
    unsafe { libc::setrlimit(libc::RLIMIT_MEMLOCK, &unlimited) };
}

/// Bytes that may be locked; None without a limit.
pub(super) fn locked_memory_limit() -> Option<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the call writes one rlimit that outlives it.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    (result == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

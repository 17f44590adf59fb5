//! The way a packet leaves: by the host's own routes and neighbours. What they say holds for a few milliseconds, on the
//! CPU that asked: asking takes longer than everything else there is to do for a packet.

use aya_ebpf::bindings::BPF_ANY;
use aya_ebpf::helpers::generated::{bpf_fib_lookup, bpf_ktime_get_coarse_ns};
use aya_ebpf::macros::map;
use aya_ebpf::maps::PerCpuArray;
use aya_ebpf::programs::XdpContext;
use weir_common::{Address, Connection, Reason};

use super::frame::{Family, LinkAddress};
use super::packet::Packet;
use super::scratch;
use crate::tables::UNRESOLVED;

pub struct Route {
    pub interface: u32,
    pub source: LinkAddress,
    pub destination: LinkAddress,
}

/// The kernel's `struct bpf_fib_lookup`.
#[repr(C)]
pub struct Question {
    family: u8,
    protocol: u8,
    source_port: u16,
    destination_port: u16,
    length: u16,
    interface: u32,
    service: u32,
    source: Address,
    destination: Address,
    vlan: u32,
    source_link: LinkAddress,
    destination_link: LinkAddress,
}

const _: () = assert!(size_of::<Question>() == 64);

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
// Answers of the helper, of linux/bpf.h.
const SUCCESS: i64 = 0;
const FORWARDING_DISABLED: i64 = 5;
const NO_NEIGHBOUR: i64 = 7;
const TOO_LARGE: i64 = 8;

/// What of a packet decides its way, but for its ends.
pub struct Way {
    pub family: Family,
    pub protocol: u8,
    /// Of the IP packet, in bytes.
    pub length: u16,
}

impl Way {
    #[inline(always)]
    pub fn of(packet: &Packet) -> Self {
        Self {
            family: packet.family,
            protocol: packet.key.protocol,
            length: packet.length,
        }
    }
}

/// An answer of before.
#[repr(C)]
struct Remembered {
    source: Address,
    destination: Address,
    came_by: u32,
    interface: u32,
    source_link: LinkAddress,
    destination_link: LinkAddress,
    longest: u32,
    until_ns: u64,
}

/// As often as changes of routes and neighbours are noticed.
const HOLDS_NS: u64 = 10_000_000;
const PLACES_BITS: u32 = 6;

#[map]
static ROUTE: PerCpuArray<Remembered> = PerCpuArray::with_max_entries(1 << PLACES_BITS, 0);

impl Route {
    /// The way to where a packet with these ends goes next.
    #[inline(always)]
    pub fn find(context: &XdpContext, way: Way, to: &Connection) -> Result<Self, Reason> {
        // Its upper bits are about evenly spread.
        let place = to.destination[3].wrapping_mul(0x9e37_79b1) >> (32 - PLACES_BITS);
        let remembered = ROUTE.get_ptr_mut(place).ok_or(Reason::OutOfRange)?;
        // SAFETY: the row belongs to this CPU, on which one program runs at a time.
        let remembered = unsafe { &mut *remembered };
        let came_by = context.ingress_ifindex() as u32;
        // SAFETY: the helper takes nothing.
        let now = unsafe { bpf_ktime_get_coarse_ns() };
        let is_known = remembered.until_ns > now
            && remembered.came_by == came_by
            && is_same(&remembered.destination, &to.destination)
            && is_same(&remembered.source, &to.source);
        if !is_known {
            let question = ask(context, way, to)?;
            *remembered = Remembered {
                source: to.source,
                destination: to.destination,
                came_by,
                interface: question.interface,
                source_link: question.source_link,
                destination_link: question.destination_link,
                longest: question.length as u32,
                until_ns: now + HOLDS_NS,
            };
        } else if way.length as u32 > remembered.longest {
            return Err(Reason::TooLarge);
        }
        Ok(Self {
            interface: remembered.interface,
            source: remembered.source_link,
            destination: remembered.destination_link,
        })
    }
}

#[inline(always)]
fn is_same(one: &Address, other: &Address) -> bool {
    let differences =
        (one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) | (one[3] ^ other[3]);
    differences == 0
}

/// Afterwards the length is that of the longest packet that may go there.
#[inline(always)]
fn ask(context: &XdpContext, way: Way, to: &Connection) -> Result<&'static Question, Reason> {
    let (family, source, destination) = match way.family {
        Family::V4 => (
            AF_INET,
            [to.source[3], 0, 0, 0],
            [to.destination[3], 0, 0, 0],
        ),
        Family::V6 => (AF_INET6, to.source, to.destination),
    };
    let question = scratch::question()?;
    *question = Question {
        family,
        protocol: way.protocol,
        source_port: 0,
        destination_port: 0,
        length: way.length,
        interface: context.ingress_ifindex() as u32,
        service: 0,
        source,
        destination,
        vlan: 0,
        source_link: [0; 3],
        destination_link: [0; 3],
    };
    let size = size_of::<Question>() as i32;
    // SAFETY: the helper reads and writes `size` bytes at the question.
    let answer =
        unsafe { bpf_fib_lookup(context.ctx.cast(), (&raw mut *question).cast(), size, 0) };
    match answer as i64 {
        SUCCESS => Ok(question),
        FORWARDING_DISABLED => Err(Reason::NotForwarding),
        NO_NEIGHBOUR => {
            // Full, it forgets who waited longest; they are noted again with their next packet.
            let _ = UNRESOLVED.insert(&to.destination, &0, BPF_ANY as u64);
            Err(Reason::NoNeighbour)
        }
        TOO_LARGE => Err(Reason::TooLarge),
        _ => Err(Reason::NoRoute),
    }
}

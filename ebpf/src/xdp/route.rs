//! The way a packet leaves: by the host's own routes and neighbours, asked for each packet.

use aya_ebpf::helpers::generated::bpf_fib_lookup;
use aya_ebpf::programs::XdpContext;
use weir_common::{Address, Connection, Reason};

use super::frame::LinkAddress;
use super::packet::{Family, Packet};
use super::scratch;

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

impl Route {
    /// The way to where the packet goes next.
    #[inline(always)]
    pub fn find(context: &XdpContext, packet: &Packet, to: &Connection) -> Result<Self, Reason> {
        let (family, source, destination) = match packet.family {
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
            protocol: packet.key.protocol,
            source_port: 0,
            destination_port: 0,
            length: packet.length,
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
            SUCCESS => Ok(Self {
                interface: question.interface,
                source: question.source_link,
                destination: question.destination_link,
            }),
            FORWARDING_DISABLED => Err(Reason::NotForwarding),
            NO_NEIGHBOUR => Err(Reason::NoNeighbour),
            TOO_LARGE => Err(Reason::TooLarge),
            _ => Err(Reason::NoRoute),
        }
    }
}

//! Who listens on a virtual address: the longest prefix the address is in, and of its port ranges the first the port is
//! in. The connection is given to one socket of that listener, after which `pick_worker` chooses among all of them.

use aya_ebpf::EbpfContext;
use aya_ebpf::bindings::bpf_sk_lookup;
use aya_ebpf::maps::lpm_trie::Key;
use aya_ebpf::programs::SkLookupContext;
use weir_common::{Address, Reason, VIP_RANGES, Vip, VipRange};

use crate::tables::{VIP, VIP_LISTENER};

const AF_INET: u32 = 2;
const TCP: u32 = 6;
/// Bits of protocol and address.
const ALL_BITS: u32 = 32 + 128;

/// What became of a lookup that concerns us; None if it does not.
#[inline(always)]
pub fn find(context: &SkLookupContext) -> Option<Reason> {
    let lookup: *const bpf_sk_lookup = context.as_ptr().cast();
    // SAFETY: the kernel calls us with a context that lives through the call.
    let protocol = unsafe { (&raw const (*lookup).protocol).read() };
    if protocol != TCP {
        return None;
    }
    let [a, b, c, d] = local_address(lookup);
    let vip = VIP.get(Key::new(ALL_BITS, [protocol, a, b, c, d]))?;
    // SAFETY: as above.
    let port = unsafe { (&raw const (*lookup).local_port).read() };
    let listener = listener_of(vip, port)?;
    match VIP_LISTENER.redirect_sk_lookup(context, listener, 0) {
        Ok(()) => Some(Reason::ToVip),
        Err(_) => Some(Reason::VipUnserved),
    }
}

/// All fields are read, whatever the family: between two branches the compiler would compute which to read, and the
/// verifier wants to see constants.
#[inline(always)]
fn local_address(lookup: *const bpf_sk_lookup) -> Address {
    // SAFETY: the context lives through the call, and is read word by word.
    let read = |field: *const u32| unsafe { field.read_volatile() };
    // SAFETY: as above; of addresses of the other family the kernel says zero.
    let (family, v4, v6) = unsafe {
        let field = &raw const (*lookup);
        (
            read(&raw const (*field).family),
            read(&raw const (*field).local_ip4),
            [
                read(&raw const (*field).local_ip6[0]),
                read(&raw const (*field).local_ip6[1]),
                read(&raw const (*field).local_ip6[2]),
                read(&raw const (*field).local_ip6[3]),
            ],
        )
    };
    if family == AF_INET {
        return [0, 0, 0xffff_u32.to_be(), v4];
    }
    v6
}

#[inline(always)]
fn listener_of(vip: &Vip, port: u32) -> Option<u32> {
    for (index, range) in vip.ranges.iter().enumerate().take(VIP_RANGES) {
        if index as u32 >= vip.count {
            break;
        }
        if (u32::from(range.first_port)..=u32::from(range.last_port)).contains(&port) {
            return (range.listener != VipRange::NO_VIP).then_some(range.listener);
        }
    }
    None
}

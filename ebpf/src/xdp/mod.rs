//! `xdp_ingress`: sees every frame an interface receives before the host does. Drops what comes from a denied source,
//! sends on what is for an L4 service, comes back from its endpoint, or is an ICMP error about either, and passes
//! everything else.

mod connection;
mod deny;
mod frame;
mod icmp;
mod packet;
mod pick;
mod rewrite;
mod route;
mod score;
mod scratch;
mod service;

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::bindings::xdp_md;
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use weir_common::Reason;

use crate::count::count;
use crate::tables::META;
use frame::{ETHERNET_HEADER, Family, Frame, Ipv4Header, Ipv6Header};

/// What becomes of a packet, and why.
type Verdict = (u32, Reason);

const PASSED: Verdict = (XDP_PASS, Reason::Passed);

#[xdp(frags)]
pub fn xdp_ingress(context: XdpContext) -> u32 {
    let frame = Frame::of(&context);
    let Some((family, at)) = frame.network() else {
        return counted(PASSED);
    };
    if is_denied(frame, family, at) {
        return counted((XDP_DROP, Reason::Denied));
    }
    // A tagged packet is of another network than the interface's own.
    if at != ETHERNET_HEADER {
        return counted(PASSED);
    }
    if !has_l4() {
        return counted(PASSED);
    }
    match icmp::is_icmp(frame, family) {
        true => translate(context.ctx, family),
        false => serve(context.ctx, family),
    }
}

/// Functions of their own, one after the other: the stack has no room for both.
#[inline(never)]
fn serve(context: *mut xdp_md, family: Family) -> u32 {
    let context = XdpContext::new(context);
    counted(service::serve(&context, Frame::of(&context), family))
}

#[inline(never)]
fn translate(context: *mut xdp_md, family: Family) -> u32 {
    let context = XdpContext::new(context);
    let verdict = icmp::serve(&context, Frame::of(&context), family);
    counted(verdict.unwrap_or(PASSED))
}

/// Looking for connections and services takes longer than all that was done before.
#[inline(always)]
fn has_l4() -> bool {
    let Some(meta) = META.get_ptr(0) else {
        return false;
    };
    // SAFETY: the row lives as long as the table.
    let has_l4 = unsafe { &raw const (*meta).has_l4 };
    // SAFETY: an aligned u64; user space may write it meanwhile, hence volatile.
    unsafe { has_l4.read_volatile() != 0 }
}

#[inline(always)]
fn counted((action, reason): Verdict) -> u32 {
    count(reason);
    action
}

#[inline(always)]
fn is_denied(frame: Frame, family: Family, at: usize) -> bool {
    match family {
        Family::V4 => frame
            .load::<Ipv4Header>(at)
            .is_some_and(|ip| deny::has_v4(ip.source)),
        Family::V6 => frame
            .load::<Ipv6Header>(at)
            .is_some_and(|ip| deny::has_v6(ip.source)),
    }
}

//! `xdp_ingress`: sees every frame an interface receives before the host does. Drops what comes from a denied source,
//! sends on what is for an L4 service or comes back from its endpoint, and passes everything else.

mod connection;
mod deny;
mod frame;
mod packet;
mod pick;
mod rewrite;
mod route;
mod score;
mod scratch;
mod service;

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use weir_common::Reason;

use crate::count::count;
use frame::{ETHERNET_HEADER, Frame, Network};

#[xdp(frags)]
pub fn xdp_ingress(context: XdpContext) -> u32 {
    let (action, reason) = judge(&context);
    count(reason);
    action
}

#[inline(always)]
fn judge(context: &XdpContext) -> (u32, Reason) {
    let frame = Frame::of(context);
    let Some((network, at)) = frame.network() else {
        return (XDP_PASS, Reason::Passed);
    };
    let is_denied = match &network {
        Network::V4(header) => deny::has_v4(header.source),
        Network::V6(header) => deny::has_v6(header.source),
    };
    if is_denied {
        return (XDP_DROP, Reason::Denied);
    }
    // A tagged packet is of another network than the interface's own.
    if at != ETHERNET_HEADER {
        return (XDP_PASS, Reason::Passed);
    }
    service::serve(context, frame, &network)
}

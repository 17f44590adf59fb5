//! `xdp_ingress`: sees every frame an interface receives before the host does. Drops what comes from a denied source,
//! and passes everything else.

mod deny;
mod frame;

use aya_ebpf::bindings::xdp_action::{XDP_DROP, XDP_PASS};
use aya_ebpf::macros::xdp;
use aya_ebpf::programs::XdpContext;
use weir_common::Reason;

use crate::count::count;
use frame::{Frame, Network};

#[xdp(frags)]
pub fn xdp_ingress(context: XdpContext) -> u32 {
    let (action, reason) = judge(&context);
    count(reason);
    action
}

#[inline(always)]
fn judge(context: &XdpContext) -> (u32, Reason) {
    let frame = Frame::of(context);
    let is_denied = match frame.network() {
        Some(Network::V4(header)) => deny::has_v4(header.source),
        Some(Network::V6(header)) => deny::has_v6(header.source),
        None => false,
    };
    match is_denied {
        true => (XDP_DROP, Reason::Denied),
        false => (XDP_PASS, Reason::Passed),
    }
}

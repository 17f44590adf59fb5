//! Weir's kernel programs. `wire_egress` and `wire_ingress` look at every packet an interface sends and receives and
//! measure the upstream connections workers have registered. They pass whatever they see, count instead of logging,
//! and decide nothing. `vip_lookup` decides which listener a new connection is for, and `pick_worker` which worker's
//! socket. `xdp_ingress`, where it is attached, drops what the deny list names.
//!
//! A packet is `read`; a SYN and its answer are `connect`'s, everything else of a registered connection is `flow`'s,
//! and both count into the row of the endpoint.
#![cfg_attr(target_arch = "bpf", no_std, no_main)]
#![cfg_attr(target_arch = "bpf", feature(asm_experimental_arch))]

#[cfg(target_arch = "bpf")]
mod connect;
#[cfg(target_arch = "bpf")]
mod count;
#[cfg(target_arch = "bpf")]
mod flow;
#[cfg(target_arch = "bpf")]
mod pick_worker;
#[cfg(target_arch = "bpf")]
mod segment;
#[cfg(target_arch = "bpf")]
mod tables;
#[cfg(target_arch = "bpf")]
mod vip_lookup;
#[cfg(target_arch = "bpf")]
mod xdp;

#[cfg(target_arch = "bpf")]
mod programs {
    use aya_ebpf::bindings::TC_ACT_UNSPEC;
    use aya_ebpf::bindings::sk_action::{SK_DROP, SK_PASS};
    use aya_ebpf::macros::{classifier, sk_lookup, sk_reuseport};
    use aya_ebpf::programs::{SkLookupContext, SkReuseportContext, TcContext};
    use weir_common::Reason;

    use crate::count::count;
    use crate::segment::{Direction, Segment};
    use crate::{connect, flow, pick_worker, vip_lookup};

    #[classifier]
    pub fn wire_egress(context: TcContext) -> i32 {
        count(on_sent(&context).unwrap_or_else(|reason| reason));
        // The next program decides, or nobody.
        TC_ACT_UNSPEC
    }

    #[classifier]
    pub fn wire_ingress(context: TcContext) -> i32 {
        count(on_received(&context).unwrap_or_else(|reason| reason));
        TC_ACT_UNSPEC
    }

    /// Also for connections of a socket that closes, whatever `net.ipv4.tcp_migrate_req` says.
    #[sk_reuseport(migrate)]
    pub fn pick_worker(context: SkReuseportContext) -> u32 {
        let reason = pick_worker::pick(&context).unwrap_or_else(|reason| reason);
        count(reason);
        match reason {
            // Answered with a reset, like a port nobody listens on.
            Reason::TurnedAway => SK_DROP,
            _ => SK_PASS,
        }
    }

    #[sk_lookup]
    pub fn vip_lookup(context: SkLookupContext) -> u32 {
        if let Some(reason) = vip_lookup::find(&context) {
            count(reason);
        }
        // Without a socket of ours, the kernel looks for others.
        SK_PASS
    }

    #[inline(always)]
    fn on_sent(context: &TcContext) -> Result<Reason, Reason> {
        let segment = Segment::read(context, Direction::Egress)?;
        if segment.is_syn() {
            return connect::on_syn(context, &segment);
        }
        flow::on_sent(&segment)
    }

    #[inline(always)]
    fn on_received(context: &TcContext) -> Result<Reason, Reason> {
        let segment = Segment::read(context, Direction::Ingress)?;
        if segment.is_syn_ack() {
            return connect::on_syn_ack(&segment);
        }
        match flow::on_received(&segment) {
            // Nobody registers a connection before it is made: this may be the answer of a closed port.
            Err(Reason::Unregistered) if segment.is_reset() => connect::on_reset(&segment),
            done => done,
        }
    }
}

#[cfg(target_arch = "bpf")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}

#[cfg(not(target_arch = "bpf"))]
fn main() {
    eprintln!("the kernel programs are built for the bpf target: run `cargo xtask build`");
}

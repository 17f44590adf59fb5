//! What the kernel's side has to say, in the words of metrics and dumps.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;

use weir_common::Reason;

use crate::metrics::{EbpfStatus, InterfaceStatus, SteeringStatus, XdpInterface, XdpReport};
use crate::runtime::dataplane::{Dataplane, Hook, XdpStatus};

pub fn ebpf_status(dataplane: &Dataplane) -> EbpfStatus {
    let interfaces = dataplane
        .status()
        .into_iter()
        .map(|status| InterfaceStatus {
            name: status.name,
            error: status.attached.as_ref().err().map(ToString::to_string),
            hook: status.attached.ok().map(|hook| match hook {
                Hook::Tcx => "tcx".to_owned(),
                Hook::Clsact => "clsact".to_owned(),
            }),
            second_choice: status.second_choice,
        });
    let (decisions, packets): (Vec<_>, Vec<_>) = dataplane
        .reasons()
        .into_iter()
        .partition(|(reason, _)| reason.is_of_steering());
    let named = |reasons: Vec<(Reason, u64)>| -> BTreeMap<String, u64> {
        let named = reasons.into_iter();
        named
            .map(|(reason, count)| (reason.name().to_owned(), count))
            .collect()
    };
    let (measuring, steering) = (dataplane.measuring(), dataplane.steering());
    let counts = dataplane.unmeasured();
    let unmeasured = [
        ("no_kernel", &counts.no_kernel),
        ("no_room", &counts.no_room),
        ("not_removed", &counts.not_removed),
    ]
    .map(|(reason, count)| (reason.to_owned(), count.load(Relaxed)));
    EbpfStatus {
        active: measuring.is_ok(),
        reason: measuring.err(),
        pins: dataplane.pins(),
        interfaces: interfaces.collect(),
        xdp: xdp_report(dataplane),
        packets: named(packets),
        unmeasured: unmeasured.into(),
        unidentified: counts.unidentified.load(Relaxed),
        steering: SteeringStatus {
            by_load: steering.is_ok(),
            reason: steering.err(),
            decisions: named(decisions),
        },
    }
}

fn xdp_report(dataplane: &Dataplane) -> XdpReport {
    let interface = |status: XdpStatus| XdpInterface {
        name: status.name,
        error: status.attached.as_ref().err().cloned(),
        hook: status.attached.ok().map(|hook| hook.name().to_owned()),
        fallback: status.fallback,
    };
    XdpReport {
        mode: dataplane.xdp_mode().name().to_owned(),
        denied_prefixes: dataplane.denied_prefixes() as u64,
        services: dataplane
            .served()
            .into_iter()
            .map(|(transport, address)| format!("{address}/{transport}"))
            .collect(),
        interfaces: dataplane.xdp_status().into_iter().map(interface).collect(),
    }
}

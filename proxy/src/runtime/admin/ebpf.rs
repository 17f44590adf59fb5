//! What the kernel's side has to say, in the words of metrics and dumps.

use std::sync::atomic::Ordering::Relaxed;

use crate::metrics::{EbpfStatus, InterfaceStatus};
use crate::runtime::dataplane::{Dataplane, Hook};

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
    let packets = dataplane
        .reasons()
        .into_iter()
        .map(|(reason, count)| (reason.name().to_owned(), count));
    let counts = dataplane.unmeasured();
    let unmeasured = [
        ("no_kernel", &counts.no_kernel),
        ("no_room", &counts.no_room),
        ("not_removed", &counts.not_removed),
    ]
    .map(|(reason, count)| (reason.to_owned(), count.load(Relaxed)));
    EbpfStatus {
        active: dataplane.has_kernel(),
        reason: dataplane.without_kernel().map(ToString::to_string),
        pins: dataplane.pins(),
        interfaces: interfaces.collect(),
        packets: packets.collect(),
        unmeasured: unmeasured.into(),
        unidentified: counts.unidentified.load(Relaxed),
    }
}

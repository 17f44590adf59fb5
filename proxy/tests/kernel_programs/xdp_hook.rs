//! How `xdp_ingress` hangs on an interface, and whose place it never takes.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use weir::runtime::dataplane::{
    Dataplane, EbpfMode, Interface, XdpHook, XdpMode, XdpOptions, XdpStatus,
};
use weir::snapshot::{DenyList, Prefix};

use crate::by_hand::{XDP, XDP_ATTACH, bpf_fd, load};
use crate::foreign::BPF_LINK_CREATE;
use crate::namespace::{ip, on_a_loopback_of_its_own};
use crate::rig::{Rig, options};

const SKB_MODE: u32 = 2;

fn somebody() -> Arc<DenyList> {
    let prefix = Prefix::around(Ipv4Addr::new(192, 0, 2, 0).into(), 24);
    Arc::new(prefix.into_iter().collect())
}

/// With somebody to deny, on these interfaces.
fn open(mode: XdpMode, interfaces: &[&str]) -> Dataplane {
    let mut options = options(EbpfMode::Auto, 1, Vec::new());
    options.xdp = XdpOptions {
        mode,
        interfaces: interfaces.iter().map(|name| (*name).to_owned()).collect(),
        deny: somebody(),
        ..XdpOptions::default()
    };
    Dataplane::open(options).expect("nothing is required")
}

fn status(dataplane: &Dataplane) -> XdpStatus {
    let mut all = dataplane.xdp_status();
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn with_programs(test: impl FnOnce() + Send + 'static) {
    on_a_loopback_of_its_own(|| {
        if Rig::new().is_some() {
            test();
        }
    });
}

#[test]
fn loopback_is_served_by_the_network_stack_and_the_reason_is_kept() {
    with_programs(|| {
        let auto = status(&open(XdpMode::Auto, &["lo"]));
        assert_eq!(auto.attached, Ok(XdpHook::Generic));
        assert_eq!(auto.fallback.as_deref(), Some("the driver has no XDP"));
        let native = status(&open(XdpMode::Native, &["lo"]));
        assert_eq!(native.attached, Err("the driver has no XDP".to_owned()));
        let generic = status(&open(XdpMode::Generic, &["lo"]));
        assert_eq!(
            (generic.attached, generic.fallback),
            (Ok(XdpHook::Generic), None)
        );
    });
}

#[test]
fn a_driver_that_can_runs_it_and_large_frames_are_no_hindrance() {
    with_programs(|| {
        assert!(ip("link add one mtu 9000 type veth peer name two mtu 9000"));
        let native = status(&open(XdpMode::Auto, &["one"]));
        assert_eq!(
            (native.attached, native.fallback),
            (Ok(XdpHook::Native), None)
        );
    });
}

#[test]
fn without_work_nothing_is_attached_unless_somebody_asks() {
    with_programs(|| {
        let idle = open(XdpMode::Auto, &["lo"]);
        idle.deny(&Arc::default()).expect("nobody is denied");
        assert!(idle.xdp_status().is_empty());
        idle.deny(&somebody()).expect("there is room");
        assert_eq!(status(&idle).attached, Ok(XdpHook::Generic));
        let off = open(XdpMode::Off, &["lo"]);
        assert!(off.xdp_status().is_empty());
        drop(idle);
        let asked = open(XdpMode::Generic, &["lo"]);
        asked.deny(&Arc::default()).expect("nobody is denied");
        assert_eq!(status(&asked).attached, Ok(XdpHook::Generic));
    });
}

#[test]
fn a_program_of_somebody_else_is_named_and_stays() {
    with_programs(|| {
        let loopback = Interface::named("lo").expect("every namespace has one");
        let foreign = foreign(&loopback);
        for mode in [XdpMode::Auto, XdpMode::Native, XdpMode::Generic] {
            let reason = status(&open(mode, &["lo"])).attached.expect_err("taken");
            assert!(reason.contains("the program stranger (id "), "{reason}");
        }
        // Whoever comes finds the place free once it is given up.
        let waiting = open(XdpMode::Auto, &["lo"]);
        drop(foreign);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while status(&waiting).attached.is_err() {
            assert!(std::time::Instant::now() < deadline, "never attached");
            std::thread::sleep(std::time::Duration::from_millis(5));
            waiting.deny(&somebody()).expect("there is room");
        }
    });
}

/// A program that passes everything, on the network stack's hook.
fn foreign(interface: &Interface) -> OwnedFd {
    // r0 = 2 (XDP_PASS); exit
    let program = load(XDP, &[0x0000_0002_0000_00b7, 0x95], c"stranger");
    let program = program.expect("it is harmless");
    let mut link = [
        program.as_raw_fd() as u32,
        interface.index,
        XDP_ATTACH,
        SKB_MODE,
    ];
    // SAFETY: the attributes are those of the command, and hold no address.
    unsafe { bpf_fd(BPF_LINK_CREATE, &mut link) }.expect("there is room")
}

//! Somebody else's program on the same interface.

use std::ffi::CStr;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::{Duration, Instant};

use aya::programs::{SchedClassifier, TcAttachType};
use weir::runtime::dataplane::{Hook, Interface};

use crate::namespace::on_a_loopback_of_its_own;
use crate::rig::{Ends, Rig};

#[test]
fn a_foreign_program_that_ends_the_chain_neither_blinds_ours_nor_is_disturbed() {
    on_a_loopback_of_its_own(|| {
        let Some(rig) = Rig::new() else { return };
        let loopback = Interface::named("lo").expect("every namespace has one");
        let foreign = Foreign::attach(&loopback);
        let attached = rig.dataplane.attach_by(&loopback, Hook::Tcx);
        attached.expect("there is room for two");
        assert_eq!(egress_programs(), 2);

        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let endpoint = listener.local_addr().expect("it is bound");
        let peer = Ends {
            proxy: endpoint,
            endpoint,
        }
        .peer();
        rig.dataplane.identify(peer);
        let mut stream = TcpStream::connect(endpoint).expect("it listens");
        stream.write_all(b"hello").expect("nobody drops it");
        assert_eq!(rig.wire().opened, 1, "ours came first");

        drop(rig);
        let deadline = Instant::now() + Duration::from_secs(5);
        while egress_programs() != 1 {
            assert!(Instant::now() < deadline, "only the foreign one stays");
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(foreign);
    });
}

fn egress_programs() -> usize {
    let programs = SchedClassifier::query_tcx("lo", TcAttachType::Egress);
    programs.expect("this kernel has tcx").1.len()
}

/// A program at egress that answers "pass, and ask nobody else".
struct Foreign {
    _link: OwnedFd,
}

const BPF_PROG_LOAD: libc::c_int = 5;
pub const BPF_LINK_CREATE: libc::c_int = 28;
const SCHED_CLS: u32 = 3;
const TCX_EGRESS: u32 = 47;

#[repr(C)]
struct LoadAttributes {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
}

impl Foreign {
    fn attach(interface: &Interface) -> Self {
        // r0 = 0 (TC_ACT_OK); exit
        let program = program(SCHED_CLS, &[0xb7, 0x95], c"stranger");
        let mut link = [program.as_raw_fd() as u32, interface.index, TCX_EGRESS, 0];
        // SAFETY: the attributes are those of the command, and hold no address.
        let link = unsafe { bpf(BPF_LINK_CREATE, &mut link) };
        Self { _link: link }
    }
}

/// A program of these instructions, loaded under a name of at most 15 bytes.
pub fn program(kind: u32, instructions: &[u64], name: &CStr) -> OwnedFd {
    let mut padded = [0; 16];
    padded[..name.count_bytes()].copy_from_slice(name.to_bytes());
    let mut load = LoadAttributes {
        kind,
        count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log: 0,
        kernel_version: 0,
        flags: 0,
        name: padded,
    };
    // SAFETY: the attributes are those of the command; the instructions and the text outlive it.
    unsafe { bpf(BPF_PROG_LOAD, &mut load) }
}

/// # Safety
/// The attributes are those of `command`, which makes a descriptor, and addresses in them are good for it.
pub unsafe fn bpf<A>(command: libc::c_int, attributes: &mut A) -> OwnedFd {
    let (attributes, size) = (std::ptr::from_mut(attributes), size_of::<A>());
    // SAFETY: the kernel reads `size` bytes at `attributes`; the caller answers for what they point to.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, command, attributes, size) };
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: the kernel has just made it.
    unsafe { OwnedFd::from_raw_fd(fd as i32) }
}

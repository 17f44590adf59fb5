//! Somebody else's program on the same interface.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use aya::programs::{SchedClassifier, TcAttachType};
use weir::runtime::dataplane::{Hook, Interface};

use crate::by_hand::{EMPTY, SCHED_CLS, bpf_fd, load};
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

pub const BPF_LINK_CREATE: libc::c_int = 28;
const TCX_EGRESS: u32 = 47;

impl Foreign {
    fn attach(interface: &Interface) -> Self {
        // Zero is TC_ACT_OK.
        let program = load(SCHED_CLS, &EMPTY, c"stranger").expect("it is harmless");
        let mut link = [program.as_raw_fd() as u32, interface.index, TCX_EGRESS, 0];
        // SAFETY: the attributes are those of the command, and hold no address.
        let link = unsafe { bpf_fd(BPF_LINK_CREATE, &mut link) };
        Self {
            _link: link.expect("there is room"),
        }
    }
}

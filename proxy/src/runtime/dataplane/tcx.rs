//! tcx links: one program at one side of one interface, beside those of others. A link lasts as long as somebody holds
//! it, and outlives its interface: then it names none any more.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use super::kernel::Direction;
use super::syscall::{Plain, bpf_fd, info};

/// One program attached. Dropping it detaches, unless it is held elsewhere.
#[derive(Debug)]
pub struct TcxLink {
    fd: OwnedFd,
}

impl TcxLink {
    /// Attaches before all programs that are there: a foreign one may end the chain, a measuring one never does.
    ///
    /// # Errors
    /// `EINVAL` where the kernel has no tcx, which came with Linux 6.6.
    pub fn create(program: BorrowedFd<'_>, index: u32, side: Direction) -> io::Result<Self> {
        let mut attributes = CreateAttributes {
            program: program.as_raw_fd() as u32,
            index,
            kind: attach_type(side),
            flags: BPF_F_BEFORE,
        };
        // SAFETY: the attributes are those of the command, and hold no address.
        let fd = unsafe { bpf_fd(BPF_LINK_CREATE, &mut attributes) }?;
        Ok(Self { fd })
    }

    /// Index of the interface it is attached to; None once there is none.
    pub fn interface(&self) -> Option<u32> {
        let state: LinkState = info(self.fd.as_fd()).ok()?;
        (state.index != 0).then_some(state.index)
    }
}

const fn attach_type(side: Direction) -> u32 {
    match side {
        Direction::Ingress => 46,
        Direction::Egress => 47,
    }
}

const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_F_BEFORE: u32 = 1 << 3;

#[repr(C)]
struct CreateAttributes {
    program: u32,
    index: u32,
    kind: u32,
    flags: u32,
}

/// The kernel's `struct bpf_link_info` of a tcx link.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct LinkState {
    kind: u32,
    id: u32,
    program: u32,
    padding: u32,
    index: u32,
    attach_type: u32,
}

// SAFETY: six integers without a gap.
unsafe impl Plain for LinkState {}

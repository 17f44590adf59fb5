//! tcx links: one program at one side of one interface, beside those of others. A link lasts as long as somebody holds
//! it or a file stands for it, and outlives its interface: then it names none any more.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::kernel::Direction;
use super::pins::bpffs;
use super::syscall::{Plain, bpf, bpf_fd, info};

/// One program attached. Dropping it detaches.
#[derive(Debug)]
pub struct TcxLink {
    fd: OwnedFd,
    /// The file that keeps it when this process is killed.
    pin: Option<PathBuf>,
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
        Ok(Self { fd, pin: None })
    }

    /// The link a file stands for. Dropping it leaves the file and the program where they are.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            fd: bpffs::open(path)?,
            pin: None,
        })
    }

    /// Goes on with the link an earlier process pinned there, if it is still on this interface, or makes one and pins it.
    pub fn adopt_or_create(
        program: BorrowedFd<'_>,
        index: u32,
        side: Direction,
        pin: PathBuf,
    ) -> io::Result<Self> {
        if let Ok(mut link) = Self::open(&pin) {
            if link.is_on(index, side) && link.update(program).is_ok() {
                link.pin = Some(pin);
                return Ok(link);
            }
            bpffs::remove(&pin)?;
        }
        let mut link = Self::create(program, index, side)?;
        bpffs::pin(link.fd.as_fd(), &pin)?;
        link.pin = Some(pin);
        Ok(link)
    }

    /// Puts another program in the place of the one that is attached. No packet goes unseen in between.
    fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        let mut attributes = UpdateAttributes {
            link: self.fd.as_raw_fd() as u32,
            program: program.as_raw_fd() as u32,
            flags: 0,
            old_program: 0,
        };
        // SAFETY: the attributes are those of the command, and hold no address.
        unsafe { bpf(BPF_LINK_UPDATE, &mut attributes) }
    }

    /// Takes the program off its interface, whoever else holds the link.
    pub fn detach(&self) -> io::Result<()> {
        let mut link = self.fd.as_raw_fd() as u32;
        // SAFETY: the attributes are those of the command, and hold no address.
        unsafe { bpf(BPF_LINK_DETACH, &mut link) }
    }

    /// Index of the interface it is attached to, in the interface's network namespace; None once there is none.
    pub fn interface(&self) -> Option<u32> {
        let state = self.state().ok()?;
        (state.index != 0).then_some(state.index)
    }

    /// Whether it is attached to this interface of our network namespace: those of others have the same numbers.
    pub fn is_on(&self, index: u32, side: Direction) -> bool {
        let links = links_on(index, side);
        self.state().is_ok_and(|state| {
            state.index == index && links.is_ok_and(|links| links.contains(&state.id))
        })
    }

    /// Whether it is attached to an interface of our network namespace.
    pub fn is_here(&self) -> bool {
        self.interface()
            .is_some_and(|index| Direction::BOTH.iter().any(|side| self.is_on(index, *side)))
    }

    fn state(&self) -> io::Result<LinkState> {
        info(self.fd.as_fd())
    }
}

impl Drop for TcxLink {
    fn drop(&mut self) {
        if let Some(pin) = &self.pin {
            // Somebody else may have removed it: then nothing keeps the link but us.
            let _ = bpffs::remove(pin);
        }
    }
}

/// Numbers of the links at one side of an interface.
fn links_on(index: u32, side: Direction) -> io::Result<Vec<u32>> {
    /// More than the kernel lets stand there.
    const MOST: usize = 64;
    let mut programs = [0_u32; MOST];
    let mut links = [0_u32; MOST];
    let mut attributes = QueryAttributes {
        index,
        kind: attach_type(side),
        flags: 0,
        attach_flags: 0,
        programs: programs.as_mut_ptr() as u64,
        count: MOST as u32,
        padding: 0,
        program_flags: 0,
        links: links.as_mut_ptr() as u64,
        link_flags: 0,
        revision: 0,
    };
    // SAFETY: the attributes are those of the command; both arrays have `count` places and outlive it.
    unsafe { bpf(BPF_PROG_QUERY, &mut attributes) }?;
    let count = (attributes.count as usize).min(MOST);
    Ok(links[..count].to_vec())
}

const fn attach_type(side: Direction) -> u32 {
    match side {
        Direction::Ingress => 46,
        Direction::Egress => 47,
    }
}

// Of the kernel's `enum bpf_cmd`.
const BPF_PROG_QUERY: libc::c_int = 16;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;
const BPF_LINK_DETACH: libc::c_int = 34;
const BPF_F_BEFORE: u32 = 1 << 3;

#[repr(C)]
struct CreateAttributes {
    program: u32,
    index: u32,
    kind: u32,
    flags: u32,
}

#[repr(C)]
struct UpdateAttributes {
    link: u32,
    program: u32,
    flags: u32,
    old_program: u32,
}

#[repr(C)]
struct QueryAttributes {
    index: u32,
    kind: u32,
    flags: u32,
    attach_flags: u32,
    programs: u64,
    count: u32,
    padding: u32,
    program_flags: u64,
    links: u64,
    link_flags: u64,
    revision: u64,
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

//! A link: one program at one hook of one interface, or of a network namespace. It lasts as long as somebody holds it or a file stands for it, and
//! outlives its interface: then it names none any more.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::pins::bpffs;
use super::syscall::{Plain, bpf, bpf_fd, info};

/// One program attached. Dropping it detaches.
#[derive(Debug)]
pub struct Link {
    fd: OwnedFd,
    /// The file that keeps it when this process is killed.
    pin: Option<PathBuf>,
}

impl Link {
    /// `kind` and `flags` are those of the kernel's `enum bpf_attach_type`, and of the hook.
    pub fn create(program: BorrowedFd<'_>, index: u32, kind: u32, flags: u32) -> io::Result<Self> {
        let mut attributes = CreateAttributes {
            program: program.as_raw_fd() as u32,
            index,
            kind,
            flags,
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

    /// Makes the file it is kept by. There must be none yet.
    pub fn pin_at(&mut self, path: PathBuf) -> io::Result<()> {
        bpffs::pin(self.fd.as_fd(), &path)?;
        self.pin = Some(path);
        Ok(())
    }

    /// From now on it goes with the file it was opened by.
    pub fn adopt(&mut self, path: PathBuf) {
        self.pin = Some(path);
    }

    /// Lets it go, and leaves the program attached as long as its file is there.
    pub fn leave(mut self) {
        self.pin = None;
    }

    /// Puts another program in the place of the one that is attached. No packet goes unseen in between.
    pub fn update(&self, program: BorrowedFd<'_>) -> io::Result<()> {
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

    pub fn state(&self) -> io::Result<LinkState> {
        info(self.fd.as_fd())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if let Some(pin) = &self.pin {
            // Somebody else may have removed it: then nothing keeps the link but us.
            let _ = bpffs::remove(pin);
        }
    }
}

// Of the kernel's `enum bpf_cmd`.
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_LINK_UPDATE: libc::c_int = 29;
const BPF_LINK_DETACH: libc::c_int = 34;

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

/// The kernel's `struct bpf_link_info` of a link to an interface.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkState {
    pub kind: u32,
    pub id: u32,
    pub program: u32,
    padding: u32,
    pub index: u32,
    /// Of tcx links; zero of others.
    pub attach_type: u32,
}

// SAFETY: six integers without a gap.
unsafe impl Plain for LinkState {}

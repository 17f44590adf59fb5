//! The BPF file system: files in it keep tables and links alive when nobody else does.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FlockOperation, flock, statfs};
use rustix::mount::{MountFlags, mount};
use rustix::process::geteuid;

use super::super::syscall::{bpf, bpf_fd};

/// Where it is mounted on every system that mounts it.
pub const MOUNT_POINT: &str = "/sys/fs/bpf";

/// Mounts it if nobody has, which takes root.
pub fn ensure_mounted(at: &Path) -> io::Result<()> {
    if is_mounted(at)? {
        return Ok(());
    }
    // Two processes that start together must not mount two, of which the second hides the first.
    let underneath = File::open(at)?;
    flock(&underneath, FlockOperation::LockExclusive)?;
    if is_mounted(at)? {
        return Ok(());
    }
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("bpf", at, "bpf", flags, c"mode=0700")?;
    tracing::info!("mounted the BPF file system at {}", at.display());
    Ok(())
}

pub fn is_mounted(at: &Path) -> io::Result<bool> {
    const BPF_FS_MAGIC: u32 = 0xcafe_4a11;
    Ok(statfs(at)?.f_type as u32 == BPF_FS_MAGIC)
}

/// Makes the folder if it is not there. One that others may write to is none to trust.
pub fn ensure_private(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = fs::symlink_metadata(folder)?;
    let is_ours = found.uid() == geteuid().as_raw();
    if !found.is_dir() || !is_ours || found.mode() & 0o077 != 0 {
        return Err(io::Error::other(format!(
            "{} is not ours alone: it should be a folder of mode 0700",
            folder.display()
        )));
    }
    Ok(())
}

/// Gives a table or link a name. There must be no file of that name; dots are not allowed.
pub fn pin(object: BorrowedFd<'_>, path: &Path) -> io::Result<()> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = ObjectAttributes {
        path: path.as_ptr() as u64,
        fd: object.as_raw_fd() as u32,
        flags: 0,
    };
    // SAFETY: the attributes are those of the command, and the path is a C string that outlives it.
    unsafe { bpf(BPF_OBJ_PIN, &mut attributes) }
}

/// The table or link of that name.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let mut attributes = ObjectAttributes {
        path: path.as_ptr() as u64,
        fd: 0,
        flags: 0,
    };
    // SAFETY: the attributes are those of the command, and the path is a C string that outlives it.
    unsafe { bpf_fd(BPF_OBJ_GET, &mut attributes) }
}

/// Removes a file; one that is not there is as good.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

const BPF_OBJ_PIN: libc::c_int = 6;
const BPF_OBJ_GET: libc::c_int = 7;

#[repr(C)]
struct ObjectAttributes {
    path: u64,
    fd: u32,
    flags: u32,
}

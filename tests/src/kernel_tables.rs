//! What the kernel's tables of a process hold, asked of the kernel: what the process says of itself is not believed here.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result};

use crate::process::Process;

/// Keys of a hash table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys(Vec<Vec<u8>>);

impl Keys {
    /// Those of a table that the process has loaded.
    pub fn of(process: &Process, table: &str) -> Result<Self> {
        let folder = format!("/proc/{}/fdinfo", process.id());
        for entry in fs::read_dir(&folder)? {
            // A descriptor may be closed meanwhile.
            let Ok(info) = fs::read_to_string(entry?.path()) else {
                continue;
            };
            let Some(id) = field(&info, "map_id:") else {
                continue;
            };
            let map = Map::open(id)?;
            if map.name()? == table {
                let size = field(&info, "key_size:").context("a table without keys")?;
                return Ok(Self(map.keys(size as usize)?));
            }
        }
        anyhow::bail!("the process has no table {table}")
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// How many are about this address, wherever in the key it stands.
    pub fn about(&self, address: IpAddr) -> usize {
        let bytes = match address {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let is_about = |key: &&Vec<u8>| key.windows(bytes.len()).any(|part| part == bytes);
        self.0.iter().filter(is_about).count()
    }
}

fn field(info: &str, name: &str) -> Option<u32> {
    let line = info.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

/// Room for the arguments of any command (`union bpf_attr`), beginning with zeroes.
type Arguments = [u64; 20];

struct Map(OwnedFd);

impl Map {
    fn open(id: u32) -> io::Result<Self> {
        const GET_FD_BY_ID: libc::c_int = 14;
        let mut arguments = Arguments::default();
        arguments[0] = u64::from(id);
        let fd = bpf(GET_FD_BY_ID, &mut arguments)?;
        // SAFETY: the call has just made this descriptor, and nobody else has it.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    fn name(&self) -> io::Result<String> {
        const GET_INFO_BY_FD: libc::c_int = 15;
        /// Of `struct bpf_map_info`, of which the kernel fills as much as there is room for.
        const LENGTH: u64 = 40;
        const NAME: std::ops::Range<usize> = 24..40;
        let mut info = [0_u8; LENGTH as usize];
        let mut arguments = Arguments::default();
        arguments[0] = LENGTH << 32 | self.fd();
        arguments[1] = info.as_mut_ptr() as u64;
        bpf(GET_INFO_BY_FD, &mut arguments)?;
        let name = &info[NAME];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// One after the other. A table that changes meanwhile may be shown from the start again: asked until it holds still.
    fn keys(&self, size: usize) -> io::Result<Vec<Vec<u8>>> {
        const GET_NEXT_KEY: libc::c_int = 4;
        let mut keys: Vec<Vec<u8>> = Vec::new();
        loop {
            let mut next = vec![0_u8; size];
            let mut arguments = Arguments::default();
            arguments[0] = self.fd();
            arguments[1] = keys.last().map_or(0, |key| key.as_ptr() as u64);
            arguments[2] = next.as_mut_ptr() as u64;
            match bpf(GET_NEXT_KEY, &mut arguments) {
                Ok(_) if keys.contains(&next) => keys.clear(),
                Ok(_) => keys.push(next),
                Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(keys),
                Err(error) => return Err(error),
            }
        }
    }

    fn fd(&self) -> u64 {
        u64::from(self.0.as_raw_fd().unsigned_abs())
    }
}

/// Pointers among the arguments point to memory that lives until this returns, and is as long as the command wants it.
fn bpf(command: libc::c_int, arguments: &mut Arguments) -> io::Result<i32> {
    let length = size_of::<Arguments>();
    // SAFETY: `arguments` is valid for `length` bytes; what it points to is local to the callers above, which make it as
    // long as the kernel's interface says for their command.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, arguments.as_mut_ptr(), length) };
    match i32::try_from(result) {
        Ok(result) if result >= 0 => Ok(result),
        _ => Err(io::Error::last_os_error()),
    }
}

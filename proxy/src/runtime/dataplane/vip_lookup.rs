//! `vip_lookup` on our network namespace: the program, its link and what it looks up. The link is made when there is the
//! first virtual address to serve. It is pinned like those of interfaces, and the program behind it is swapped, not taken
//! off and put on again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use aya::Ebpf;
use aya::programs::{ProgramError, SkLookup};
use weir_common::{Vip, VipKey};

use super::kernel::hash_table;
use super::link::Link;
use super::pins::bpffs;
use super::syscall::{HashTable, bpf};
use super::unavailable::Unavailable;

const PROGRAM: &str = "vip_lookup";
const NAMESPACE: &str = "/proc/thread-self/ns/net";

pub struct VipLookup {
    program: OwnedFd,
    rows: HashTable<VipKey, Vip>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    /// What is in the table.
    there: BTreeMap<VipKey, Vip>,
}

impl VipLookup {
    /// Has the verifier look at the program, and runs it once.
    pub fn load(ebpf: &mut Ebpf) -> Result<Self, Unavailable> {
        let rows = hash_table(ebpf, "VIP")?;
        let program = load_program(ebpf).map_err(|error| Unavailable::program(PROGRAM, error))?;
        let lookup = Self {
            program,
            rows,
            state: Mutex::default(),
        };
        let nothing = Lookup {
            family: libc::AF_INET as u32,
            ..Lookup::default()
        };
        lookup
            .run_on(&nothing)
            .map_err(|source| Unavailable::TestRun {
                program: PROGRAM,
                source: ProgramError::IOError(source),
            })?;
        Ok(lookup)
    }

    /// Attaches the program if it is not, keeping its link in this file.
    pub fn attach(&self, pin: Option<PathBuf>) -> io::Result<()> {
        let mut state = self.state();
        if state.link.is_none() {
            state.link = Some(adopt_or_create(self.program.as_fd(), pin)?);
        }
        Ok(())
    }

    /// Leaves the program to another process.
    pub fn leave(&self) {
        if let Some(link) = self.state().link.take() {
            link.leave();
        }
    }

    pub fn detach(&self) {
        self.state().link = None;
    }

    /// Brings the table to these rows. New and changed ones are written before others go, each as a whole: a connection
    /// that comes meanwhile finds the old or the new.
    pub fn publish(&self, wanted: BTreeMap<VipKey, Vip>) -> io::Result<()> {
        let mut state = self.state();
        for (key, row) in &wanted {
            if state.there.get(key) != Some(row) {
                self.rows.insert(key, row)?;
            }
        }
        for key in state.there.keys() {
            if !wanted.contains_key(key) {
                self.rows.remove(key)?;
            }
        }
        if wanted.is_empty() {
            state.link = None;
        }
        state.there = wanted;
        Ok(())
    }

    /// Runs the program on a lookup; says whether it finds a socket.
    pub fn run_on(&self, lookup: &Lookup) -> io::Result<bool> {
        let mut answer = Lookup::default();
        let mut attributes = RunAttributes {
            program: self.program.as_raw_fd() as u32,
            repeat: 1,
            context_in: size_of::<Lookup>() as u32,
            context_out: size_of::<Lookup>() as u32,
            context: std::ptr::from_ref(lookup) as u64,
            answer: std::ptr::from_mut(&mut answer) as u64,
            ..RunAttributes::default()
        };
        // SAFETY: the attributes are those of the command; both contexts are as long as said, and outlive it.
        match unsafe { bpf(BPF_PROG_TEST_RUN, &mut attributes) } {
            // Its socket is one of several, among which the kernel chooses no further in a test run.
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(true),
            done => done.map(|()| answer.cookie != 0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn load_program(ebpf: &mut Ebpf) -> Result<OwnedFd, ProgramError> {
    let program = ebpf.program_mut(PROGRAM).ok_or(ProgramError::NotLoaded)?;
    let program: &mut SkLookup = program.try_into()?;
    program.load()?;
    Ok(program.fd()?.as_fd().try_clone_to_owned()?)
}

/// Goes on with the link an earlier process pinned, if it is on our network namespace.
fn adopt_or_create(program: BorrowedFd<'_>, pin: Option<PathBuf>) -> io::Result<Link> {
    let Some(pin) = pin else {
        return create(program);
    };
    if let Ok(mut link) = Link::open(&pin) {
        if is_here(&link)? && link.update(program).is_ok() {
            link.adopt(pin);
            return Ok(link);
        }
        bpffs::remove(&pin)?;
    }
    let mut link = create(program)?;
    link.pin_at(pin)?;
    Ok(link)
}

fn create(program: BorrowedFd<'_>) -> io::Result<Link> {
    let namespace = File::open(NAMESPACE)?;
    Link::create(program, namespace.as_raw_fd() as u32, BPF_SK_LOOKUP, 0)
}

/// Of such links the kernel tells the namespace where those of interfaces have the index.
fn is_here(link: &Link) -> io::Result<bool> {
    let namespace = std::fs::metadata(NAMESPACE)?.ino();
    Ok(u64::from(link.state()?.index) == namespace)
}

const BPF_SK_LOOKUP: u32 = 36;
// Of the kernel's `enum bpf_cmd`.
const BPF_PROG_TEST_RUN: libc::c_int = 10;

#[repr(C)]
#[derive(Default)]
struct RunAttributes {
    program: u32,
    result: u32,
    data_in: u32,
    data_out: u32,
    data: u64,
    data_answer: u64,
    repeat: u32,
    duration: u32,
    context_in: u32,
    context_out: u32,
    context: u64,
    answer: u64,
}

/// The kernel's `struct bpf_sk_lookup`: a packet looking for its socket. Addresses are as they lie in the packet.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Lookup {
    /// Of the socket that was found.
    pub cookie: u64,
    /// `AF_INET` or `AF_INET6`.
    pub family: u32,
    pub protocol: u32,
    pub remote_ip4: u32,
    pub remote_ip6: [u32; 4],
    /// Network byte order.
    pub remote_port: u16,
    pub padding: u16,
    pub local_ip4: u32,
    pub local_ip6: [u32; 4],
    /// Host byte order.
    pub local_port: u32,
    pub interface: u32,
    pub end: u32,
}

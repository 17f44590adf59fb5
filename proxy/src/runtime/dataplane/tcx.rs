//! tcx links: one program at one side of one interface, beside those of others.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use super::kernel::Direction;
use super::link::Link;
use super::pins::bpffs;
use super::syscall::bpf;

/// Attaches before all programs that are there: a foreign one may end the chain, a measuring one never does.
///
/// # Errors
/// `EINVAL` where the kernel has no tcx, which came with Linux 6.6.
pub fn create(program: BorrowedFd<'_>, index: u32, side: Direction) -> io::Result<Link> {
    Link::create(program, index, attach_type(side), BPF_F_BEFORE)
}

/// Goes on with the link an earlier process pinned there, if it is still on this interface, or makes one and pins it.
pub fn adopt_or_create(
    program: BorrowedFd<'_>,
    index: u32,
    side: Direction,
    pin: PathBuf,
) -> io::Result<Link> {
    if let Ok(mut link) = Link::open(&pin) {
        if is_on(&link, index, side) && link.update(program).is_ok() {
            link.adopt(pin);
            return Ok(link);
        }
        bpffs::remove(&pin)?;
    }
    let mut link = create(program, index, side)?;
    link.pin_at(pin)?;
    Ok(link)
}

/// Whether it is attached to this interface of our network namespace: those of others have the same numbers.
pub fn is_on(link: &Link, index: u32, side: Direction) -> bool {
    let links = links_on(index, side);
    link.state().is_ok_and(|state| {
        state.index == index && links.is_ok_and(|links| links.contains(&state.id))
    })
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

/// Of the kernel's `enum bpf_cmd`.
const BPF_PROG_QUERY: libc::c_int = 16;
const BPF_F_BEFORE: u32 = 1 << 3;

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

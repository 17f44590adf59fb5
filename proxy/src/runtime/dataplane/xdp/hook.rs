//! The XDP hook of an interface: a driver has room for one program, or the network stack for one in its stead. Whose it
//! is, is never guessed: rtnetlink(7) says which program is there.

use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use aya::programs::loaded_programs;

use super::super::interfaces::Interface;
use super::super::link::Link;
use super::super::netlink::{Question, attribute, u32_at};
use super::super::pins::bpffs;

/// Who runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpHook {
    /// The driver, before the kernel has made anything of a frame.
    Native,
    /// The network stack, later and dearer, on any interface.
    Generic,
}

impl XdpHook {
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
        }
    }

    /// `XDP_FLAGS_DRV_MODE` or `XDP_FLAGS_SKB_MODE`.
    const fn flags(self) -> u32 {
        match self {
            Self::Native => 1 << 2,
            Self::Generic => 1 << 1,
        }
    }
}

/// Why a program is not attached by a hook.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HookError {
    #[error("the program {name} (id {id}) of somebody else is attached there, and stays")]
    Foreign { name: String, id: u32 },
    #[error("the driver has no XDP")]
    NoDriverSupport,
    #[error("{0}")]
    Refused(String),
}

/// The program at an interface's hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Occupant {
    hook: Option<XdpHook>,
    program: u32,
}

/// Attaches, or goes on with the link an earlier process pinned, if it hangs on this interface by this hook. Never takes
/// the place of another's program.
pub fn attach(
    program: BorrowedFd<'_>,
    interface: &Interface,
    hook: XdpHook,
    pin: Option<PathBuf>,
) -> Result<Link, HookError> {
    let occupant =
        occupant(interface.index).map_err(|error| HookError::Refused(error.to_string()))?;
    if let Some(pin) = &pin {
        if let Some(link) = adopt(program, interface, hook, pin, occupant) {
            return Ok(link);
        }
        // Detached by word, for a link whose last file is removed goes only a moment later.
        let _ = Link::open(pin).and_then(|link| link.detach());
        bpffs::remove(pin).map_err(|error| HookError::Refused(error.to_string()))?;
    }
    let refused = |error: io::Error| match error.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => foreign(interface.index),
        Some(libc::EOPNOTSUPP) => HookError::NoDriverSupport,
        _ => HookError::Refused(error.to_string()),
    };
    let mut link =
        Link::create(program, interface.index, BPF_XDP, hook.flags()).map_err(refused)?;
    if let Some(pin) = pin {
        link.pin_at(pin)
            .map_err(|error| HookError::Refused(error.to_string()))?;
    }
    Ok(link)
}

fn adopt(
    program: BorrowedFd<'_>,
    interface: &Interface,
    hook: XdpHook,
    pin: &Path,
    occupant: Option<Occupant>,
) -> Option<Link> {
    let mut link = Link::open(pin).ok()?;
    let is_same = occupant?.hook == Some(hook) && is_on(&link, interface.index);
    if is_same && link.update(program).is_ok() {
        link.adopt(pin.to_owned());
        return Some(link);
    }
    None
}

/// Whether the link's program is the one at this interface's hook. Interfaces of other network namespaces have the same
/// numbers, and programs have not.
pub fn is_on(link: &Link, index: u32) -> bool {
    let Ok(state) = link.state() else {
        return false;
    };
    let occupant = occupant(index).ok().flatten();
    state.index == index && occupant.is_some_and(|occupant| occupant.program == state.program)
}

fn foreign(index: u32) -> HookError {
    let Ok(Some(Occupant { program: id, .. })) = occupant(index) else {
        return HookError::Refused("the hook is taken, and nobody says by whom".to_owned());
    };
    let mut programs = loaded_programs().flatten();
    let program = programs.find(|program| program.id() == id);
    let name = program.and_then(|program| Some(program.name_as_str()?.to_owned()));
    HookError::Foreign {
        name: name.unwrap_or_else(|| "without a name".to_owned()),
        id,
    }
}

/// Of the kernel's `enum bpf_attach_type`.
const BPF_XDP: u32 = 37;
const LINK_HEADER: usize = 16;
// Of linux/if_link.h.
const IFLA_XDP: u16 = 43;
const IFLA_XDP_ATTACHED: u16 = 2;
const IFLA_XDP_PROG_ID: u16 = 4;
const XDP_ATTACHED_DRV: u8 = 1;
const XDP_ATTACHED_SKB: u8 = 2;

/// The program at the interface's hook, whoever attached it.
fn occupant(index: u32) -> io::Result<Option<Occupant>> {
    let mut header = vec![0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    let question = Question {
        kind: libc::RTM_GETLINK,
        flags: 0,
        header,
        attributes: Vec::new(),
    };
    Ok(occupant_in(&question.ask()?))
}

fn occupant_in(answer: &[u8]) -> Option<Occupant> {
    let xdp = attribute(answer.get(LINK_HEADER..)?, IFLA_XDP)?;
    let program = u32_at(attribute(xdp, IFLA_XDP_PROG_ID)?, 0)?;
    let hook = match *attribute(xdp, IFLA_XDP_ATTACHED)?.first()? {
        XDP_ATTACHED_DRV => Some(XdpHook::Native),
        XDP_ATTACHED_SKB => Some(XdpHook::Generic),
        _ => None,
    };
    Some(Occupant { hook, program })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_occupant_of_a_hook_is_read_off_the_answer_and_its_absence_too() {
        let mut answer = vec![0; LINK_HEADER];
        answer.extend([8, 0, 4, 0, 9, 9, 9, 9]);
        assert_eq!(occupant_in(&answer), None);
        answer.extend([
            20, 0, 43, 0, 5, 0, 2, 0, 2, 0, 0, 0, 8, 0, 4, 0, 77, 0, 0, 0,
        ]);
        let expected = Occupant {
            hook: Some(XdpHook::Generic),
            program: 77,
        };
        assert_eq!(occupant_in(&answer), Some(expected));
        for length in 0..answer.len() {
            assert_eq!(occupant_in(&answer[..length]), None, "{length} bytes");
        }
    }
}

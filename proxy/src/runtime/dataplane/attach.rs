//! Attaches the measuring programs to interfaces: by tcx links, which vanish with this process and stand beside other
//! people's programs; where the kernel has no tcx, by clsact filters, which are removed on drop.

use aya::Ebpf;
use aya::programs::tc::{
    NlOptions, SchedClassifierLinkId, TcAttachOptions, TcError, qdisc_add_clsact,
};
use aya::programs::{LinkOrder, ProgramError, SchedClassifier, TcAttachType};

use super::interfaces::Interface;
use super::kernel::{Direction, program};
use super::unavailable::in_one_line;

/// How a pair of programs hangs on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// tcx links.
    Tcx,
    /// Filters of a clsact qdisc: this kernel has no tcx.
    Clsact,
}

/// One interface and what became of attaching to it.
#[derive(Clone, Debug)]
pub struct InterfaceStatus {
    pub interface: Interface,
    /// The hook, or why there is none.
    pub attached: Result<Hook, String>,
}

/// Attaches both programs or none of them, by the best hook this kernel has.
pub fn attach(ebpf: &mut Ebpf, interface: &Interface) -> InterfaceStatus {
    let attached = attach_by(ebpf, interface, Hook::Tcx).or_else(|tcx| {
        attach_by(ebpf, interface, Hook::Clsact).map_err(|clsact| {
            format!(
                "tcx: {}; clsact: {}",
                in_one_line(&tcx),
                in_one_line(&clsact)
            )
        })
    });
    InterfaceStatus {
        interface: interface.clone(),
        attached,
    }
}

/// Attaches both programs or none of them, by this hook.
pub fn attach_by(ebpf: &mut Ebpf, interface: &Interface, hook: Hook) -> Result<Hook, ProgramError> {
    if hook == Hook::Clsact {
        ensure_clsact(&interface.name)?;
    }
    let egress = attach_one(
        program(ebpf, Direction::Egress)?,
        Direction::Egress,
        interface,
        hook,
    )?;
    let ingress = program(ebpf, Direction::Ingress)
        .and_then(|program| attach_one(program, Direction::Ingress, interface, hook));
    if let Err(error) = ingress {
        program(ebpf, Direction::Egress)?.detach(egress)?;
        return Err(error);
    }
    Ok(hook)
}

fn attach_one(
    program: &mut SchedClassifier,
    direction: Direction,
    interface: &Interface,
    hook: Hook,
) -> Result<SchedClassifierLinkId, ProgramError> {
    let options = match hook {
        Hook::Tcx => TcAttachOptions::TcxOrder(LinkOrder::default()),
        Hook::Clsact => TcAttachOptions::Netlink(NlOptions::default()),
    };
    let side = match direction {
        Direction::Egress => TcAttachType::Egress,
        Direction::Ingress => TcAttachType::Ingress,
    };
    program.attach_with_options(&interface.name, side, options)
}

/// An interface that has the qdisc already keeps it, with whatever filters others put there.
fn ensure_clsact(interface: &str) -> Result<(), TcError> {
    match qdisc_add_clsact(interface) {
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        added => added,
    }
}

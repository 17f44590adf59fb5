//! Attaches the measuring programs to an interface: by tcx links, which stand beside other people's programs; where the
//! kernel has no tcx, by clsact filters.

use std::io;
use std::os::fd::AsFd;

use aya::programs::tc::{
    NlOptions, SchedClassifierLink, TcAttachOptions, TcError, qdisc_add_clsact,
};
use aya::programs::{ProgramError, TcAttachType};

use super::interfaces::Interface;
use super::kernel::Direction;
use super::link::Link;
use super::pins::FilterPin;
use super::programs::Programs;
use super::tcx;
use super::unavailable::in_one_line;

/// How a pair of programs hangs on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// tcx links.
    Tcx,
    /// Filters of a clsact qdisc: this kernel has no tcx.
    Clsact,
}

#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    #[error(transparent)]
    Tcx(#[from] io::Error),
    #[error(transparent)]
    Clsact(#[from] ProgramError),
}

/// Both programs on one interface. Dropping it detaches them.
#[derive(Debug)]
pub struct Attachment {
    pub interface: Interface,
    /// Why it is not the hook we prefer; None if it is.
    pub second_choice: Option<String>,
    links: Links,
}

#[derive(Debug)]
enum Links {
    Tcx([Link; 2]),
    Clsact { filters: [Filter; 2] },
}

/// Dropped in this order: a record without a filter does no harm.
#[derive(Debug)]
struct Filter {
    filter: SchedClassifierLink,
    record: Option<FilterPin>,
}

impl Attachment {
    /// Attaches both programs or none of them, by the best hook this kernel has. The error names what each hook said.
    pub fn make(programs: &mut Programs, interface: &Interface) -> Result<Self, String> {
        let tcx = match Self::make_by(programs, interface, Hook::Tcx) {
            Ok(attachment) => return Ok(attachment),
            Err(error) => in_one_line(&error),
        };
        match Self::make_by(programs, interface, Hook::Clsact) {
            Ok(attachment) => Ok(Self {
                second_choice: Some(format!("tcx: {tcx}")),
                ..attachment
            }),
            Err(clsact) => Err(format!("tcx: {tcx}; clsact: {}", in_one_line(&clsact))),
        }
    }

    /// Attaches both programs or none of them, by this hook.
    pub fn make_by(
        programs: &mut Programs,
        interface: &Interface,
        hook: Hook,
    ) -> Result<Self, AttachError> {
        let links = match hook {
            Hook::Tcx => Links::Tcx([
                link(programs, interface, Direction::Egress)?,
                link(programs, interface, Direction::Ingress)?,
            ]),
            Hook::Clsact => {
                ensure_clsact(&interface.name).map_err(ProgramError::from)?;
                Links::Clsact {
                    filters: [
                        filter(programs, interface, Direction::Egress)?,
                        filter(programs, interface, Direction::Ingress)?,
                    ],
                }
            }
        };
        Ok(Self {
            interface: interface.clone(),
            second_choice: None,
            links,
        })
    }

    pub fn hook(&self) -> Hook {
        match self.links {
            Links::Tcx(_) => Hook::Tcx,
            Links::Clsact { .. } => Hook::Clsact,
        }
    }

    /// Lets it go, and leaves everything that is recorded or pinned attached.
    pub fn leave(self) {
        match self.links {
            Links::Tcx(links) => links.into_iter().for_each(Link::leave),
            Links::Clsact { filters } => filters.into_iter().for_each(Filter::leave),
        }
    }

    /// Whether it is still on its interface, which may be gone, or have been taken from it by somebody else.
    pub fn is_in_place(&self) -> bool {
        match &self.links {
            Links::Tcx(links) => links
                .iter()
                .all(|link| link.interface() == Some(self.interface.index)),
            // Filters say nothing of themselves, and go with the interface.
            Links::Clsact { .. } => Interface::at(self.interface.index).is_some(),
        }
    }
}

impl Filter {
    /// One without a record is removed, as nobody could find it.
    fn leave(self) {
        if let Some(record) = self.record {
            // Dropping it would remove the filter.
            std::mem::forget(self.filter);
            record.leave();
        }
    }
}

fn link(
    programs: &mut Programs,
    interface: &Interface,
    side: Direction,
) -> Result<Link, AttachError> {
    let index = interface.index;
    let pin = programs.pins.as_ref().map(|pins| pins.link(side, index));
    let program = programs.of(side)?.fd()?.as_fd();
    Ok(match pin {
        Some(pin) => tcx::adopt_or_create(program, index, side, pin)?,
        None => tcx::create(program, index, side)?,
    })
}

fn filter(
    programs: &mut Programs,
    interface: &Interface,
    side: Direction,
) -> Result<Filter, AttachError> {
    let options = TcAttachOptions::Netlink(NlOptions::default());
    let parent = match side {
        Direction::Egress => TcAttachType::Egress,
        Direction::Ingress => TcAttachType::Ingress,
    };
    let program = programs.of(side)?;
    let link = program.attach_with_options(&interface.name, parent, options)?;
    let filter = program.take_link(link)?;
    let record = match &programs.pins {
        Some(pins) => Some(pins.record(&filter, side, interface)?),
        None => None,
    };
    Ok(Filter { filter, record })
}

/// An interface that has the qdisc already keeps it, with whatever filters others put there.
fn ensure_clsact(interface: &str) -> Result<(), TcError> {
    match qdisc_add_clsact(interface) {
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        added => added,
    }
}

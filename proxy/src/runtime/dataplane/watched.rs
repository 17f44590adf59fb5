//! The interfaces to measure on, over their lives: attached where they are, waited for where they are not, attached
//! again when they return, followed when they are renamed.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use super::attach::{Attachment, Hook};
use super::interfaces::{Interface, towards};
use super::programs::Programs;

/// One interface and what became of attaching to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceStatus {
    pub name: String,
    /// The hook, or why there is none.
    pub attached: Result<Hook, NotAttached>,
    /// Why it is not the hook we prefer; None if it is.
    pub second_choice: Option<String>,
}

/// Why programs do not hang on an interface.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAttached {
    #[error("there is no such interface")]
    Missing,
    #[error("somebody else has taken the programs off")]
    Detached,
    /// What the kernel has against it.
    #[error("{0}")]
    Refused(String),
}

/// Where to measure.
pub enum Wanted {
    /// On these, which may be missing.
    Named(Vec<String>),
    /// On those that lead to these addresses, whenever there is a route.
    Towards(Vec<SocketAddr>),
}

pub struct Watched {
    wanted: Wanted,
    entries: Vec<Entry>,
    /// Another process has the programs.
    is_away: bool,
}

struct Entry {
    /// What it is waited for by.
    name: String,
    state: State,
}

enum State {
    Attached(Attachment),
    /// There is no such interface.
    Missing,
    /// It is there, and the kernel does not want our programs on it.
    Refused {
        index: u32,
        reason: String,
    },
}

impl Watched {
    pub fn new(wanted: Wanted) -> Self {
        let missing = |name: &String| Entry {
            name: name.clone(),
            state: State::Missing,
        };
        let entries = match &wanted {
            Wanted::Named(names) => names.iter().map(missing).collect(),
            Wanted::Towards(_) => Vec::new(),
        };
        Self {
            wanted,
            entries,
            is_away: false,
        }
    }

    /// From now on these are the addresses to reach. Interfaces given by name stay what they are.
    pub fn follow(&mut self, destinations: &[SocketAddr], programs: &mut Programs) {
        if let Wanted::Towards(addresses) = &mut self.wanted {
            *addresses = destinations.to_vec();
        }
        self.attach_what_is_there(programs);
    }

    /// These are to be reached, too: attaches to interfaces that lead to them and are not measured on yet.
    pub fn reach(&mut self, more: &[SocketAddr], programs: &mut Programs) {
        let Wanted::Towards(addresses) = &mut self.wanted else {
            return;
        };
        addresses.extend_from_slice(more);
        let known = self.entries.len();
        self.add_unknown(towards(more).0);
        for entry in &mut self.entries[known..] {
            entry.mend(programs, false);
        }
    }

    /// Compares what is attached with what is there, and mends the difference.
    pub fn attach_what_is_there(&mut self, programs: &mut Programs) {
        if self.is_away {
            return;
        }
        self.discover();
        let is_named = matches!(self.wanted, Wanted::Named(_));
        for entry in &mut self.entries {
            entry.mend(programs, is_named);
        }
    }

    /// One more interface, attached already.
    pub fn add(&mut self, attachment: Attachment) {
        self.entries.push(Entry {
            name: attachment.interface.name.clone(),
            state: State::Attached(attachment),
        });
    }

    /// Detaches everywhere, for good.
    pub fn detach(&mut self) {
        self.wanted = Wanted::Named(Vec::new());
        self.entries.clear();
    }

    /// Measures nowhere until it returns, and leaves the programs to another process.
    pub fn leave(&mut self) {
        self.is_away = true;
        for entry in &mut self.entries {
            if let State::Attached(attachment) = std::mem::replace(&mut entry.state, State::Missing)
            {
                attachment.leave();
            }
        }
    }

    /// Measures nowhere until it returns.
    pub fn withdraw(&mut self) {
        self.is_away = true;
        for entry in &mut self.entries {
            if let State::Attached(_) = entry.state {
                entry.state = State::Missing;
            }
        }
    }

    /// The opposite of [`leave`](Self::leave) and [`withdraw`](Self::withdraw).
    pub fn come_back(&mut self, programs: &mut Programs) {
        self.is_away = false;
        self.attach_what_is_there(programs);
    }

    /// Indexes of the interfaces programs are attached to.
    pub fn indexes(&self) -> BTreeSet<u32> {
        let attached = self.entries.iter().filter_map(|entry| match &entry.state {
            State::Attached(attachment) => Some(attachment.interface.index),
            _ => None,
        });
        attached.collect()
    }

    pub fn is_by_route(&self) -> bool {
        matches!(self.wanted, Wanted::Towards(_))
    }

    pub fn status(&self) -> Vec<InterfaceStatus> {
        self.entries.iter().map(Entry::status).collect()
    }

    /// Adds interfaces that lead to the addresses, and forgets those that are gone and not missed.
    fn discover(&mut self) {
        let Wanted::Towards(addresses) = &self.wanted else {
            return;
        };
        let (interfaces, unreachable) = towards(addresses);
        if unreachable.is_empty() {
            self.entries
                .retain(|entry| !matches!(entry.state, State::Missing));
        }
        self.add_unknown(interfaces);
    }

    fn add_unknown(&mut self, interfaces: Vec<Interface>) {
        for interface in interfaces {
            if !self
                .entries
                .iter()
                .any(|entry| entry.stands_for(&interface))
            {
                self.entries.push(Entry {
                    name: interface.name,
                    state: State::Missing,
                });
            }
        }
    }
}

impl Entry {
    fn stands_for(&self, interface: &Interface) -> bool {
        match &self.state {
            State::Attached(attachment) => attachment.interface.index == interface.index,
            State::Missing | State::Refused { .. } => self.name == interface.name,
        }
    }

    fn mend(&mut self, programs: &mut Programs, is_named: bool) {
        let present = Interface::named(&self.name);
        match &mut self.state {
            State::Attached(attachment) => {
                let index = attachment.interface.index;
                if attachment.is_in_place() {
                    match present {
                        Some(present) if present.index == index => return,
                        // Another interface has the name now. Who gave the name means that one.
                        Some(_) if is_named => {}
                        _ => return self.follow_name(is_named),
                    }
                } else if Interface::at(index).as_ref() == Some(&attachment.interface) {
                    return self.give_way(index);
                } else {
                    tracing::warn!(
                        interface = attachment.interface.name,
                        "the interface is gone: not measuring on it until it returns"
                    );
                }
                self.state = State::Missing;
            }
            State::Refused { index, .. } => match &present {
                Some(present) if present.index == *index => return,
                _ => self.state = State::Missing,
            },
            State::Missing => {}
        }
        if let Some(interface) = Interface::named(&self.name) {
            self.attach(programs, &interface);
        }
    }

    /// Somebody took the programs off, as `weir detach --force` does, and meant it.
    fn give_way(&mut self, index: u32) {
        let reason = NotAttached::Detached.to_string();
        tracing::warn!(
            interface = self.name,
            "{reason}: not measuring on it until it is made anew, or Weir is started again"
        );
        self.state = State::Refused { index, reason };
    }

    /// The programs stay on an interface that is renamed.
    fn follow_name(&mut self, is_named: bool) {
        let State::Attached(attachment) = &mut self.state else {
            return;
        };
        let Some(renamed) = Interface::at(attachment.interface.index) else {
            return;
        };
        if renamed == attachment.interface {
            return;
        }
        tracing::info!(
            interface = attachment.interface.name,
            now = renamed.name,
            "the interface was renamed: measuring goes on"
        );
        if !is_named {
            self.name.clone_from(&renamed.name);
        }
        attachment.interface = renamed;
    }

    fn attach(&mut self, programs: &mut Programs, interface: &Interface) {
        self.state = match Attachment::make(programs, interface) {
            Ok(attachment) => {
                let interface = &interface.name;
                match &attachment.second_choice {
                    None => tracing::info!(interface, hook = "tcx", "measuring on the wire"),
                    Some(why) => tracing::warn!(
                        interface,
                        hook = "clsact",
                        "measuring on the wire, by filters, because of {why}"
                    ),
                }
                State::Attached(attachment)
            }
            Err(reason) => {
                tracing::warn!(
                    interface = interface.name,
                    reason,
                    "cannot attach: endpoints behind this interface are measured by the workers' clocks"
                );
                State::Refused {
                    index: interface.index,
                    reason,
                }
            }
        };
    }

    fn status(&self) -> InterfaceStatus {
        let State::Attached(attachment) = &self.state else {
            return InterfaceStatus {
                name: self.name.clone(),
                attached: Err(match &self.state {
                    State::Refused { reason, .. } => NotAttached::Refused(reason.clone()),
                    _ => NotAttached::Missing,
                }),
                second_choice: None,
            };
        };
        InterfaceStatus {
            name: attachment.interface.name.clone(),
            attached: match attachment.is_in_place() {
                true => Ok(attachment.hook()),
                false => Err(NotAttached::Detached),
            },
            second_choice: attachment.second_choice.clone(),
        }
    }
}

//! The interfaces `xdp_ingress` is wanted on, over their lives and while what it has to do changes.

use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::sync::Arc;

use super::hook::{self, HookError, XdpHook};
use super::obstacles::obstacles;
use super::placement::carrying;
use super::{XdpMode, XdpOptions};
use crate::runtime::dataplane::interfaces::{Interface, towards};
use crate::runtime::dataplane::link::Link;
use crate::runtime::dataplane::nat_ports;
use crate::runtime::dataplane::pins::Pins;
use crate::runtime::dataplane::programs::Programs;
use crate::snapshot::DenyList;

/// One interface and what became of attaching to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdpStatus {
    pub name: String,
    /// The hook, or why there is none, in words.
    pub attached: Result<XdpHook, String>,
    /// Why it is not the driver's hook, though that was asked for; None if it is, or was not.
    pub fallback: Option<String>,
}

pub struct XdpWatched {
    mode: XdpMode,
    /// Given by name; those that carry one of the addresses if there are none.
    names: Vec<String>,
    addresses: Vec<IpAddr>,
    deny: Arc<DenyList>,
    is_serving: bool,
    /// Addresses of L4 services.
    vips: Vec<IpAddr>,
    /// Their endpoints.
    ways: Vec<SocketAddr>,
    entries: Vec<Entry>,
    /// Indexes of interfaces that connections of L4 services may come in by, also those of endpoints that are gone.
    used: BTreeSet<u32>,
    is_placeless: bool,
    /// Another process has the programs.
    is_away: bool,
    /// What somebody was told is in the way of L4 services.
    said: BTreeSet<String>,
}

struct Entry {
    name: String,
    state: State,
}

enum State {
    Attached(Attachment),
    Missing,
    Refused { index: u32, reason: String },
}

struct Attachment {
    link: Link,
    index: u32,
    hook: XdpHook,
    fallback: Option<String>,
}

impl XdpWatched {
    pub fn new(options: XdpOptions) -> Self {
        Self {
            mode: options.mode,
            names: options.interfaces,
            addresses: options.addresses,
            deny: Arc::default(),
            is_serving: options.is_serving,
            vips: Vec::new(),
            ways: Vec::new(),
            entries: Vec::new(),
            used: BTreeSet::new(),
            is_placeless: false,
            is_away: false,
            said: BTreeSet::new(),
        }
    }

    pub fn mode(&self) -> XdpMode {
        self.mode
    }

    pub fn deny(&self) -> &Arc<DenyList> {
        &self.deny
    }

    /// The kernel denies these now.
    pub fn set_deny(&mut self, list: Arc<DenyList>, programs: &mut Programs) {
        self.deny = list;
        self.attach_where_wanted(programs);
    }

    /// There is no kernel to deny them.
    pub fn note_deny(&mut self, list: Arc<DenyList>) {
        self.deny = list;
    }

    /// Connections of an earlier process come in where its program hangs: no packet of them may pass meanwhile, which the
    /// host would answer with a reset. To be called before anything is attached.
    pub fn go_on_serving(&mut self, pins: &Pins) {
        if !self.is_serving {
            return;
        }
        let left = pins.xdp_indexes().unwrap_or_default().into_iter();
        let is_here = |index: &u32| {
            Link::open(&pins.xdp_link(*index)).is_ok_and(|link| hook::is_on(&link, *index))
        };
        self.used.extend(left.filter(is_here));
    }

    /// These are the L4 services' addresses, and their endpoints.
    pub fn serve(&mut self, vips: Vec<IpAddr>, ways: Vec<SocketAddr>, programs: &mut Programs) {
        if (&vips, &ways) != (&self.vips, &self.ways) {
            (self.vips, self.ways) = (vips, ways);
            self.attach_where_wanted(programs);
            self.say_what_is_in_the_way();
        }
    }

    pub fn follow(&mut self, addresses: Vec<IpAddr>, programs: &mut Programs) {
        self.addresses = addresses;
        self.attach_where_wanted(programs);
    }

    /// Compares what is attached with what is there and wanted, and mends the difference.
    pub fn attach_where_wanted(&mut self, programs: &mut Programs) {
        if self.is_away {
            return;
        }
        let mut before = std::mem::take(&mut self.entries);
        for (name, interface) in self.wanted() {
            let known = before
                .iter()
                .position(|entry| entry.is_for(&name, &interface));
            let known = known.map(|place| before.swap_remove(place).state);
            let state = match interface {
                Some(interface) => self.mend(known, &interface, programs),
                None => State::missing(known, &name),
            };
            self.entries.push(Entry { name, state });
        }
        for Entry { name, state } in before {
            if let State::Attached(_) = state {
                tracing::info!(
                    interface = name,
                    "XDP is detached: it is not wanted here any more"
                );
            }
        }
    }

    /// Detaches everywhere, for good.
    pub fn detach(&mut self) {
        self.mode = XdpMode::Off;
        self.entries.clear();
    }

    /// Attaches nowhere until it returns, and leaves the programs to another process.
    pub fn leave(&mut self) {
        self.is_away = true;
        for entry in self.entries.drain(..) {
            if let State::Attached(attachment) = entry.state {
                attachment.link.leave();
            }
        }
    }

    /// Detaches until it returns; where connections of L4 services come in only if none stands.
    pub fn withdraw(&mut self, is_standing: bool) {
        self.is_away = true;
        self.detach_unless(is_standing);
    }

    /// The opposite of [`leave`](Self::leave) and [`withdraw`](Self::withdraw).
    pub fn come_back(&mut self, programs: &mut Programs) {
        self.is_away = false;
        self.attach_where_wanted(programs);
    }

    pub fn is_away(&self) -> bool {
        self.is_away
    }

    /// Whether connections of L4 services may come in anywhere, and nobody else has taken them over.
    pub fn has_served(&self) -> bool {
        !self.used.is_empty() && !self.is_away
    }

    /// Leaves it, for those to come, where connections of L4 services come in; detaches elsewhere, for good.
    pub fn retire(&mut self) {
        self.mode = XdpMode::Off;
        self.detach_unless(true);
    }

    fn detach_unless(&mut self, is_standing: bool) {
        for Entry { state, .. } in self.entries.drain(..) {
            if let State::Attached(attachment) = state
                && is_standing
                && self.used.contains(&attachment.index)
            {
                attachment.link.leave();
            }
        }
    }

    /// Indexes of the interfaces it is attached to.
    pub fn indexes(&self) -> BTreeSet<u32> {
        let attached = self.entries.iter().filter_map(|entry| match &entry.state {
            State::Attached(attachment) => Some(attachment.index),
            _ => None,
        });
        attached.collect()
    }

    pub fn status(&self) -> Vec<XdpStatus> {
        self.entries.iter().map(Entry::status).collect()
    }

    fn wanted(&mut self) -> Vec<(String, Option<Interface>)> {
        let is_wanted = match self.mode {
            XdpMode::Auto => {
                !self.deny.is_empty() || !self.vips.is_empty() || !self.used.is_empty()
            }
            XdpMode::Native | XdpMode::Generic => true,
            XdpMode::Off => false,
        };
        if !is_wanted {
            return Vec::new();
        }
        if !self.names.is_empty() {
            let names = self.names.iter();
            return names
                .map(|name| (name.clone(), Interface::named(name)))
                .collect();
        }
        let found = self.places().unwrap_or_else(|error| {
            tracing::warn!(%error, "the kernel does not tell of its addresses: XDP is not attached");
            Vec::new()
        });
        let is_placeless = found.is_empty();
        if is_placeless && !self.is_placeless {
            tracing::warn!(
                "no interface carries an address clients connect to: XDP is not attached"
            );
        }
        self.is_placeless = is_placeless;
        let named = |interface: Interface| (interface.name.clone(), Some(interface));
        found.into_iter().map(named).collect()
    }

    /// Each obstacle is said once.
    fn say_what_is_in_the_way(&mut self) {
        let places = self.entries.iter();
        let places = places.filter_map(|entry| Interface::named(&entry.name));
        let mut obstacles: Vec<String> = places
            .flat_map(|interface| obstacles(&interface, &self.vips))
            .collect();
        if !self.vips.is_empty() {
            obstacles.extend(nat_ports::warning());
        }
        for obstacle in obstacles {
            if !self.said.contains(&obstacle) {
                tracing::warn!("{obstacle}");
                self.said.insert(obstacle);
            }
        }
    }

    /// Where denied packets come in, where clients of L4 services do, and where their endpoints answer.
    fn places(&mut self) -> io::Result<Vec<Interface>> {
        let is_idle = self.vips.is_empty() && self.used.is_empty();
        let mut places = match !self.deny.is_empty() || is_idle {
            true => carrying(&self.addresses)?,
            false => Vec::new(),
        };
        let serving = carrying(&self.vips)?
            .into_iter()
            .chain(towards(&self.ways).0);
        self.used.extend(serving.map(|interface| interface.index));
        // One that is gone is forgotten: no connection will come in by it.
        let used = std::mem::take(&mut self.used).into_iter();
        for interface in used.filter_map(Interface::at) {
            self.used.insert(interface.index);
            if !places.contains(&interface) {
                places.push(interface);
            }
        }
        Ok(places)
    }

    fn mend(&self, known: Option<State>, interface: &Interface, programs: &mut Programs) -> State {
        let (index, name) = (interface.index, &interface.name);
        let reason_before = match known {
            Some(State::Attached(attachment)) if hook::is_on(&attachment.link, index) => {
                return State::Attached(attachment);
            }
            Some(State::Refused { reason, .. }) => Some(reason),
            _ => None,
        };
        match self.attach(interface, programs) {
            Ok(attachment) => {
                attachment.announce(name);
                State::Attached(attachment)
            }
            Err(error) => {
                let reason = error.to_string();
                if reason_before.as_ref() != Some(&reason) {
                    tracing::warn!(interface = name, reason, "XDP is not attached");
                }
                State::Refused { index, reason }
            }
        }
    }

    /// By the hooks the mode allows, the better one first.
    fn attach(
        &self,
        interface: &Interface,
        programs: &mut Programs,
    ) -> Result<Attachment, HookError> {
        let by = |programs: &mut Programs, hook, fallback| {
            let pins = programs.pins.as_ref();
            let pin = pins.map(|pins| pins.xdp_link(interface.index));
            let program = programs.xdp().map_err(HookError::Refused)?;
            let link = hook::attach(program.as_fd(), interface, hook, pin)?;
            Ok(Attachment {
                link,
                index: interface.index,
                hook,
                fallback,
            })
        };
        if self.mode == XdpMode::Generic {
            return by(programs, XdpHook::Generic, None);
        }
        match by(programs, XdpHook::Native, None) {
            Err(error @ (HookError::NoDriverSupport | HookError::Refused(_)))
                if self.mode == XdpMode::Auto =>
            {
                by(programs, XdpHook::Generic, Some(error.to_string()))
            }
            attached => attached,
        }
    }
}

impl Attachment {
    fn announce(&self, interface: &str) {
        let hook = self.hook.name();
        match &self.fallback {
            None => tracing::info!(interface, hook, "XDP is attached"),
            Some(reason) => tracing::warn!(
                interface,
                hook,
                reason,
                "XDP is attached to the network stack, which costs more: the driver's hook is not to be had"
            ),
        }
    }
}

impl State {
    fn missing(known: Option<Self>, name: &str) -> Self {
        if !matches!(known, Some(Self::Missing)) {
            tracing::warn!(
                interface = name,
                "there is no such interface: XDP is attached when there is"
            );
        }
        Self::Missing
    }
}

impl Entry {
    /// An interface that was renamed is the same one; of one that is not there only the name is known.
    fn is_for(&self, name: &str, interface: &Option<Interface>) -> bool {
        match (&self.state, interface) {
            (State::Attached(attachment), Some(interface)) => attachment.index == interface.index,
            (State::Refused { index, .. }, Some(interface)) => *index == interface.index,
            _ => self.name == name,
        }
    }

    fn status(&self) -> XdpStatus {
        let (attached, fallback) = match &self.state {
            State::Attached(attachment) => match hook::is_on(&attachment.link, attachment.index) {
                true => (Ok(attachment.hook), attachment.fallback.clone()),
                false => (Err("somebody else has detached it".to_owned()), None),
            },
            State::Missing => (Err("there is no such interface".to_owned()), None),
            State::Refused { reason, .. } => (Err(reason.clone()), None),
        };
        XdpStatus {
            name: self.name.clone(),
            attached,
            fallback,
        }
    }
}

//! Which services of the kernel would lose frames, and where: found out once a second for each.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::moment::Moment;
use crate::runtime::dataplane::{KernelService, dead_end};

#[derive(Default)]
pub struct DeadEnds {
    known: HashMap<Ends, Known>,
}

/// Between whom.
type Ends = (IpAddr, Vec<SocketAddr>);

struct Known {
    interface: Option<String>,
    until: Moment,
}

const LIFETIME: Duration = Duration::from_secs(1);

impl DeadEnds {
    /// The interface that would lose frames of this service. None, too, where the kernel does not say.
    pub fn of(&mut self, service: &KernelService, now: Moment) -> Option<String> {
        let endpoints = service.endpoints.iter().map(|one| one.address).collect();
        let ends: Ends = (service.address.ip(), endpoints);
        if let Some(known) = self.known.get(&ends).filter(|known| known.until > now) {
            return known.interface.clone();
        }
        let interface = match dead_end(ends.0, &ends.1) {
            Ok(interface) => interface,
            Err(error) => {
                tracing::debug!(%error, "the kernel does not tell where a service's packets go");
                self.known.get(&ends)?.interface.clone()
            }
        };
        let known = Known {
            interface: interface.clone(),
            until: now + LIFETIME,
        };
        self.known.insert(ends, known);
        interface
    }

    /// Forgets what nobody asks for any more.
    pub fn tidy(&mut self, now: Moment) {
        self.known.retain(|_, known| known.until + LIFETIME > now);
    }
}

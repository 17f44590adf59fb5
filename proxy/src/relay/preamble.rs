//! PROXY headers: read from clients of services that want them, written to endpoints whose backends do.

use super::link::{LinkId, Phase};
use super::{ConnIds, Relay, Role};
use crate::balance::Outcome;
use crate::metrics::LinkEnd;
use crate::moment::Moment;
use crate::proxy_protocol::{self, Addresses, Header, HeaderError};

impl Relay {
    /// Part of a header, or all of it and more. The time for it does not grow with its pieces.
    pub(super) fn on_preamble(
        &mut self,
        id: LinkId,
        bytes: &[u8],
        now: Moment,
        ids: &mut impl ConnIds,
    ) {
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.early.extend_from_slice(bytes);
        match proxy_protocol::read(&link.early) {
            Ok(None) => {}
            Ok(Some(Header { length, addresses })) => {
                link.early.drain(..length);
                self.counters.l4_bytes_in.add(link.early.len() as u64);
                link.count(Role::Client, link.early.len());
                if let Some(addresses) = addresses {
                    link.told(addresses);
                }
                link.phase = Phase::Connecting;
                self.begin(id, now, ids);
            }
            Err(error) => self.refuse_preamble(id, error, now),
        }
    }

    fn refuse_preamble(&mut self, id: LinkId, error: HeaderError, now: Moment) {
        if let Some(link) = self.links.get(id) {
            tracing::debug!(client = %link.address, %error, "turned away");
        }
        self.give_up(id, Outcome::Neutral, LinkEnd::NoHeader, now);
    }

    /// Makes the header for the endpoint, if its backend wants one.
    pub(super) fn write_preamble(&mut self, id: LinkId) {
        let Some(link) = self.links.get(id) else {
            return;
        };
        if let Some(version) = link.sends_header {
            let addresses = Addresses {
                source: link.address,
                destination: link.destination,
            };
            proxy_protocol::write(self.out.made_mut(), version, addresses);
        }
    }
}

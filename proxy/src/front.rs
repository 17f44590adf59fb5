//! All that one worker serves: HTTP by the [`Proxy`], TCP services by the [`Relay`]. Each event goes to the one whose
//! listener or connection it is about. Names of connections and the budget for them are the proxy's, and lent to the
//! relay; where no TCP service is configured, none of this costs anything.

use std::net::IpAddr;

use crate::access_log::Record;
use crate::exchange::Proxy;
use crate::moment::Moment;
use crate::relay::{ConnIds, Relay, Role};
use crate::seam::{Action, ConnId, Core, Event};

/// The core of one worker.
pub struct Front {
    proxy: Proxy,
    relay: Relay,
    /// Whose action was given out last: whose bytes [`Core::made`] are.
    last: Part,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Proxy,
    Relay,
}

impl Front {
    pub fn new(proxy: Proxy, relay: Relay) -> Self {
        Self {
            proxy,
            relay,
            last: Part::Proxy,
        }
    }

    /// The proxy first: what the relay borrows from it may be an action of the proxy, which has begun this event then.
    fn tell_both<'a>(&mut self, event: impl Fn() -> Event<'a>, now: Moment) {
        self.proxy.on_event(event(), now);
        self.relay.on_event(event(), now, &mut self.proxy);
    }
}

impl Core for Front {
    fn on_event(&mut self, event: Event<'_>, now: Moment) {
        let is_relayed = match &event {
            Event::Accepted { listener, .. } => self.relay.serves(*listener),
            Event::Connected { conn, .. }
            | Event::ConnectFailed { conn, .. }
            | Event::Received { conn, .. }
            | Event::ReceiveEnded { conn, .. }
            | Event::Sent { conn, .. }
            | Event::SendFailed { conn }
            | Event::Closed { conn } => self.relay.has(*conn),
            Event::Tick => return self.tell_both(|| Event::Tick, now),
            Event::Replaced { snapshot } => {
                let snapshot = *snapshot;
                return self.tell_both(|| Event::Replaced { snapshot }, now);
            }
            Event::Books(books) => {
                let books = *books;
                return self.tell_both(|| Event::Books(books), now);
            }
            Event::Drain => return self.tell_both(|| Event::Drain, now),
        };
        match is_relayed {
            true => self.relay.on_event(event, now, &mut self.proxy),
            false => self.proxy.on_event(event, now),
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        self.last = Part::Proxy;
        self.proxy.next_action().or_else(|| {
            self.last = Part::Relay;
            self.relay.next_action()
        })
    }

    fn made(&self) -> &[u8] {
        match self.last {
            Part::Proxy => self.proxy.made(),
            Part::Relay => self.relay.made(),
        }
    }

    fn next_deadline(&self) -> Option<Moment> {
        let both = [self.proxy.next_deadline(), self.relay.next_deadline()];
        both.into_iter().flatten().min()
    }

    fn oldest_snapshot(&self) -> u64 {
        let oldest = self.relay.oldest_snapshot();
        oldest.min(self.proxy.oldest_snapshot())
    }

    fn is_drained(&self) -> bool {
        self.proxy.is_drained() && self.relay.is_drained()
    }

    fn room(&self) -> usize {
        self.proxy.room()
    }
}

impl ConnIds for Proxy {
    fn client(&mut self) -> Option<ConnId> {
        self.lend_client()
    }

    fn endpoint(&mut self, now: Moment) -> ConnId {
        self.lend_upstream(now)
    }

    fn begin_record(&mut self, client: IpAddr, now: Moment) -> Option<Box<Record>> {
        self.begin_record_of(client, now)
    }

    fn end_record(&mut self, record: Box<Record>, now: Moment) {
        self.end_record_of(record, now);
    }

    fn give_back(&mut self, conn: ConnId, role: Role) {
        match role {
            Role::Client => self.take_back_client(conn),
            Role::Endpoint => self.take_back_upstream(conn),
        }
    }
}

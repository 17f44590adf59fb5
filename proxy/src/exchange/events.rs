//! The seam: events are told apart by the side they happened on.

use super::Proxy;
use crate::conn::{Downstream, Input, Side, Upstream, UpstreamState};
use crate::moment::Moment;
use crate::seam::{Action, ConnId, Core, End, Event};

impl Core for Proxy {
    fn on_event(&mut self, event: Event<'_>, now: Moment) {
        self.out.begin_event();
        match event {
            Event::Accepted {
                listener,
                peer,
                socket,
            } => self.on_accepted(listener, peer, socket, now),
            Event::Connected { conn, slot } => {
                if let Some(upstream) = self.upstream(conn) {
                    upstream.slot = slot;
                    self.on_connected(conn, now);
                }
            }
            Event::ConnectFailed { conn, fault } => self.on_connect_failed(conn, fault, now),
            Event::Received { conn, bytes } => self.on_received(conn, bytes, now),
            Event::ReceiveEnded { conn, end } => self.on_receive_ended(conn, end, now),
            Event::Sent { conn, bytes } => self.on_sent(conn, bytes, now),
            Event::SendFailed { conn } => self.on_send_failed(conn, now),
            Event::Closed { conn } => self.on_closed(conn),
            Event::Tick => {
                self.on_tick(now);
                self.part(now);
            }
            Event::Replaced { snapshot } => self.on_replaced(snapshot.clone(), now),
            Event::Books(books) => self.balancer.count(books),
            Event::Drain => self.on_drain(now),
        }
        self.serve_ready(now);
        if self.is_draining && self.downstreams == 0 && !self.mirrored.is_empty() {
            self.drain_copies(now);
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        self.out.pop()
    }

    fn made(&self) -> &[u8] {
        self.out.made()
    }

    fn next_deadline(&self) -> Option<Moment> {
        let next = [self.deadlines.next(), self.next_parting()];
        next.into_iter().flatten().min()
    }

    fn oldest_snapshot(&self) -> u64 {
        self.snapshots.oldest()
    }

    fn is_drained(&self) -> bool {
        self.conns.is_empty()
    }

    fn room(&self) -> usize {
        self.room_for_clients()
    }
}

impl Proxy {
    pub(super) fn downstream(&mut self, conn: ConnId) -> Option<&mut Downstream> {
        self.conns.get_mut(conn)?.as_downstream()
    }

    pub(super) fn upstream(&mut self, conn: ConnId) -> Option<&mut Upstream> {
        self.conns.get_mut(conn)?.as_upstream()
    }

    fn on_received(&mut self, conn: ConnId, bytes: &[u8], now: Moment) {
        let input = Input::received(bytes);
        match self.conns.get(conn).map(|conn| &conn.side) {
            Some(Side::Downstream(_)) => {
                self.counters.downstream_bytes_in.add(bytes.len() as u64);
                self.on_downstream_bytes(conn, input, now);
            }
            Some(Side::Upstream(_)) => {
                self.counters.upstream_bytes_in.add(bytes.len() as u64);
                self.on_upstream_bytes(conn, input, now);
            }
            None => {}
        }
    }

    fn on_receive_ended(&mut self, conn: ConnId, end: End, now: Moment) {
        match self.conns.get(conn).map(|conn| &conn.side) {
            Some(Side::Downstream(_)) => self.on_downstream_ended(conn, end, now),
            Some(Side::Upstream(_)) => self.on_upstream_ended(conn, end, now),
            None => {}
        }
    }

    fn on_send_failed(&mut self, conn: ConnId, now: Moment) {
        match self.conns.get(conn).map(|conn| &conn.side) {
            Some(Side::Downstream(_)) => self.on_downstream_gone(conn, now),
            // The endpoint may have answered before it stopped reading: what it sent is still to come, and after that
            // the end of its stream.
            Some(Side::Upstream(_)) | None => {}
        }
    }

    fn on_closed(&mut self, conn: ConnId) {
        match self.conns.remove(conn).map(|conn| conn.side) {
            Some(Side::Downstream(_)) => {
                self.downstreams -= 1;
                self.counters.downstream_active.lower();
            }
            Some(Side::Upstream(upstream)) => {
                self.upstreams -= usize::from(upstream.state != UpstreamState::Closing);
                self.counters.upstream_active.lower();
            }
            None => {}
        }
        self.forget_old_deadlines();
    }

    /// Requests that had come before their turn.
    fn serve_ready(&mut self, now: Moment) {
        while let Some(conn) = self.ready.pop() {
            let inbox = self.conns.get_mut(conn).and_then(|conn| conn.inbox.take());
            if let Some(inbox) = inbox {
                self.on_downstream_bytes(conn, Input::kept(inbox.bytes()), now);
            }
        }
    }
}

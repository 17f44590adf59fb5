//! The client's side: heads are collected, bodies relayed, requests ahead of their turn kept, connections ended so that
//! the last response can be read.

use super::{Failure, Proxy};
use crate::conn::{DownstreamState, ExchangeId, Inbox, Input, PartialHead};
use crate::http::h1::{HeadScan, LocalReply};
use crate::http::{Method, Persistence, Version};
use crate::metrics::ResponseClass;
use crate::moment::Moment;
use crate::seam::{Action, ConnId, End};

impl Proxy {
    pub(super) fn on_downstream_bytes(&mut self, conn: ConnId, mut input: Input<'_>, now: Moment) {
        while !input.is_empty() {
            let Some(entry) = self.conns.get_mut(conn) else {
                return;
            };
            let is_paused = entry.is_paused;
            let Some(state) = entry.as_downstream().map(|client| client.state) else {
                return;
            };
            let rest = match state {
                DownstreamState::Idle if is_paused => return self.keep_for_later(conn, input),
                DownstreamState::Idle | DownstreamState::ReadingHead => {
                    self.read_request_head(conn, input, now)
                }
                DownstreamState::InExchange(id) => self.read_request_body(conn, id, input, now),
                DownstreamState::Lingering | DownstreamState::Closing => None,
            };
            let Some(rest) = rest else { return };
            input = rest;
        }
    }

    /// Reads the head, once it is whole, and begins its exchange. Gives back what follows it, if it has come.
    fn read_request_head<'a>(
        &mut self,
        conn: ConnId,
        input: Input<'a>,
        now: Moment,
    ) -> Option<Input<'a>> {
        let Some(mut kept) = self.conns.get_mut(conn)?.inbox.take() else {
            return self.read_fresh_head(conn, input, now);
        };
        let Inbox::Head(partial) = &mut *kept else {
            // Behind those that came first.
            self.conns.get_mut(conn)?.inbox = Some(kept);
            self.keep_for_later(conn, input);
            self.ready.push(conn);
            return None;
        };
        let (head, limits) = (&mut self.request_head, &self.settings.limits);
        match partial.add(input.bytes(), |scan, bytes| head.read(scan, bytes, limits)) {
            Ok(Some(count)) => {
                let (head, _) = partial.split(input.bytes(), count);
                self.begin(conn, head, now);
                Some(input.skip(count))
            }
            Ok(None) => {
                let has_begun = !partial.is_untouched();
                self.keep_head(conn, kept, has_begun, now);
                None
            }
            Err(error) => {
                self.reject(conn, Failure::RequestHead(error), now);
                None
            }
        }
    }

    fn read_fresh_head<'a>(
        &mut self,
        conn: ConnId,
        input: Input<'a>,
        now: Moment,
    ) -> Option<Input<'a>> {
        let mut scan = HeadScan::request();
        let (head, limits) = (&mut self.request_head, &self.settings.limits);
        match head.read(&mut scan, input.bytes(), limits) {
            Ok(Some(length)) => {
                self.begin(conn, &input.bytes()[..length], now);
                Some(input.skip(length))
            }
            Ok(None) => {
                let partial = PartialHead::new(input.bytes(), scan);
                let has_begun = !partial.is_untouched();
                self.keep_head(conn, Box::new(Inbox::Head(partial)), has_begun, now);
                None
            }
            Err(error) => {
                self.reject(conn, Failure::RequestHead(error), now);
                None
            }
        }
    }

    /// `has_begun` says that more than empty lines have come.
    fn keep_head(&mut self, conn: ConnId, head: Box<Inbox>, has_begun: bool, now: Moment) {
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        entry.inbox = Some(head);
        let Some(client) = entry.as_downstream() else {
            return;
        };
        // The deadline is for the whole head: later pieces do not move it.
        if has_begun && client.state == DownstreamState::Idle {
            client.state = DownstreamState::ReadingHead;
            let length = if client.is_shed {
                self.settings.linger
            } else {
                self.settings.head
            };
            self.set_deadline(conn, now + length);
        }
    }

    /// Relays what is of this request's body; keeps what is of the next request. Gives back what neither took.
    fn read_request_body<'a>(
        &mut self,
        conn: ConnId,
        id: ExchangeId,
        input: Input<'a>,
        now: Moment,
    ) -> Option<Input<'a>> {
        if self.exchanges.get(id)?.request_body.is_complete() {
            self.keep_for_later(conn, input);
            return None;
        }
        match self.relay_request(id, input, now) {
            Ok(consumed) => {
                self.touch(conn, now);
                Some(input.skip(consumed))
            }
            Err(error) => {
                self.fail(id, Failure::RequestBody(error), now);
                None
            }
        }
    }

    /// Keeps requests that came before their turn, and reads no more of them.
    fn keep_for_later(&mut self, conn: ConnId, input: Input<'_>) {
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        match entry.inbox.as_deref_mut() {
            Some(inbox) => inbox.add_early(input.bytes()),
            None => entry.inbox = Some(Box::new(Inbox::Early(input.bytes().to_vec()))),
        }
        self.pause(conn);
    }

    /// The client sends no more. In the middle of an exchange that means that it is gone: a client that only ended its
    /// side cannot be told from one that was killed, and the endpoint's work is better not wasted.
    pub(super) fn on_downstream_ended(&mut self, conn: ConnId, end: End, now: Moment) {
        let Some(state) = self.downstream(conn).map(|client| client.state) else {
            return;
        };
        match state {
            DownstreamState::Idle | DownstreamState::ReadingHead | DownstreamState::Lingering => {
                self.close(conn, now)
            }
            DownstreamState::InExchange(id) if self.is_tunnel(id) => {
                self.on_tunnel_client_ended(id, end, now);
            }
            DownstreamState::InExchange(id) => self.cancel(id, now),
            DownstreamState::Closing => {}
        }
    }

    /// The client takes no more bytes.
    pub(super) fn on_downstream_gone(&mut self, conn: ConnId, now: Moment) {
        match self.downstream(conn).map(|client| client.state) {
            Some(DownstreamState::InExchange(id)) => self.cancel(id, now),
            Some(_) => self.abort(conn, now),
            None => {}
        }
    }

    /// The exchange is over; the connection waits for the next request or ends.
    pub(super) fn after_exchange_downstream(&mut self, conn: ConnId, keeps: bool, now: Moment) {
        // A client that was not told of the end yet gets a while to send another request.
        let is_parting = self.is_parting(conn);
        if !keeps || is_parting && !self.may_send_another(conn) {
            return self.linger(conn, now);
        }
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        let has_next = entry.inbox.is_some();
        if let Some(client) = entry.as_downstream() {
            client.state = DownstreamState::Idle;
        }
        let patience = match is_parting {
            true => self.settings.grace,
            false => self.settings.idle,
        };
        self.set_deadline(conn, now + patience);
        // A client that asks on and does not read would have its answers pile up.
        if self.is_full(conn) {
            return self.pause(conn);
        }
        self.resume(conn);
        if has_next {
            self.ready.push(conn);
        }
    }

    /// Answers what cannot be read, and ends the connection.
    pub(super) fn reject(&mut self, conn: ConnId, failure: Failure, now: Moment) {
        tracing::debug!(%failure, "request refused");
        let told = self.reply(
            conn,
            failure,
            Method::Get,
            Version::Http11,
            Persistence::Close,
            now,
        );
        self.record_rejected(conn, failure, told, now);
        self.linger(conn, now);
    }

    /// Queues a response of our own, and tells its length.
    pub(super) fn reply(
        &mut self,
        conn: ConnId,
        failure: Failure,
        method: Method,
        version: Version,
        persistence: Persistence,
        now: Moment,
    ) -> usize {
        let status = failure.status();
        self.counters.local_replies.of(failure.label()).increment();
        self.counters
            .responses
            .of(ResponseClass::of_status(status.code()))
            .increment();
        let start = self.out.made_length();
        let head_only = method == Method::Head;
        let location = match failure {
            Failure::Redirected(_) => Some(&self.location[..]),
            _ => None,
        };
        LocalReply {
            status,
            cause: failure.cause(),
            since_1970: self.settings.since_1970(now),
            location,
            request_id: None,
            head_only,
            version,
            persistence,
        }
        .write(self.out.made_mut());
        self.send_made(conn, start);
        self.out.made_length() - start
    }

    /// Ends our side behind what is queued, and waits for the client to end its own.
    fn linger(&mut self, conn: ConnId, now: Moment) {
        let Some(entry) = self.conns.get_mut(conn) else {
            return;
        };
        entry.inbox = None;
        if let Some(client) = entry.as_downstream() {
            client.state = DownstreamState::Lingering;
        }
        self.out.push(Action::Shutdown { conn });
        self.resume(conn);
        self.set_deadline(conn, now + self.settings.linger);
    }
}

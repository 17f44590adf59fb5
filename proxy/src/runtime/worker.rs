//! One thread, one ring, one loop: wait, report what happened to the core, carry out what it wants, wait again.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use super::clock;
use super::mailbox::{Mailbox, Newcomers, Order};
use super::pulse::Turn;
use super::ring::{Completion, Connections, Gauges, RingError, Slice};
use crate::moment::Moment;
use crate::seam::{Action, ConnId, Core, Event, FlowSlot, Peer, Socket, Source};
use crate::snapshot::ListenerId;

/// How long accepting rests when the host has no descriptor or memory for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How long a listener that goes waits for handshakes that were under way.
const HANDSHAKES_FINISH: Duration = Duration::from_millis(200);

/// The kernel's side of measuring upstream connections.
pub trait MeasureFlows {
    /// `None`: this connection goes unmeasured.
    fn register(&mut self, local: SocketAddr, peer: Peer) -> Option<FlowSlot>;

    fn release(&mut self, slot: FlowSlot);
}

/// Measures nothing.
pub struct Unmeasured;

impl MeasureFlows for Unmeasured {
    fn register(&mut self, _local: SocketAddr, _peer: Peer) -> Option<FlowSlot> {
        None
    }

    fn release(&mut self, _slot: FlowSlot) {}
}

/// Told once a turn what the worker holds.
pub trait Observe {
    /// The worker wants to sleep for `timeout`; returns how long it may.
    fn on_turn(
        &mut self,
        turn: &Turn,
        gauges: Gauges,
        timeout: Option<Duration>,
    ) -> Option<Duration>;

    fn on_accept_failed(&mut self);
}

/// Drives a core. Made on the thread it runs on.
pub struct Worker<C, F, O> {
    core: C,
    flows: F,
    observer: O,
    connections: Connections,
    mailbox: Mailbox,
    is_draining: bool,
    resting_listeners: Vec<ListenerId>,
    /// Listeners that take what is on its way to them, each until its moment.
    closing_listeners: Vec<(ListenerId, Moment)>,
    accept_again: Option<Moment>,
    /// The accepted socket the core is just deciding about.
    accepted: Option<OwnedFd>,
    connecting: HashMap<ConnId, Peer>,
    measured: HashMap<ConnId, FlowSlot>,
}

impl<C: Core, F: MeasureFlows, O: Observe> Worker<C, F, O> {
    pub fn new(core: C, flows: F, observer: O, mailbox: Mailbox) -> Result<Self, RingError> {
        let connections = Connections::new(mailbox.waker.clone())?;
        Ok(Self {
            core,
            flows,
            observer,
            connections,
            mailbox,
            is_draining: false,
            resting_listeners: Vec::new(),
            closing_listeners: Vec::new(),
            accept_again: None,
            accepted: None,
            connecting: HashMap::new(),
            measured: HashMap::new(),
        })
    }

    /// Runs until drained. An error is the ring's: the worker cannot go on.
    pub fn run(&mut self) -> io::Result<()> {
        let mut now = clock::now();
        let mut had_news = true;
        while !self.is_finished() {
            let timeout = self.end_turn(now, had_news);
            self.connections.set_room(self.core.room());
            self.connections.turn(timeout)?;
            now = clock::now();
            had_news = false;
            while let Some(completion) = self.connections.next_completion() {
                had_news = true;
                self.on_completion(completion, now);
            }
            if self.core.next_deadline().is_some_and(|due| due <= now) {
                self.report(Event::Tick, None, now);
            }
            self.accept_again_if_due(now);
            self.close_listeners_if_due(now);
            self.mailbox.acknowledge(self.core.oldest_snapshot());
        }
        self.end_turn(now, had_news);
        // The last closes are queued, not submitted.
        self.connections.turn(Some(Duration::ZERO))
    }

    /// Tells of the turn that `began` when the worker woke; returns how long to sleep.
    fn end_turn(&mut self, began: Moment, had_news: bool) -> Option<Duration> {
        let (ended, gauges) = (clock::now(), self.connections.gauges());
        let turn = Turn {
            began,
            ended,
            had_news,
            connections: gauges.connections,
            is_accepting: !self.is_draining,
        };
        let timeout = self.time_to_sleep(ended);
        self.observer.on_turn(&turn, gauges, timeout)
    }

    fn is_finished(&self) -> bool {
        self.is_draining && self.core.is_drained() && !self.connections.is_listening()
    }

    fn time_to_sleep(&self, now: Moment) -> Option<Duration> {
        let closing = self.closing_listeners.iter().map(|(_, due)| *due).min();
        let next = [self.core.next_deadline(), self.accept_again, closing]
            .into_iter()
            .flatten()
            .min();
        next.map(|due| due.since(now))
    }

    fn on_completion(&mut self, completion: Completion, now: Moment) {
        match completion {
            Completion::Received { conn, bytes } => {
                self.core.on_event(
                    Event::Received {
                        conn,
                        bytes: &bytes,
                    },
                    now,
                );
                self.carry_out(Some(&bytes));
            }
            Completion::Sent { conn, bytes } => self.report(Event::Sent { conn, bytes }, None, now),
            Completion::Accepted {
                listener,
                socket,
                peer,
            } => {
                let event = Event::Accepted {
                    listener,
                    peer,
                    socket: Socket(socket.as_raw_fd()),
                };
                self.accepted = Some(socket);
                self.report(event, None, now);
                // A socket the core said nothing about is closed.
                self.accepted = None;
            }
            Completion::AcceptFailed { listener, error } => {
                self.rest_listener(listener, &error, now)
            }
            Completion::Connected { conn } => {
                let slot = self.measure(conn);
                self.report(Event::Connected { conn, slot }, None, now);
            }
            Completion::ConnectFailed { conn, fault } => {
                self.connecting.remove(&conn);
                self.report(Event::ConnectFailed { conn, fault }, None, now);
            }
            Completion::ReceiveEnded { conn, end } => {
                self.report(Event::ReceiveEnded { conn, end }, None, now)
            }
            Completion::SendFailed { conn } => self.report(Event::SendFailed { conn }, None, now),
            Completion::Closed { conn } => {
                self.stop_measuring(conn);
                self.report(Event::Closed { conn }, None, now);
            }
            Completion::Woken => self.on_woken(now),
        }
    }

    fn report(&mut self, event: Event<'_>, bytes: Option<&Slice>, now: Moment) {
        self.core.on_event(event, now);
        self.carry_out(bytes);
    }

    /// Carries out all the core wants; `received` are the bytes of the event it was told.
    fn carry_out(&mut self, received: Option<&Slice>) {
        while let Some(action) = self.core.next_action() {
            match action {
                Action::Send {
                    conn,
                    source: Source::Made,
                    range,
                } => {
                    self.connections.queue_copy(conn, &self.core.made()[range]);
                }
                Action::Send {
                    conn,
                    source: Source::Received,
                    range,
                } => {
                    let bytes =
                        received.expect("the core sends received bytes only while handling them");
                    self.connections.queue_received(conn, bytes, range);
                }
                Action::Adopt { conn, socket } => {
                    let accepted = self.accepted.take().filter(|fd| fd.as_raw_fd() == socket.0);
                    let accepted =
                        accepted.expect("the core adopts only the socket it was just told of");
                    self.connections.adopt(conn, accepted);
                }
                Action::Refuse { .. } => self.accepted = None,
                Action::Connect { conn, peer } => {
                    self.connecting.insert(conn, peer);
                    self.connections.connect(conn, peer.address);
                }
                Action::Pause { conn } => self.connections.pause(conn),
                Action::Resume { conn } => self.connections.resume(conn),
                Action::Unmeasure { conn } => self.stop_measuring(conn),
                Action::Shutdown { conn } => self.connections.shutdown(conn),
                Action::Close { conn } => self.connections.close(conn),
                Action::Abort { conn } => self.connections.abort(conn),
            }
        }
    }

    fn measure(&mut self, conn: ConnId) -> Option<FlowSlot> {
        let peer = self.connecting.remove(&conn)?;
        let local = self.connections.local_address(conn)?;
        let slot = self.flows.register(local, peer)?;
        self.measured.insert(conn, slot);
        Some(slot)
    }

    fn stop_measuring(&mut self, conn: ConnId) {
        self.connecting.remove(&conn);
        if let Some(slot) = self.measured.remove(&conn) {
            self.flows.release(slot);
        }
    }

    fn rest_listener(&mut self, listener: ListenerId, error: &io::Error, now: Moment) {
        tracing::warn!(%error, "cannot accept: resting for {ACCEPT_PAUSE:?}");
        self.observer.on_accept_failed();
        self.resting_listeners.push(listener);
        self.accept_again = Some(now + ACCEPT_PAUSE);
    }

    fn accept_again_if_due(&mut self, now: Moment) {
        if self.accept_again.is_some_and(|due| due <= now) {
            self.accept_again = None;
            for listener in self.resting_listeners.drain(..) {
                self.connections.resume_accepting(listener);
            }
        }
    }

    fn close_listeners_if_due(&mut self, now: Moment) {
        let connections = &mut self.connections;
        self.closing_listeners.retain(|(listener, due)| {
            let is_due = *due <= now;
            if is_due {
                connections.unlisten(*listener);
            }
            !is_due
        });
    }

    fn on_woken(&mut self, now: Moment) {
        while let Some(order) = self.mailbox.next_order() {
            match order {
                Order::Listen(id, listener) => self.connections.listen(id, listener),
                Order::Unlisten(id, newcomers) => self.unlisten(id, newcomers, now),
                Order::Replace(snapshot) => {
                    let snapshot = &snapshot;
                    self.report(Event::Replaced { snapshot }, None, now);
                }
                Order::Count(books, done) => {
                    self.report(Event::Books(books), None, now);
                    // There is room for a word of each worker.
                    let _ = done.try_send(());
                }
                Order::Drain => self.drain(now),
            }
        }
    }

    fn unlisten(&mut self, listener: ListenerId, newcomers: Newcomers, now: Moment) {
        match newcomers {
            Newcomers::Elsewhere => return self.connections.leave(listener),
            Newcomers::Dropped => self.connections.turn_away(listener),
            Newcomers::Refused => {}
        }
        self.closing_listeners
            .push((listener, now + HANDSHAKES_FINISH));
    }

    fn drain(&mut self, now: Moment) {
        if self.is_draining {
            return;
        }
        self.is_draining = true;
        for listener in self.connections.open_listeners() {
            let mut closing = self.closing_listeners.iter();
            if !closing.any(|(closing, _)| *closing == listener) {
                self.unlisten(listener, Newcomers::Dropped, now);
            }
        }
        self.report(Event::Drain, None, now);
    }
}

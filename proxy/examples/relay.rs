//! A TCP relay on Weir's ring: accept, connect, copy both ways. It does the least a proxy can do and is the floor the
//! benchmarks measure Weir against.
//!
//! `relay --listen 127.0.0.1:8080 --to 127.0.0.1:9000 [--to ...]`; endpoints are taken in turn.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use weir::moment::Moment;
use weir::runtime::mailbox::{Order, mailbox};
use weir::runtime::pulse::Turn;
use weir::runtime::ring::{Gauges, Listener, limits};
use weir::runtime::worker::{Observe, Unmeasured, Worker};
use weir::seam::{Action, ConnId, Core, End, Event, Peer, Socket, Source};
use weir::snapshot::ListenerId;

/// Bytes queued to one side at which the other side is no longer read, and at which it is read again.
const HIGH_WATER: usize = 256 * 1024;
const LOW_WATER: usize = 64 * 1024;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (mut listen, mut endpoints) = (Vec::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let address: SocketAddr = arguments.next().ok_or("an address is missing")?.parse()?;
        match flag.as_str() {
            "--listen" => listen.push(Listener::bind(address)?),
            "--to" => endpoints.push(address),
            _ => return Err(format!("unknown flag {flag}: --listen and --to are known").into()),
        }
    }
    if listen.is_empty() || endpoints.is_empty() {
        return Err("give at least one --listen and one --to".into());
    }
    limits::raise_descriptors()?;
    let core = Relay::new(endpoints);
    let (handle, mailbox) = mailbox()?;
    for (id, listener) in (0..).map(ListenerId).zip(listen) {
        handle.order(Order::Listen(id, listener));
    }
    Worker::new(core, Unmeasured, Nobody, mailbox)?.run()?;
    Ok(())
}

struct Nobody;

impl Observe for Nobody {
    fn on_turn(
        &mut self,
        _turn: &Turn,
        _gauges: Gauges,
        timeout: Option<Duration>,
    ) -> Option<Duration> {
        timeout
    }

    fn on_accept_failed(&mut self) {}
}

/// One end of a relayed pair.
struct Side {
    generation: u32,
    other: ConnId,
    queued: usize,
    is_paused: bool,
    has_ended: bool,
}

struct Relay {
    endpoints: Vec<SocketAddr>,
    next_endpoint: usize,
    sides: Vec<Option<Side>>,
    free: Vec<u32>,
    next_generation: u32,
    actions: VecDeque<Action>,
}

impl Relay {
    fn new(endpoints: Vec<SocketAddr>) -> Self {
        Self {
            endpoints,
            next_endpoint: 0,
            sides: Vec::new(),
            free: Vec::new(),
            next_generation: 0,
            actions: VecDeque::new(),
        }
    }

    fn on_accepted(&mut self, socket: Socket) {
        self.next_generation = self.next_generation.wrapping_add(1);
        let (near, far) = (self.reserve(), self.reserve());
        self.sides[near.index as usize] = Some(Side::new(near, far));
        self.sides[far.index as usize] = Some(Side::new(far, near));
        let address = self.endpoints[self.next_endpoint % self.endpoints.len()];
        self.next_endpoint += 1;
        self.actions.push_back(Action::Adopt { conn: near, socket });
        let peer = Peer {
            address,
            endpoint: 0,
            generation: 0,
        };
        self.actions.push_back(Action::Connect { conn: far, peer });
    }

    fn reserve(&mut self) -> ConnId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.sides.push(None);
            self.sides.len() as u32 - 1
        });
        ConnId {
            index,
            generation: self.next_generation,
        }
    }

    fn side(&mut self, conn: ConnId) -> Option<&mut Side> {
        self.sides
            .get_mut(conn.index as usize)?
            .as_mut()
            .filter(|side| side.generation == conn.generation)
    }

    fn on_received(&mut self, conn: ConnId, length: usize) {
        let Some(other) = self.side(conn).map(|side| side.other) else {
            return;
        };
        let Some(far) = self.side(other) else { return };
        far.queued += length;
        let is_full = far.queued > HIGH_WATER;
        self.actions.push_back(Action::Send {
            conn: other,
            source: Source::Received,
            range: 0..length,
        });
        if is_full && let Some(near) = self.side(conn).filter(|near| !near.is_paused) {
            near.is_paused = true;
            self.actions.push_back(Action::Pause { conn });
        }
    }

    fn on_sent(&mut self, conn: ConnId, length: usize) {
        let Some(side) = self.side(conn) else { return };
        side.queued -= length;
        let (other, is_low) = (side.other, side.queued < LOW_WATER);
        if is_low && let Some(far) = self.side(other).filter(|far| far.is_paused) {
            far.is_paused = false;
            self.actions.push_back(Action::Resume { conn: other });
        }
    }

    fn on_ended(&mut self, conn: ConnId) {
        let Some(side) = self.side(conn) else { return };
        side.has_ended = true;
        let other = side.other;
        if self.side(other).is_none_or(|far| far.has_ended) {
            self.actions
                .extend([Action::Close { conn }, Action::Close { conn: other }]);
        } else {
            self.actions.push_back(Action::Shutdown { conn: other });
        }
    }

    fn on_broken(&mut self, conn: ConnId) {
        if let Some(other) = self.side(conn).map(|side| side.other) {
            self.actions
                .extend([Action::Abort { conn }, Action::Abort { conn: other }]);
        }
    }
}

impl Side {
    fn new(own: ConnId, other: ConnId) -> Self {
        Self {
            generation: own.generation,
            other,
            queued: 0,
            is_paused: false,
            has_ended: false,
        }
    }
}

impl Core for Relay {
    fn on_event(&mut self, event: Event<'_>, _now: Moment) {
        match event {
            Event::Accepted { socket, .. } => self.on_accepted(socket),
            Event::Received { conn, bytes } => self.on_received(conn, bytes.len()),
            Event::Sent { conn, bytes } => self.on_sent(conn, bytes),
            Event::ReceiveEnded {
                conn,
                end: End::Finished,
            } => self.on_ended(conn),
            Event::ReceiveEnded {
                conn,
                end: End::Broken,
            }
            | Event::ConnectFailed { conn, .. }
            | Event::SendFailed { conn } => self.on_broken(conn),
            Event::Closed { conn } => {
                if self.side(conn).is_some() {
                    self.sides[conn.index as usize] = None;
                    self.free.push(conn.index);
                }
            }
            Event::Connected { .. }
            | Event::Tick
            | Event::Replaced { .. }
            | Event::Books(_)
            | Event::Drain => {}
        }
    }

    fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    fn made(&self) -> &[u8] {
        &[]
    }

    fn next_deadline(&self) -> Option<Moment> {
        None
    }

    fn oldest_snapshot(&self) -> u64 {
        u64::MAX
    }

    fn is_drained(&self) -> bool {
        true
    }
}

//! The least that can be done with connections. A relay to one address: what comes in on one side goes out on the other,
//! under back-pressure, and ends in the same way. And an echo, for few bytes.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::SocketAddr;

use weir::moment::Moment;
use weir::seam::{Action, ConnId, Core, End, Event, Peer, Socket, Source};

const HIGH_WATER: usize = 256 * 1024;
const LOW_WATER: usize = 64 * 1024;

struct Side {
    other: ConnId,
    queued: usize,
    is_paused: bool,
    has_ended: bool,
}

pub struct Relay {
    to: SocketAddr,
    sides: HashMap<ConnId, Side>,
    free: Vec<u32>,
    indexes: u32,
    generation: u32,
    actions: VecDeque<Action>,
}

impl Relay {
    pub fn to(to: SocketAddr) -> Self {
        Self {
            to,
            sides: HashMap::new(),
            free: Vec::new(),
            indexes: 0,
            generation: 0,
            actions: VecDeque::new(),
        }
    }

    fn on_accepted(&mut self, socket: Socket) {
        let (near, far) = (self.new_id(), self.new_id());
        for (conn, other) in [(near, far), (far, near)] {
            let side = Side {
                other,
                queued: 0,
                is_paused: false,
                has_ended: false,
            };
            self.sides.insert(conn, side);
        }
        let peer = Peer {
            address: self.to,
            endpoint: 0,
            generation: 0,
        };
        self.actions.push_back(Action::Adopt { conn: near, socket });
        self.actions.push_back(Action::Connect { conn: far, peer });
    }

    fn new_id(&mut self) -> ConnId {
        self.generation += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.indexes += 1;
            self.indexes - 1
        });
        ConnId {
            index,
            generation: self.generation,
        }
    }

    fn on_received(&mut self, conn: ConnId, length: usize) {
        let other = self.sides[&conn].other;
        let Some(far) = self.sides.get_mut(&other) else {
            return;
        };
        far.queued += length;
        let is_full = far.queued > HIGH_WATER;
        self.actions.push_back(Action::Send {
            conn: other,
            source: Source::Received,
            range: 0..length,
        });
        let near = self.sides.get_mut(&conn).expect("it has just received");
        if is_full && !near.is_paused {
            near.is_paused = true;
            self.actions.push_back(Action::Pause { conn });
        }
    }

    fn on_sent(&mut self, conn: ConnId, length: usize) {
        let side = self.sides.get_mut(&conn).expect("it has just sent");
        side.queued -= length;
        let (other, is_low) = (side.other, side.queued < LOW_WATER);
        if is_low && let Some(far) = self.sides.get_mut(&other).filter(|far| far.is_paused) {
            far.is_paused = false;
            self.actions.push_back(Action::Resume { conn: other });
        }
    }

    fn on_finished(&mut self, conn: ConnId) {
        let side = self.sides.get_mut(&conn).expect("its end was just told");
        side.has_ended = true;
        let other = side.other;
        if self.sides.get(&other).is_none_or(|far| far.has_ended) {
            let closes = [conn, other].map(|conn| Action::Close { conn });
            self.actions.extend(closes);
        } else {
            self.actions.push_back(Action::Shutdown { conn: other });
        }
    }

    fn abort_both(&mut self, conn: ConnId) {
        let other = self.sides[&conn].other;
        let aborts = [conn, other].map(|conn| Action::Abort { conn });
        self.actions.extend(aborts);
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
            } => self.on_finished(conn),
            Event::ReceiveEnded { conn, .. }
            | Event::ConnectFailed { conn, .. }
            | Event::SendFailed { conn } => self.abort_both(conn),
            Event::Closed { conn } => {
                self.sides.remove(&conn).expect("closed once");
                self.free.push(conn.index);
            }
            Event::Drain => {
                let aborts = self.sides.keys().map(|&conn| Action::Abort { conn });
                self.actions.extend(aborts);
            }
            Event::Connected { .. } | Event::Tick | Event::Replaced { .. } | Event::Books(_) => {}
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
        self.sides.is_empty()
    }
}

#[derive(Default)]
pub struct Echo {
    living: HashSet<ConnId>,
    accepted: u32,
    actions: VecDeque<Action>,
}

impl Core for Echo {
    fn on_event(&mut self, event: Event<'_>, _now: Moment) {
        match event {
            Event::Accepted { socket, .. } => {
                let conn = ConnId {
                    index: self.accepted,
                    generation: 0,
                };
                self.accepted += 1;
                self.living.insert(conn);
                self.actions.push_back(Action::Adopt { conn, socket });
            }
            Event::Received { conn, bytes } => self.actions.push_back(Action::Send {
                conn,
                source: Source::Received,
                range: 0..bytes.len(),
            }),
            Event::ReceiveEnded { conn, .. } | Event::SendFailed { conn } => {
                self.actions.push_back(Action::Close { conn });
            }
            Event::Closed { conn } => {
                self.living.remove(&conn);
            }
            _ => {}
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
        self.living.is_empty()
    }
}

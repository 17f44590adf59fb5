//! One simulated connection: what is queued to it, what the other end has sent and got, and how it ends. It keeps the
//! core to the contract of the seam: whatever the core may not ask for panics here.

use std::collections::VecDeque;
use std::mem;

use crate::seam::{End, Peer};

/// Who is at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Client,
    Endpoint(Peer),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Connecting,
    Open,
    /// It did not come to stand; the core has been told.
    Failed,
    /// The core has been told that it is closed.
    Gone,
}

/// How the core has asked for the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
pub enum Ending {
    No,
    Shutdown,
    Close,
    Abort,
}

/// What the driver would report next of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    Connected,
    ConnectFailed,
    /// The socket takes all that is queued, or less.
    Sent(usize),
    SendFailed,
    Received(Vec<u8>),
    Ended(End),
    Closed,
}

#[derive(Debug)]
pub struct Wire {
    /// The kernel was told to measure it no more.
    pub is_unmeasured: bool,
    pub side: Side,
    pub stage: Stage,
    pub ending: Ending,
    pub is_paused: bool,
    /// The socket takes no bytes, as the other end does not read.
    pub is_stalled: bool,
    /// The socket has refused bytes and takes no more.
    pub is_broken: bool,
    /// Handed to the driver, not taken by the socket.
    queue: VecDeque<u8>,
    /// Got by the other end and not looked at yet.
    delivered: Vec<u8>,
    /// Sent by the other end and not seen by the core yet.
    inbound: VecDeque<Vec<u8>>,
    /// How the other end has ended its side.
    peer_end: Option<End>,
    is_end_reported: bool,
}

impl Wire {
    pub fn new(side: Side) -> Self {
        let stage = match side {
            Side::Client => Stage::Open,
            Side::Endpoint(_) => Stage::Connecting,
        };
        Self {
            is_unmeasured: false,
            side,
            stage,
            ending: Ending::No,
            is_paused: false,
            is_stalled: false,
            is_broken: false,
            queue: VecDeque::new(),
            delivered: Vec::new(),
            inbound: VecDeque::new(),
            peer_end: None,
            is_end_reported: false,
        }
    }

    pub fn is_gone(&self) -> bool {
        self.stage == Stage::Gone
    }

    pub fn queued(&self) -> usize {
        self.queue.len()
    }

    // What the core asks for.

    pub fn on_send(&mut self, bytes: &[u8]) {
        assert!(!bytes.is_empty(), "a send of nothing");
        assert_eq!(self.ending, Ending::No, "a send after the end");
        // A socket that has refused bytes refuses the rest; the core may not know yet.
        if !self.is_broken && self.stage != Stage::Failed {
            self.queue.extend(bytes);
        }
    }

    pub fn on_pause(&mut self) {
        assert!(!self.is_paused, "paused twice");
        self.is_paused = true;
    }

    pub fn on_resume(&mut self) {
        assert!(self.is_paused, "resumed without a pause");
        self.is_paused = false;
    }

    pub fn on_end(&mut self, ending: Ending) {
        assert!(
            ending > self.ending,
            "{ending:?} after {:?} asks for nothing new",
            self.ending
        );
        self.ending = ending;
        if ending == Ending::Abort {
            self.queue.clear();
        }
    }

    // What the other end does.

    pub fn peer_sends(&mut self, bytes: &[u8]) {
        assert_eq!(self.peer_end, None, "the other end has ended its side");
        if !bytes.is_empty() {
            self.inbound.push_back(bytes.to_vec());
        }
    }

    pub fn peer_ends(&mut self, end: End) {
        self.peer_end.get_or_insert(end);
        if end == End::Broken {
            self.peer_end = Some(end);
            // A reset overtakes what was on its way.
            self.inbound.clear();
        }
    }

    pub fn can_peer_send(&self) -> bool {
        self.peer_end.is_none() && !self.is_gone()
    }

    pub fn unread(&self) -> &[u8] {
        &self.delivered
    }

    pub fn read(&mut self) -> Vec<u8> {
        mem::take(&mut self.delivered)
    }

    // What the driver reports.

    /// All that could be reported now, in any order.
    pub fn news(&self) -> Vec<News> {
        let is_flushed = self.queue.is_empty();
        let mut news = Vec::new();
        match self.stage {
            Stage::Gone => return news,
            Stage::Connecting if self.ending == Ending::No => {
                return vec![News::Connected, News::ConnectFailed];
            }
            Stage::Connecting | Stage::Failed => {
                news.extend((self.ending >= Ending::Close).then_some(News::Closed));
                return news;
            }
            Stage::Open => {}
        }
        if !is_flushed && self.peer_end == Some(End::Broken) {
            news.push(News::SendFailed);
        } else if !is_flushed && !self.is_stalled {
            news.push(News::Sent(self.queue.len()));
        }
        if self.ending == Ending::Abort || (self.ending == Ending::Close && is_flushed) {
            news.push(News::Closed);
        }
        if self.ending < Ending::Close && !self.is_paused {
            news.extend(self.next_inbound());
        }
        news
    }

    /// What is on its way in, whether or not the core wants it.
    pub fn next_inbound(&self) -> Option<News> {
        match (self.inbound.front(), self.peer_end) {
            (Some(bytes), _) => Some(News::Received(bytes.clone())),
            (None, Some(end)) if !self.is_end_reported => Some(News::Ended(end)),
            _ => None,
        }
    }

    /// The news is about to be reported.
    pub fn on_news(&mut self, news: &News) {
        match news {
            News::Connected => self.stage = Stage::Open,
            News::ConnectFailed => {
                self.stage = Stage::Failed;
                self.queue.clear();
            }
            News::Sent(bytes) => self.delivered.extend(self.queue.drain(..bytes)),
            News::SendFailed => {
                self.is_broken = true;
                self.queue.clear();
            }
            News::Received(bytes) => self.on_received(bytes.len()),
            News::Ended(_) => self.is_end_reported = true,
            News::Closed => self.stage = Stage::Gone,
        }
    }

    /// Takes bytes off what is on its way; the driver may report fewer than were sent at a time.
    fn on_received(&mut self, count: usize) {
        let front = self.inbound.front_mut().expect("bytes on their way");
        front.drain(..count);
        if front.is_empty() {
            self.inbound.pop_front();
        }
    }
}

//! An endpoint as a queueing system: a number of servers, one queue before them, and a course of slowness and failure
//! that the scenario sets.

use std::collections::VecDeque;
use std::time::Duration;

use crate::world::Request;

/// How fast an endpoint is while nothing is wrong with it.
#[derive(Clone, Copy, Debug)]
pub struct Capacity {
    /// Requests worked on at one time; others wait.
    pub servers: usize,
    /// Mean time a server takes for a request.
    pub service: Duration,
}

impl Capacity {
    /// Requests per second it can serve at most.
    pub fn rate(&self) -> f64 {
        self.servers as f64 / self.service.as_secs_f64()
    }
}

/// One endpoint at work.
pub struct Endpoint {
    capacity: Capacity,
    /// By how much slower than its capacity it is now.
    pub slowdown: f64,
    /// Which part of the requests it fails at once, 0 to 1.
    pub failing: f64,
    busy: usize,
    waiting: VecDeque<Request>,
}

/// An answer that is going to be given.
pub struct Answer {
    pub request: Request,
    pub after: Duration,
    pub is_success: bool,
    /// Whether a server is free again with it.
    pub frees_server: bool,
}

impl Endpoint {
    /// Waiting requests an endpoint holds; it refuses the next.
    const QUEUE: usize = 1000;
    /// How long a failure or a refusal takes: much less than work.
    const FAST: Duration = Duration::from_micros(500);

    pub fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            slowdown: 1.0,
            failing: 0.0,
            busy: 0,
            waiting: VecDeque::new(),
        }
    }

    /// The answer to this request, unless it has to wait.
    pub fn on_request(&mut self, request: Request) -> Option<Answer> {
        if request.luck < self.failing {
            return Some(Self::refuse(request));
        }
        if self.busy < self.capacity.servers {
            self.busy += 1;
            return Some(self.work_on(request));
        }
        if self.waiting.len() >= Self::QUEUE {
            return Some(Self::refuse(request));
        }
        self.waiting.push_back(request);
        None
    }

    /// The answer to the request that has waited longest, for the server that is free now.
    pub fn on_server_free(&mut self) -> Option<Answer> {
        match self.waiting.pop_front() {
            Some(request) => Some(self.work_on(request)),
            None => {
                self.busy -= 1;
                None
            }
        }
    }

    fn work_on(&self, request: Request) -> Answer {
        Answer {
            after: self.capacity.service.mul_f64(request.work * self.slowdown),
            request,
            is_success: true,
            frees_server: true,
        }
    }

    fn refuse(request: Request) -> Answer {
        Answer {
            request,
            after: Self::FAST,
            is_success: false,
            frees_server: false,
        }
    }
}

//! What the core wants done, and the bytes it made for it.

use std::collections::VecDeque;

use crate::seam::Action;

/// Memory kept between events.
const KEPT: usize = 64 * 1024;

#[derive(Debug, Default)]
pub struct Outbox {
    actions: VecDeque<Action>,
    made: Vec<u8>,
}

impl Outbox {
    /// Another event: all actions of the one before have been taken, so its bytes are not needed any more.
    pub fn begin_event(&mut self) {
        debug_assert!(
            self.actions.is_empty(),
            "all actions are taken before the next event"
        );
        self.made.clear();
        if self.made.capacity() > KEPT {
            self.made.shrink_to(KEPT);
        }
    }

    pub fn push(&mut self, action: Action) {
        self.actions.push_back(action);
    }

    pub fn pop(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    pub fn made(&self) -> &[u8] {
        &self.made
    }

    pub fn made_length(&self) -> usize {
        self.made.len()
    }

    pub fn made_since(&self, start: usize) -> &[u8] {
        &self.made[start..]
    }

    pub fn made_mut(&mut self) -> &mut Vec<u8> {
        &mut self.made
    }
}

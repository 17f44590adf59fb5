//! What is going to happen, in order of time. Of two things due at one moment the one planned first comes first, so that
//! a run depends on nothing but its seed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use weir::moment::Moment;

/// Events of type `E`, the earliest first.
pub struct Agenda<E> {
    heap: BinaryHeap<Planned<E>>,
    planned: u64,
}

struct Planned<E> {
    at: Moment,
    number: u64,
    event: E,
}

impl<E> Agenda<E> {
    pub fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            planned: 0,
        }
    }

    pub fn plan(&mut self, at: Moment, event: E) {
        self.planned += 1;
        self.heap.push(Planned {
            at,
            number: self.planned,
            event,
        });
    }

    pub fn next(&mut self) -> Option<(Moment, E)> {
        let planned = self.heap.pop()?;
        Some((planned.at, planned.event))
    }
}

impl<E> Ord for Planned<E> {
    /// The heap gives the greatest: that is the earliest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<E> PartialOrd for Planned<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Planned<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<E> Eq for Planned<E> {}

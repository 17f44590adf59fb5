//! Deadlines of many connections in one queue. Moving a deadline later, which is what nearly every request does, only
//! changes a field: the queue keeps the earlier entry and looks again when that comes due. So a busy connection costs
//! one queue operation per timeout, not per request.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::moment::Moment;

/// The deadline of one connection, kept with the connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Deadline {
    due: Option<Moment>,
    /// The earliest entry in the queue that is this deadline's.
    queued: Option<Moment>,
}

impl Deadline {
    pub fn clear(&mut self) {
        self.due = None;
    }

    /// Whether the queue's entry of this moment is still looked at for this deadline.
    pub fn is_queued_at(&self, moment: Moment) -> bool {
        self.queued == Some(moment)
    }
}

/// Orders deadlines; `K` names their owners.
#[derive(Debug)]
pub struct Deadlines<K: Ord> {
    queue: BinaryHeap<Reverse<(Moment, K)>>,
}

impl<K: Ord + Copy> Default for Deadlines<K> {
    fn default() -> Self {
        Self {
            queue: BinaryHeap::new(),
        }
    }
}

impl<K: Ord + Copy> Deadlines<K> {
    pub fn set(&mut self, deadline: &mut Deadline, owner: K, due: Moment) {
        deadline.due = Some(due);
        if deadline.queued.is_none_or(|queued| due < queued) {
            deadline.queued = Some(due);
            self.queue.push(Reverse((due, owner)));
        }
    }

    /// Entries in the queue, also those whose deadline was moved or whose owner is gone.
    pub fn entries(&self) -> usize {
        self.queue.len()
    }

    /// Drops the entries that are not [`Deadline::is_queued_at`] their moment.
    pub fn retain(&mut self, is_current: impl Fn(K, Moment) -> bool) {
        self.queue
            .retain(|Reverse((moment, owner))| is_current(*owner, *moment));
    }

    /// When to look next. Nothing need be due then.
    pub fn next(&self) -> Option<Moment> {
        self.queue.peek().map(|Reverse((due, _))| *due)
    }

    /// Takes the owner of the next entry that has come, and the entry's moment, for [`Deadlines::is_due`].
    pub fn pop(&mut self, now: Moment) -> Option<(K, Moment)> {
        self.queue.peek().filter(|Reverse((due, _))| *due <= now)?;
        self.queue.pop().map(|Reverse((due, owner))| (owner, due))
    }

    /// Whether the owner of a popped entry has its deadline now. If it was moved, it is queued again.
    pub fn is_due(
        &mut self,
        deadline: &mut Deadline,
        owner: K,
        entry: Moment,
        now: Moment,
    ) -> bool {
        if deadline.queued != Some(entry) {
            return false;
        }
        deadline.queued = None;
        match deadline.due {
            Some(due) if due <= now => {
                deadline.due = None;
                true
            }
            Some(due) => {
                self.set(deadline, owner, due);
                false
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(nanos: u64) -> Moment {
        Moment::from_nanos(nanos)
    }

    fn due_owners(queue: &mut Deadlines<u8>, deadline: &mut Deadline, now: u64) -> Vec<u8> {
        let mut due = Vec::new();
        while let Some((owner, entry)) = queue.pop(at(now)) {
            if queue.is_due(deadline, owner, entry, at(now)) {
                due.push(owner);
            }
        }
        due
    }

    #[test]
    fn a_deadline_moved_later_comes_once_and_late() {
        let (mut queue, mut deadline) = (Deadlines::default(), Deadline::default());
        for due in 10..20 {
            queue.set(&mut deadline, 1, at(due));
        }
        assert_eq!(queue.queue.len(), 1);
        assert!(due_owners(&mut queue, &mut deadline, 18).is_empty());
        assert_eq!(queue.next(), Some(at(19)));
        assert_eq!(due_owners(&mut queue, &mut deadline, 19), [1]);
        assert!(due_owners(&mut queue, &mut deadline, 1000).is_empty());
    }

    #[test]
    fn a_deadline_moved_earlier_comes_once_and_early() {
        let (mut queue, mut deadline) = (Deadlines::default(), Deadline::default());
        queue.set(&mut deadline, 1, at(100));
        queue.set(&mut deadline, 1, at(10));
        assert_eq!(due_owners(&mut queue, &mut deadline, 10), [1]);
        assert!(due_owners(&mut queue, &mut deadline, 100).is_empty());
    }

    #[test]
    fn entries_nobody_looks_at_can_be_dropped_and_the_others_come() {
        let (mut queue, mut deadline) = (Deadlines::default(), Deadline::default());
        queue.set(&mut deadline, 1, at(100));
        queue.set(&mut deadline, 1, at(10));
        queue.set(&mut Deadline::default(), 2, at(50));
        queue.retain(|owner, moment| owner == 1 && deadline.is_queued_at(moment));
        assert_eq!(queue.entries(), 1);
        assert_eq!(due_owners(&mut queue, &mut deadline, 10), [1]);
    }

    #[test]
    fn a_cleared_deadline_does_not_come() {
        let (mut queue, mut deadline) = (Deadlines::default(), Deadline::default());
        queue.set(&mut deadline, 1, at(10));
        deadline.clear();
        assert!(due_owners(&mut queue, &mut deadline, 50).is_empty());
        queue.set(&mut deadline, 1, at(60));
        assert_eq!(due_owners(&mut queue, &mut deadline, 60), [1]);
    }
}

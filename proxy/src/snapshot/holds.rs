//! Which snapshots a worker serves from: the current one, and those that exchanges in flight began with. Counting is the
//! worker's own, so that a request costs no atomic operation on memory all workers share.

use std::sync::Arc;

use super::{BackendPolicy, Snapshot};
use crate::balance::{Backend, BackendId, Ejection};

/// The current snapshot, and earlier ones as long as they are held.
#[derive(Debug)]
pub struct Snapshots {
    current: Counted,
    /// The oldest first.
    past: Vec<Counted>,
}

#[derive(Debug)]
struct Counted {
    snapshot: Arc<Snapshot>,
    holds: usize,
}

/// Keeps a snapshot in reach until it is given back with [`Snapshots::release`].
#[derive(Debug)]
#[must_use = "the snapshot is kept until its hold is released"]
pub struct Hold {
    revision: u64,
}

impl Hold {
    pub fn revision(&self) -> u64 {
        self.revision
    }
}

impl Snapshots {
    pub fn new(snapshot: Arc<Snapshot>) -> Self {
        Self {
            current: Counted { snapshot, holds: 0 },
            past: Vec::new(),
        }
    }

    pub fn current(&self) -> &Arc<Snapshot> {
        &self.current.snapshot
    }

    pub fn replace(&mut self, snapshot: Arc<Snapshot>) {
        let next = Counted { snapshot, holds: 0 };
        let before = std::mem::replace(&mut self.current, next);
        if before.holds > 0 {
            self.past.push(before);
        }
    }

    /// Holds the current snapshot.
    pub fn hold(&mut self) -> Hold {
        self.current.holds += 1;
        Hold {
            revision: self.current.snapshot.revision,
        }
    }

    /// Holds the snapshot of this revision if it is in reach, else the current one.
    pub fn hold_of(&mut self, revision: u64) -> Hold {
        let mut past = self.past.iter_mut();
        match past.find(|past| past.snapshot.revision == revision) {
            Some(past) => {
                past.holds += 1;
                Hold { revision }
            }
            None => self.hold(),
        }
    }

    /// A backend of any snapshot in reach.
    pub fn backend(&self, id: BackendId) -> Option<&Backend> {
        self.of(id.revision)?.backend(id)
    }

    pub fn policy_of(&self, backend: &Backend) -> Option<&BackendPolicy> {
        self.of(backend.id.revision)?.policy_of(backend)
    }

    pub fn of(&self, revision: u64) -> Option<&Arc<Snapshot>> {
        std::iter::once(&self.current)
            .chain(&self.past)
            .map(|counted| &counted.snapshot)
            .find(|snapshot| snapshot.revision == revision)
    }

    /// Says that an endpoint is out of its backend, and why.
    #[cold]
    pub fn log_ejection(&self, ejection: &Ejection) {
        let Ejection {
            address,
            trigger,
            length,
            ..
        } = ejection;
        match self.backend(ejection.backend) {
            Some(Backend {
                namespace, name, ..
            }) => tracing::warn!(
                "endpoint {address} of {namespace}/{name} is ejected for {length:?} after {trigger}"
            ),
            // Of a snapshot nobody holds any more.
            None => tracing::warn!("endpoint {address} is ejected for {length:?} after {trigger}"),
        }
    }

    pub fn release(&mut self, hold: Hold) {
        if hold.revision == self.current.snapshot.revision {
            self.current.holds -= 1;
            return;
        }
        self.past.retain_mut(|past| {
            if past.snapshot.revision == hold.revision {
                past.holds -= 1;
            }
            past.holds > 0
        });
    }

    /// Revision of the oldest snapshot in reach.
    pub fn oldest(&self) -> u64 {
        self.past
            .first()
            .map_or(self.current.snapshot.revision, |past| {
                past.snapshot.revision
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::EndpointRows;
    use crate::balance::shared::{SharedTables, Sizes};
    use crate::snapshot::Plan;

    fn snapshot(revision: u64) -> Arc<Snapshot> {
        let mut rows = EndpointRows::new(SharedTables::anonymous(Sizes {
            capacity: 1,
            workers: 1,
            cpus: 1,
            flows: 1,
        }));
        Arc::new(Snapshot::new(revision, Plan::default(), &mut rows).expect("no endpoint"))
    }

    #[test]
    fn a_snapshot_is_kept_as_long_as_anyone_holds_it_and_no_longer() {
        let mut snapshots = Snapshots::new(snapshot(1));
        let (first, again) = (snapshots.hold(), snapshots.hold());
        snapshots.replace(snapshot(2));
        let second = snapshots.hold();
        snapshots.replace(snapshot(3));
        snapshots.replace(snapshot(4));
        assert_eq!(snapshots.current().revision, 4);
        for (revision, is_in_reach) in [(1, true), (2, true), (3, false), (4, true)] {
            assert_eq!(snapshots.of(revision).is_some(), is_in_reach, "{revision}");
        }

        snapshots.release(first);
        assert_eq!(snapshots.oldest(), 1, "held once more");
        snapshots.release(again);
        assert_eq!(snapshots.oldest(), 2);
        snapshots.release(second);
        assert_eq!(snapshots.oldest(), 4, "nobody held the third");
        let current = snapshots.hold();
        snapshots.release(current);
        assert_eq!(snapshots.oldest(), 4);
    }
}

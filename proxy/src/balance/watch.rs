//! Picks written down for somebody who asks how they are made. Nobody asking costs a pick one look at a number that
//! hardly ever changes; while somebody does, workers write into one list, and rather leave a pick out than wait.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::{Arc, Mutex, PoisonError};

use super::backend::Backend;
use super::lease::Method;
use super::score::Reading;
use crate::moment::Moment;

/// One for all workers.
#[derive(Debug, Default)]
pub struct PickWatch {
    /// How many more picks are wanted.
    wanted: AtomicU64,
    /// Picks left out because another worker was writing.
    missed: AtomicU64,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    namespace: String,
    name: String,
    picks: Vec<WatchedPick>,
}

/// One pick, as it was made.
#[derive(Clone, Debug, PartialEq)]
pub struct WatchedPick {
    pub at: Moment,
    /// Key of the endpoint picked.
    pub winner: Arc<str>,
    pub how: How,
}

/// What decided a pick.
#[derive(Clone, Debug, PartialEq)]
pub enum How {
    /// Two draws, and the better one won.
    Draws { method: Method, draws: [Draw; 2] },
    /// The request's affinity key. How many endpoints the request had been tried at, and how many exchanges an endpoint
    /// may have pending to be chosen, if that is bounded.
    Affinity {
        tried: usize,
        pending: u64,
        limit: Option<f64>,
    },
}

/// One of two endpoints drawn, with what was compared.
#[derive(Clone, Debug, PartialEq)]
pub struct Draw {
    pub endpoint: Arc<str>,
    pub reading: Reading,
    pub score: f64,
    /// Of its share of the draws, where it is being eased in.
    pub eased_percent: Option<u32>,
}

impl PickWatch {
    /// Forgets what was seen before, and wants so many picks of this backend.
    pub fn begin(&self, namespace: &str, name: &str, picks: usize) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        *seen = Seen {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            picks: Vec::with_capacity(picks),
        };
        self.missed.store(0, Relaxed);
        self.wanted.store(picks as u64, Release);
    }

    /// Wants no more; returns what was seen, and how many picks were left out.
    pub fn end(&self) -> (Vec<WatchedPick>, u64) {
        self.wanted.store(0, Relaxed);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let picks = std::mem::take(&mut seen.picks);
        (picks, self.missed.load(Relaxed))
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.wanted.load(Relaxed) > 0
    }

    /// Writes a pick of this backend down, if it is the one watched.
    #[cold]
    pub(super) fn see(&self, backend: &Backend, pick: impl FnOnce() -> WatchedPick) {
        let Ok(mut seen) = self.seen.try_lock() else {
            self.missed.fetch_add(1, Relaxed);
            return;
        };
        let is_watched = seen.name == backend.name && seen.namespace == backend.namespace;
        // Whoever holds the list is the only one that counts down.
        let wanted = self.wanted.load(Acquire);
        if is_watched && wanted > 0 {
            seen.picks.push(pick());
            self.wanted.store(wanted - 1, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{BackendId, BackendKind};

    fn backend(name: &str) -> Backend {
        let id = BackendId {
            place: 0,
            revision: 1,
        };
        Backend::new(id, BackendKind::Service, name, "shop", Vec::new())
    }

    fn pick(at: u64) -> WatchedPick {
        WatchedPick {
            at: Moment::from_nanos(at),
            winner: "one".into(),
            how: How::Affinity {
                tried: 0,
                pending: 0,
                limit: None,
            },
        }
    }

    #[test]
    fn as_many_picks_are_kept_as_were_asked_for_and_only_of_that_backend() {
        let watch = PickWatch::default();
        assert!(!watch.is_on());
        watch.begin("shop", "front", 2);
        for at in 1..=4 {
            watch.see(&backend("back"), || pick(100));
            watch.see(&backend("front"), || pick(at));
        }
        assert!(!watch.is_on(), "the second pick was the last one wanted");
        assert_eq!(watch.end(), (vec![pick(1), pick(2)], 0));
    }

    #[test]
    fn a_pick_is_left_out_rather_than_waited_for() {
        let watch = PickWatch::default();
        watch.begin("shop", "front", 2);
        let held = watch.seen.lock().expect("nobody panicked");
        watch.see(&backend("front"), || pick(1));
        drop(held);
        assert_eq!(watch.end(), (vec![], 1));
    }
}

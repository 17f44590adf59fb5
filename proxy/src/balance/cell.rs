//! The steps in which workers change one number they share: each is one atomic change, whoever else is at it. Written
//! over a trait, so that a model checker can try every order of several workers' steps.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{self, Acquire, Relaxed, Release, SeqCst};

use super::ewma;

/// A number several workers share.
pub trait Cell {
    fn load(&self, order: Ordering) -> u64;

    fn store(&self, value: u64, order: Ordering);

    /// Puts `new` where `old` is; an error is what was there instead.
    fn replace(&self, old: u64, new: u64, order: Ordering) -> Result<u64, u64>;
}

impl Cell for AtomicU64 {
    #[inline]
    fn load(&self, order: Ordering) -> u64 {
        self.load(order)
    }

    #[inline]
    fn store(&self, value: u64, order: Ordering) {
        self.store(value, order);
    }

    #[inline]
    fn replace(&self, old: u64, new: u64, order: Ordering) -> Result<u64, u64> {
        self.compare_exchange(old, new, order, Relaxed)
    }
}

/// Takes a sample into the average in `cell`; returns the average before it.
pub fn average(cell: &impl Cell, sample: f64) -> f64 {
    let mut old = cell.load(Relaxed);
    loop {
        let new = ewma::next(f64::from_bits(old), sample).to_bits();
        // A healthy endpoint stays healthy without a write that other workers' caches would feel.
        if new == old {
            return f64::from_bits(old);
        }
        match cell.replace(old, new, Relaxed) {
            Ok(_) => return f64::from_bits(old),
            Err(changed) => old = changed,
        }
    }
}

/// Ejects until then; false if somebody is ejected already.
pub fn eject(until: &impl Cell, nanos: u64) -> bool {
    // In one order with what other workers eject at the same time: of two at least one sees the other.
    until.replace(0, nanos, SeqCst).is_ok()
}

/// Ends the ejection that lasts until then, and no later one; true for the one that did it.
pub fn readmit(until: &impl Cell, nanos: u64) -> bool {
    until.replace(nanos, 0, SeqCst).is_ok()
}

/// One attempt less in flight. What it said of the endpoint was written before: whoever sees none in flight sees that.
pub fn release(pending: &impl Cell) {
    pending.store(pending.load(Relaxed).saturating_sub(1), Release);
}

/// Whether nothing is in flight, and nothing will be written any more by what was.
pub fn is_idle(pending: &impl Cell) -> bool {
    pending.load(Acquire) == 0
}

#[cfg(test)]
mod models {
    //! Every order of the steps of two workers, by loom.

    use loom::sync::Arc;
    use loom::sync::atomic::AtomicU64;
    use loom::thread;

    use super::*;

    impl Cell for AtomicU64 {
        fn load(&self, order: Ordering) -> u64 {
            self.load(order)
        }

        fn store(&self, value: u64, order: Ordering) {
            self.store(value, order);
        }

        fn replace(&self, old: u64, new: u64, order: Ordering) -> Result<u64, u64> {
            self.compare_exchange(old, new, order, Relaxed)
        }
    }

    /// The cell after two workers did this to it, and what the two returned.
    fn two<T: Send + 'static>(
        start: u64,
        first: fn(&AtomicU64) -> T,
        second: fn(&AtomicU64) -> T,
    ) -> (u64, [T; 2]) {
        let cell = Arc::new(AtomicU64::new(start));
        let other = cell.clone();
        let worker = thread::spawn(move || first(&other));
        let here = second(&cell);
        let there = worker.join().expect("the model does not panic");
        (cell.load(Relaxed), [there, here])
    }

    #[test]
    fn no_sample_of_two_workers_is_lost() {
        loom::model(|| {
            let (health, _) = two(
                1.0_f64.to_bits(),
                |health| average(health, 0.0),
                |health| average(health, 1.0),
            );
            let health = f64::from_bits(health);
            let orders = [0.7, 0.3 + 0.7 * 0.7];
            assert!(
                orders.iter().any(|one| (health - one).abs() < 1e-12),
                "{health}"
            );
        });
    }

    #[test]
    fn of_two_failures_each_is_decided_by_what_was_before_it() {
        loom::model(|| {
            let fail = |health: &AtomicU64| average(health, 0.0);
            let (_, mut before) = two(1.0_f64.to_bits(), fail, fail);
            before.sort_by(f64::total_cmp);
            assert_eq!(before, [0.7, 1.0]);
        });
    }

    #[test]
    fn two_workers_eject_once() {
        loom::model(|| {
            let (until, won) = two(0, |until| eject(until, 3), |until| eject(until, 4));
            assert!(won[0] != won[1], "{won:?}");
            assert_eq!(until, if won[0] { 3 } else { 4 });
        });
    }

    #[test]
    fn two_workers_readmit_once() {
        loom::model(|| {
            let (until, won) = two(3, |until| readmit(until, 3), |until| readmit(until, 3));
            assert!(won[0] != won[1], "{won:?}");
            assert_eq!(until, 0);
        });
    }

    #[test]
    fn a_late_return_does_not_end_the_next_ejection() {
        loom::model(|| {
            let (until, _) = two(
                3,
                // Looked at the clock and at the end, and went to sleep.
                |until| readmit(until, 3),
                |until| readmit(until, 3) && eject(until, 9) || eject(until, 9),
            );
            assert_eq!(until, 9);
        });
    }

    #[test]
    fn what_an_attempt_says_is_written_before_its_row_is_given_to_another_endpoint() {
        loom::model(|| {
            let health = Arc::new(AtomicU64::new(1.0_f64.to_bits()));
            let pending = Arc::new(AtomicU64::new(1));
            let row = (health.clone(), pending.clone());
            let worker = thread::spawn(move || {
                let (health, pending) = row;
                average(&*health, 0.0);
                release(&*pending);
            });
            if is_idle(&*pending) {
                health.store(1.0_f64.to_bits(), Relaxed);
                assert_eq!(f64::from_bits(health.load(Relaxed)), 1.0);
                worker.join().expect("the model does not panic");
                assert_eq!(f64::from_bits(health.load(Relaxed)), 1.0);
            } else {
                worker.join().expect("the model does not panic");
            }
        });
    }
}

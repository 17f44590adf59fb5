//! Cells one worker writes and anybody reads. Load and store instead of an atomic add: there is one writer, and a
//! locked instruction a request would show.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// Only ever rises.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn increment(&self) {
        self.add(1);
    }

    #[inline]
    pub fn add(&self, count: u64) {
        self.0
            .store(self.0.load(Relaxed).wrapping_add(count), Relaxed);
    }

    /// Takes over what was counted elsewhere.
    #[inline]
    pub fn raise_to(&self, count: u64) {
        self.0.store(count, Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// How many there are right now.
#[derive(Debug, Default)]
pub struct Gauge(AtomicU64);

impl Gauge {
    #[inline]
    pub fn raise(&self) {
        self.0.store(self.0.load(Relaxed).wrapping_add(1), Relaxed);
    }

    #[inline]
    pub fn lower(&self) {
        self.0
            .store(self.0.load(Relaxed).saturating_sub(1), Relaxed);
    }

    #[inline]
    pub fn set(&self, level: u64) {
        self.0.store(level, Relaxed);
    }

    pub fn value(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// The values of a label, known in advance.
pub trait Label: Copy + 'static {
    /// All of them, each at its own [`place`](Self::place).
    const ALL: &'static [Self];

    fn place(self) -> usize;

    /// As metrics spell it.
    fn name(self) -> &'static str;
}

/// One counter for each value of a label.
#[derive(Debug)]
pub struct CounterOf<L> {
    counters: Box<[Counter]>,
    label: PhantomData<L>,
}

impl<L: Label> Default for CounterOf<L> {
    fn default() -> Self {
        Self {
            counters: L::ALL.iter().map(|_| Counter::default()).collect(),
            label: PhantomData,
        }
    }
}

impl<L: Label> CounterOf<L> {
    #[inline]
    pub fn of(&self, label: L) -> &Counter {
        &self.counters[label.place()]
    }
}

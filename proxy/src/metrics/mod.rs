//! What Weir counts, and how it is shown to Prometheus. Workers count in plain cells of their own; everything is summed
//! and named only when somebody asks.

mod counter;
mod worker;

pub use counter::{Counter, CounterOf, Gauge, Label};
pub use worker::{LocalCause, ResponseClass, WorkerCounters};

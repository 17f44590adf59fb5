//! What Weir counts, and how it is shown to Prometheus. Workers count in plain cells of their own; everything is summed
//! and named only when somebody asks.

mod counter;
mod durations;
mod endpoints;
mod labels;
mod observed;
mod serving;
mod steering;
mod text;
mod worker;
mod workers;
mod xdp;

pub use counter::{Counter, CounterOf, Gauge, Label};
pub use durations::Durations;
pub use labels::{
    LinkEnd, LocalCause, RateLimitHint, ResponseClass, RetryReason, Unmirrored, Unrepeatable,
};
pub use observed::{EbpfStatus, InterfaceStatus, LogCounters, Observed};
pub use serving::{ReloadResult, Serving};
pub use steering::{SteeringStatus, WorkerLoad};
pub use worker::WorkerCounters;
pub use xdp::{XdpInterface, XdpReport};

use crate::moment::Moment;
use text::Text;

/// Media type of [`render`]'s text.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All figures at this moment, in Prometheus' text format.
pub fn render(observed: &Observed, now: Moment) -> String {
    let mut text = Text::default();
    let ebpf = (observed.ebpf)();
    observed.write_process(&mut text, now);
    observed.serving.write(&mut text);
    ebpf.write(&mut text);
    workers::write(&mut text, &observed.workers);
    steering::write(&mut text, &observed.tables, now);
    endpoints::write(&mut text, observed, &ebpf, now);
    text.finish()
}

#[cfg(test)]
mod tests;

//! io_uring as typed operations. A worker has one [`Connections`]: it submits what its connections want, at most one
//! receive and one send in flight each, and turns completions into [`Completion`]s. All memory the kernel may touch is
//! owned here until the last completion of its operation.

mod acceptor;
mod buffers;
mod completions;
mod connection;
mod connections;
pub mod heap;
mod key;
mod listener;
mod probe;
mod send_queue;
mod submission;
mod wake;

pub use buffers::Slice;
pub use completions::Completion;
pub use connections::{Connections, Gauges};
pub use listener::{Listener, ListenerWatch};
pub use probe::{RingError, limits};
pub use submission::QueueSizes;
pub use wake::Waker;

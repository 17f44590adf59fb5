//! Links played by hand: events in, actions out, a clock that stands still until it is moved.

mod ending;
mod flowing;
mod picking;
mod preambles;
mod reloading;
mod world;

use crate::seam::Action;
use world::World;

/// What the relay wants of connections, without the numbers.
fn verbs(actions: &[Action]) -> Vec<&'static str> {
    let verb = |action: &Action| match action {
        Action::Adopt { .. } => "adopt",
        Action::Refuse { .. } => "refuse",
        Action::Connect { .. } => "connect",
        Action::Send { .. } => "send",
        Action::Pause { .. } => "pause",
        Action::Resume { .. } => "resume",
        Action::Shutdown { .. } => "shutdown",
        Action::Close { .. } => "close",
        Action::Abort { .. } => "abort",
        Action::Unmeasure { .. } => "unmeasure",
    };
    actions.iter().map(verb).collect()
}

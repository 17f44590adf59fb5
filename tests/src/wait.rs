//! Waiting for something to become true, instead of sleeping and hoping.

use std::time::{Duration, Instant};

/// How often a condition is looked at.
const STEP: Duration = Duration::from_millis(5);

/// Waits until `condition` holds, and says whether it did within `limit`.
pub fn becomes_true(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    becomes_some(limit, || condition().then_some(())).is_some()
}

/// Waits until `attempt` gives something, at most `limit`.
pub fn becomes_some<T>(limit: Duration, mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return Some(value);
        }
        if start.elapsed() >= limit {
            return None;
        }
        std::thread::sleep(STEP);
    }
}

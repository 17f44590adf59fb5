//! A configuration that changes while it is served: all of it or nothing, and nobody's request is lost.

mod checks;
mod edited;
mod endpoints;
mod files;
mod listeners;
mod measured;
mod mistakes;
mod storm;

use std::time::Duration;

use weir_tests::skip::Need;

const NEEDS: &[Need] = &[Need::Root];
const PATIENCE: Duration = Duration::from_secs(5);

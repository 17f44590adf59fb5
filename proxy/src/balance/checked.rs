//! What active checks have to say about who is in the pool: independent of what traffic says.

use super::rows::EndpointRow;
use super::shared::SharedTables;
use super::state::{CheckResult, EndpointState};
use crate::moment::Moment;

/// One active check's vote on one endpoint. While any votes against it, the endpoint is out of the pool. Dropping takes
/// the vote back; once the row belongs to another endpoint it counts no more.
pub struct Checked {
    tables: SharedTables,
    row: EndpointRow,
    is_failing: bool,
}

impl Checked {
    /// In favour, to begin with.
    pub fn new(tables: SharedTables, row: EndpointRow) -> Self {
        Self {
            tables,
            row,
            is_failing: false,
        }
    }

    /// One check came out. That alone changes nothing.
    pub fn count(&self, result: CheckResult) {
        if self.state().is_current() {
            self.state().count_check(result);
        }
    }

    /// Whether the endpoint is to be out of the pool from now on, as far as this check is concerned.
    pub fn set_failing(&mut self, is_failing: bool, now: Moment) {
        if self.is_failing == is_failing {
            return;
        }
        self.is_failing = is_failing;
        self.state().set_check_failing(is_failing);
        if self.state().is_active(now) {
            self.tables.eased.came_back(self.row, now);
        }
    }

    fn state(&self) -> EndpointState<'_> {
        EndpointState::of(&self.tables, self.row)
    }
}

impl Drop for Checked {
    fn drop(&mut self) {
        if self.is_failing {
            self.state().set_check_failing(false);
        }
    }
}

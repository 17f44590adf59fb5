//! A configuration that was loaded takes the place of the one that is served: all of it, or nothing.

use std::sync::Arc;

use super::listeners::ByWorker;
use super::workers::Workers;
use super::{Server, ServerError, describe_bind, peer};
use crate::metrics::ReloadResult;
use crate::runtime::checks::Checks;
use crate::runtime::clock;
use crate::runtime::reload::{Cause, Loaded, Outcome, Refused};
use crate::snapshot::{Changes, Counts, ListenerId, Plan, Snapshot};

/// Endpoints that ways are looked for to before they are served. What leads to the others is found a moment later.
const ASKED_AT_ONCE: usize = 64;

/// All it takes to go from one snapshot to the next, claimed.
struct Step {
    changes: Changes,
    draft: Snapshot,
    listeners: Vec<ByWorker>,
}

impl Server {
    /// Applies what was loaded, and tells of it.
    pub(super) fn reload(&mut self, loaded: Loaded, workers: &Workers, checks: &mut Checks) {
        self.is_littered = true;
        let Loaded {
            cause,
            plan,
            answers,
        } = loaded;
        self.let_go(workers);
        let step = plan.and_then(|plan| self.prepare_step(plan));
        let result = step.map(|step| {
            let changes = step.changes.clone();
            if !changes.is_empty() {
                self.take(step, workers, checks);
            }
            changes
        });
        let outcome = Arc::new(Outcome {
            revision: self.lineage.current().revision,
            result,
        });
        // Flags do not change: with them there is nothing to be wrong.
        let was_refused = match outcome.is_quick_mode() {
            true => false,
            false => self.serving.refuse(outcome.refusal()),
        };
        // Files are touched for many reasons, and mending them is one worth telling.
        let is_asked_for = cause != Cause::Files || was_refused;
        outcome.log(is_asked_for);
        if is_asked_for || outcome.kind() != ReloadResult::Unchanged {
            let now = clock::seconds_since_1970();
            self.serving.count(outcome.kind(), now);
        }
        answers.tell(&outcome);
    }

    /// Claims what the plan needs. If anything cannot be had, nothing has changed.
    fn prepare_step(&mut self, plan: Plan) -> Result<Step, Refused> {
        let draft = self.lineage.draft(plan)?;
        let current = self.lineage.current();
        let listeners = self.addresses.bind(&self.dataplane, &draft, Some(current));
        let step = Step {
            changes: Changes::between(current, &draft),
            listeners: listeners.map_err(Refused::from)?,
            draft,
        };
        // Last of all, for this takes effect at once.
        self.dataplane
            .deny(&step.draft.deny)
            .map_err(Refused::NotDenied)?;
        Ok(step)
    }

    fn take(&mut self, step: Step, workers: &Workers, checks: &mut Checks) {
        let Step {
            changes,
            draft,
            listeners,
        } = step;
        let before = self.lineage.current().clone();
        let snapshot = self.lineage.adopt(draft).clone();
        // The kernel knows an endpoint before the first connection to it is made, and measures on the way to it.
        for endpoint in self.lineage.arrived() {
            self.dataplane.identify(peer(endpoint));
        }
        let arrived = self.lineage.arrived().map(|endpoint| endpoint.address);
        let arrived: Vec<_> = arrived.take(ASKED_AT_ONCE).collect();
        self.dataplane.reach(&arrived);
        self.serving.replace(snapshot.clone());
        checks.follow(&snapshot);
        workers.replace(&snapshot);
        workers.listen(listeners);
        let gone = listeners_beyond(&before, &snapshot);
        workers.unlisten(self.addresses.turn_away(&gone));
        self.addresses.publish(&self.dataplane);
        if changes.listeners != Counts::default() {
            let addresses = snapshot.client_addresses();
            self.dataplane.follow_addresses(addresses.collect());
        }
        self.routes_are_stale |= changes.endpoints.added + changes.endpoints.removed > 0;
    }

    /// Forgets endpoints that no worker can pick any more.
    pub(super) fn let_go(&mut self, workers: &Workers) {
        let mut addresses = self.lineage.let_go(workers.oldest_snapshot());
        if addresses.is_empty() {
            return;
        }
        // Another endpoint may have the same address.
        for endpoint in self.lineage.current().endpoints() {
            if addresses.remove(&endpoint.address) {
                self.dataplane.identify(peer(endpoint));
            }
        }
        for address in addresses {
            self.dataplane.forget(address);
        }
    }

    /// Has the dataplane look for the interfaces that lead to the endpoints of now. That takes a question for each of
    /// them, so it is not done for every change.
    pub(super) fn follow_routes(&mut self) {
        if !std::mem::take(&mut self.routes_are_stale) {
            return;
        }
        let (dataplane, snapshot) = (self.dataplane.clone(), self.lineage.current().clone());
        tokio::task::spawn_blocking(move || {
            let destinations: Vec<_> = snapshot.endpoints().map(|one| one.address).collect();
            dataplane.follow_destinations(&destinations);
        });
    }
}

fn listeners_beyond(snapshot: &Snapshot, other: &Snapshot) -> Vec<ListenerId> {
    let ids = snapshot.sockets().map(|(id, _)| id);
    ids.filter(|id| !other.has_socket(*id)).collect()
}

impl From<ServerError> for Refused {
    fn from(error: ServerError) -> Self {
        match error {
            ServerError::Listen { address, source } => Self::Listen {
                address,
                reason: describe_bind(&source),
            },
            other => Self::System(other.to_string()),
        }
    }
}

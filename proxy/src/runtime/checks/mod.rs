//! Active checks, on the control plane's thread: one task for each check of each endpoint, which asks again and again and
//! tells the balancer when the answers change. Workers have nothing to do with it.

mod probe;

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

use crate::balance::shared::SharedTables;
use crate::balance::{CheckResult, Checked, EndpointRow};
use crate::check::{ActiveCheck, Streak, Verdict};
use crate::runtime::clock;
use crate::snapshot::Snapshot;

/// Checks under way at one time: each holds a descriptor.
const AT_A_TIME: usize = 32;
/// The first checks are spread over this long, or over their interval if that is shorter.
const SPREAD: Duration = Duration::from_secs(1);
/// By how much an interval is shorter or longer than asked for, at most.
const JITTER: f64 = 0.1;

/// All checks of the current snapshot. Dropping it ends them, and their votes with them.
pub struct Checks {
    tables: SharedTables,
    running: HashMap<(EndpointRow, ActiveCheck), Running>,
    room: Arc<Semaphore>,
}

/// A task that ends when this is dropped.
struct Running(JoinHandle<()>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Checks {
    pub fn new(tables: SharedTables) -> Self {
        Self {
            tables,
            running: HashMap::new(),
            room: Arc::new(Semaphore::new(AT_A_TIME)),
        }
    }

    /// Checks nothing any more.
    pub fn stop(&mut self) {
        self.running.clear();
    }

    /// Checks what this snapshot asks for. What stays as it was goes on with all it knows. Called where a tokio runtime
    /// is entered.
    pub fn follow(&mut self, snapshot: &Snapshot) {
        let mut wanted = HashSet::new();
        for backend in snapshot.backends() {
            let check = snapshot
                .policy_of(backend)
                .and_then(|policy| policy.check.as_ref());
            let Some(check) = check else { continue };
            for endpoint in backend.endpoints() {
                let key = (endpoint.row, check.clone());
                self.running.entry(key.clone()).or_insert_with(|| {
                    let watch = Watch {
                        backend: format!("{}/{}", backend.namespace, backend.name),
                        address: endpoint.address,
                        check: check.clone(),
                        streak: Streak::default(),
                        vote: Checked::new(self.tables.clone(), endpoint.row),
                    };
                    Running(tokio::spawn(watch.run(self.room.clone())))
                });
                wanted.insert(key);
            }
        }
        self.running.retain(|key, _| wanted.contains(key));
    }
}

/// One check of one endpoint.
struct Watch {
    /// As namespace and name.
    backend: String,
    address: SocketAddr,
    check: ActiveCheck,
    streak: Streak,
    vote: Checked,
}

impl Watch {
    async fn run(mut self, room: Arc<Semaphore>) {
        sleep(self.check.interval.min(SPREAD).mul_f64(rand::random())).await;
        loop {
            let spread = JITTER * (2.0 * rand::random::<f64>() - 1.0);
            let due = Instant::now() + self.check.interval.mul_f64(1.0 + spread);
            // Never closed: whoever waits for its turn gets it.
            if let Ok(_turn) = room.acquire().await {
                let answer = probe::ask(self.address, &self.check).await;
                self.on_answer(answer);
            }
            sleep_until(due).await;
        }
    }

    fn on_answer(&mut self, answer: Result<(), probe::Fault>) {
        let Self {
            address, backend, ..
        } = self;
        let result = match &answer {
            Ok(()) => CheckResult::Passed,
            Err(fault) if fault.is_ours() => CheckResult::NotMade,
            Err(_) => CheckResult::Failed,
        };
        self.vote.count(result);
        if result == CheckResult::NotMade {
            return;
        }
        let Some(verdict) = self.streak.on_result(answer.is_ok(), &self.check) else {
            return;
        };
        self.vote
            .set_failing(verdict == Verdict::Fails, clock::now());
        match answer {
            Err(fault) => {
                tracing::warn!("endpoint {address} of {backend} fails its checks: {fault}")
            }
            Ok(()) => tracing::info!("endpoint {address} of {backend} passes its checks again"),
        }
    }
}

#[cfg(test)]
mod tests;

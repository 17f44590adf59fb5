//! Loads the configuration again when its files change, on SIGHUP, and when the admin address is asked to. What was
//! loaded is handed to the server, which applies it whole or not at all, and everybody who asked hears what came of it.
//!
//! ```text
//! files ──┐                                        ┌─► Outcome: logged, counted
//! SIGHUP ─┼─► Reloads: settle, load, check ─► server ┤
//! POST ───┘                                        └─► answer to whoever asked
//! ```

pub mod conflicts;
mod load;
mod outcome;
mod watch;

pub use load::{ConfigError, Refusal, Standpoint, both, count, load, load_plan};
pub use outcome::{Outcome, Refused};
pub use watch::Watch;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::metrics::Serving;
use crate::snapshot::Plan;

/// Files are read when nothing has changed for so long: whoever writes them writes them all, and whole.
const QUIET: Duration = Duration::from_millis(100);
/// And after so long whatever happens.
const AT_LATEST: Duration = Duration::from_secs(1);

/// Reads the configuration.
pub type Loader = Arc<dyn Fn() -> Result<Plan, ConfigError> + Send + Sync>;

/// Who wants the configuration loaded again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Files,
    Signal,
    Admin,
}

/// A configuration that was loaded and is to be applied.
pub struct Loaded {
    pub cause: Cause,
    pub plan: Result<Plan, Refused>,
    pub answers: Answers,
}

/// Who waits to hear what comes of a reload.
pub struct Answers(Vec<Answer>);

type Answer = oneshot::Sender<Arc<Outcome>>;

/// Asks for a reload, from anywhere.
#[derive(Clone)]
pub struct ReloadHandle(mpsc::UnboundedSender<(Cause, Option<Answer>)>);

/// What waits for reasons to load the configuration again.
pub struct Reloads {
    asked: mpsc::UnboundedReceiver<(Cause, Option<Answer>)>,
    /// `None` where nothing can be loaded: flags do not change.
    loader: Option<Loader>,
    watch: Option<Watch>,
}

impl ReloadHandle {
    pub fn signal(&self) {
        // Nobody listens any more: the proxy ends.
        let _ = self.0.send((Cause::Signal, None));
    }

    /// Loads the configuration, and waits for what comes of it. `None` if the proxy ends first.
    pub async fn reload(&self) -> Option<Arc<Outcome>> {
        let (answer, outcome) = oneshot::channel();
        self.0.send((Cause::Admin, Some(answer))).ok()?;
        outcome.await.ok()
    }
}

impl Answers {
    pub fn tell(self, outcome: &Arc<Outcome>) {
        for answer in self.0 {
            // Whoever asked may have left.
            let _ = answer.send(outcome.clone());
        }
    }
}

impl Reloads {
    pub fn new(loader: Option<Loader>, watch: Option<Watch>) -> (ReloadHandle, Self) {
        let (sender, asked) = mpsc::unbounded_channel();
        let reloads = Self {
            asked,
            loader,
            watch,
        };
        (ReloadHandle(sender), reloads)
    }

    /// Loads whenever there is reason to, one after the other. Ends when nobody applies what is loaded any more.
    pub async fn run(mut self, applier: mpsc::Sender<Loaded>, serving: Arc<Serving>) {
        loop {
            serving.set_unnoticed(self.unnoticed());
            let (cause, mut answers) = self.next_cause().await;
            // One load is enough for everybody who has asked until now.
            while let Ok((_, answer)) = self.asked.try_recv() {
                answers.extend(answer);
            }
            let plan = self.load().await;
            let loaded = Loaded {
                cause,
                plan,
                answers: Answers(answers),
            };
            if applier.send(loaded).await.is_err() {
                return;
            }
        }
    }

    async fn next_cause(&mut self) -> (Cause, Vec<Answer>) {
        let Some(watch) = &self.watch else {
            return asked(&mut self.asked).await;
        };
        tokio::select! {
            asked = asked(&mut self.asked) => asked,
            () = watch.changed() => {
                let settled = async { while timeout(QUIET, watch.changed()).await.is_ok() {} };
                let _ = timeout(AT_LATEST, settled).await;
                (Cause::Files, Vec::new())
            }
        }
    }

    /// Places in which files can change without a word.
    fn unnoticed(&self) -> usize {
        match &self.watch {
            Some(watch) => watch.unnoticed(),
            // Either the kernel gives no watch, or there are no files.
            None => usize::from(self.loader.is_some()),
        }
    }

    async fn load(&mut self) -> Result<Plan, Refused> {
        let loader = self.loader.clone().ok_or(Refused::QuickMode)?;
        if let Some(watch) = &mut self.watch {
            watch.refresh();
        }
        // Reading and checking takes its time, and the control plane has other things to do.
        let loaded = tokio::task::spawn_blocking(move || loader()).await;
        match loaded {
            Ok(plan) => plan.map_err(Refused::Config),
            Err(panic) => Err(Refused::System(panic.to_string())),
        }
    }
}

/// The next request; none ever, once nobody can ask.
async fn asked(
    requests: &mut mpsc::UnboundedReceiver<(Cause, Option<Answer>)>,
) -> (Cause, Vec<Answer>) {
    match requests.recv().await {
        Some((cause, answer)) => (cause, answer.into_iter().collect()),
        None => std::future::pending().await,
    }
}

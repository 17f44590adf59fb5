//! The server's part in a takeover: offering what there is, letting go of it, and telling that it has been taken.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use super::Server;
use super::workers::Workers;
use crate::balance::Books;
use crate::runtime::admin::{AdminThread, Readiness};
use crate::runtime::checks::Checks;
use crate::runtime::clock;
use crate::runtime::takeover::{Door, Heir, Offer, Pinned, Taken};

/// The admin surfaces, while they are ours.
pub struct Admin {
    pub readiness: Readiness,
    /// For whoever takes over.
    pub sockets: Vec<OwnedFd>,
    pub thread: AdminThread,
}

/// Somebody wants our place.
pub enum Visit {
    /// It wants to see what there is.
    Knock(Heir),
    /// It could start at once.
    Ready(Heir, Pinned),
}

/// Visits, as they come. Dropping it closes the door.
pub struct Visits {
    door: Option<Arc<Door>>,
    attending: Option<AbortHandle>,
    announce: mpsc::Sender<Visit>,
    announced: mpsc::Receiver<Visit>,
}

/// One that cannot be taken over serves as well: there may be another process of this name that has no pins.
pub fn open_door(instance: &str, inherited: Option<OwnedFd>) -> Option<Door> {
    let failed = |error: &io::Error| {
        tracing::info!(instance, %error, "no process will be able to take over from this one");
    };
    Door::open(instance, inherited).inspect_err(failed).ok()
}

impl Visits {
    pub fn at(door: Option<Door>) -> Self {
        let (announce, announced) = mpsc::channel(4);
        let door = door.map(Arc::new);
        let attending = door.clone().map(|door| {
            let announce = announce.clone();
            let attend = async move {
                if let Err(error) = door.attend(announce, Visit::Knock).await {
                    tracing::warn!(%error, "no process can take over from this one any more");
                }
            };
            tokio::spawn(attend).abort_handle()
        });
        Self {
            door,
            attending,
            announce,
            announced,
        }
    }

    pub async fn next(&mut self) -> Option<Visit> {
        self.announced.recv().await
    }

    /// Waits for it beside all else.
    fn announce_when_ready(&self, heir: Heir) {
        let announce = self.announce.clone();
        tokio::spawn(async move {
            match heir.wait_until_ready().await {
                Ok(pinned) => {
                    let _ = announce.send(Visit::Ready(heir, pinned)).await;
                }
                Err(error) => say_that_it_failed(&heir, &error),
            }
        });
    }
}

impl Drop for Visits {
    fn drop(&mut self) {
        if let Some(attending) = &self.attending {
            attending.abort();
        }
    }
}

impl Server {
    /// Lets a visitor have what it wants. Once it serves in our place, returns what it uses of each listener that was
    /// offered.
    pub(super) async fn receive(
        &mut self,
        visit: Visit,
        visits: &Visits,
        admin: &Admin,
        workers: &Workers,
        checks: &mut Checks,
        stop: &mut mpsc::Receiver<()>,
    ) -> Option<Vec<Taken>> {
        match visit {
            Visit::Knock(heir) => {
                match self.offer(&heir, visits, admin).await {
                    Ok(()) => visits.announce_when_ready(heir),
                    Err(error) => say_that_it_failed(&heir, &error),
                }
                None
            }
            Visit::Ready(heir, pinned) => self.give_way(heir, pinned, workers, checks, stop).await,
        }
    }

    async fn offer(&mut self, heir: &Heir, visits: &Visits, admin: &Admin) -> io::Result<()> {
        let Some(door) = &visits.door else {
            return Ok(());
        };
        tracing::info!("process {} prepares to take over", heir.pid);
        let lock = self.dataplane.lock();
        let offer = Offer {
            lock: lock.as_ref().map(AsFd::as_fd),
            admin: &admin.sockets,
            listeners: self.addresses.offer(),
        };
        heir.offer(door, &offer).await
    }

    async fn give_way(
        &mut self,
        heir: Heir,
        pinned: Pinned,
        workers: &Workers,
        checks: &mut Checks,
        stop: &mut mpsc::Receiver<()>,
    ) -> Option<Vec<Taken>> {
        workers.count(Books::Apart).await;
        checks.stop();
        self.addresses.stop_steering();
        match pinned {
            Pinned::Taken => self.dataplane.leave(),
            Pinned::Left => self.dataplane.withdraw(),
        }
        let pid = heir.pid;
        let serving = async {
            heir.give_way().await?;
            let taken = heir.wait_until_serving().await?;
            tracing::info!("process {pid} has taken over");
            Ok(taken)
        };
        let serving = tokio::select! {
            serving = serving => serving,
            _ = stop.recv() => {
                tracing::info!("stopped while process {pid} takes over: all is left to it");
                Ok(self.addresses.all_taken())
            }
        };
        let error: io::Error = match serving {
            Ok(taken) => {
                if pinned == Pinned::Left {
                    self.dataplane.let_connections_end();
                }
                return Some(taken);
            }
            Err(error) => error,
        };
        tracing::error!(
            "process {pid} was to take over, and does not serve: {error}; serving goes on here"
        );
        self.dataplane.come_back();
        self.serve_l4_again();
        self.addresses.steer_again(&self.dataplane);
        checks.follow(self.lineage.current());
        workers.count(Books::Shared).await;
        None
    }

    /// Whoever failed to take over has left the kernel services of its own, or none.
    fn serve_l4_again(&mut self) {
        self.kernel_services.publish_again();
        if self.options.is_l4_in_kernel {
            let snapshot = self.lineage.current();
            self.kernel_services
                .tick(&self.dataplane, snapshot, clock::now());
        } else if let Err(error) = self.dataplane.serve_no_more() {
            tracing::warn!(%error, "the kernel goes on with L4 services that are not ours");
        }
    }

    /// From now on the process whose place we take may let its clients go.
    pub(super) fn tell_predecessor(&mut self) {
        let Some(predecessor) = self.predecessor.take() else {
            return;
        };
        let pid = predecessor.pid;
        match predecessor.tell_serving(&self.addresses.taken()) {
            Ok(()) => tracing::info!("took over from process {pid}"),
            Err(error) => tracing::warn!("process {pid} ended while it was taken over: {error}"),
        }
    }
}

fn say_that_it_failed(heir: &Heir, error: &io::Error) {
    let pid = heir.pid;
    tracing::warn!("process {pid} did not take over: {error}; serving goes on here");
}

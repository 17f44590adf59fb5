//! What people and their tools ask a running proxy: `/config_dump`, `/healthz` and `/quitquitquit` on one address,
//! `/metrics` on another, `/healthz/ready` on a third. All of it runs on one thread of its own, and no answer waits for
//! a worker.

mod client;
pub mod dump;
mod ebpf;
pub mod explain;
mod routes;
mod sockets;
#[cfg(test)]
mod tests;

pub use client::{FetchError, fetch, fetch_dump};
pub use ebpf::ebpf_status;
pub use sockets::{AdminAddresses, AdminSockets, BindError};

use std::future::IntoFuture;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread::{self, JoinHandle};

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use super::reload::ReloadHandle;
use crate::metrics::Observed;

/// What the answers are made from, and what a request can bring about.
pub struct Control {
    pub observed: Observed,
    pub readiness: Readiness,
    pub reloads: ReloadHandle,
    /// Begins the drain of the whole proxy. Called for every `/quitquitquit`.
    pub shutdown: Box<dyn Fn() + Send + Sync>,
}

/// Whether the proxy wants new connections: not before all workers listen, and not once it drains.
#[derive(Clone, Debug, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    pub fn set(&self, ready: bool) {
        self.0.store(ready, Release);
    }

    pub fn is_ready(&self) -> bool {
        self.0.load(Acquire)
    }
}

/// The running thread. Dropping it ends the thread and closes its sockets.
pub struct AdminThread {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl AdminThread {
    /// Serves on sockets bound earlier.
    pub fn start(sockets: AdminSockets, control: Control) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let guard = runtime.enter();
        let surfaces = sockets.with_routers(Arc::new(control))?;
        drop(guard);
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name("weir-admin".into())
            .spawn(move || runtime.block_on(serve(surfaces, stopped)))?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }
}

impl Drop for AdminThread {
    fn drop(&mut self) {
        // The thread may have ended already: then nobody listens, and there is nothing to stop.
        let _ = self.stop.take().map(|stop| stop.send(()));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn serve(surfaces: Vec<(TcpListener, Router)>, stopped: oneshot::Receiver<()>) {
    let mut servers = JoinSet::new();
    for (listener, router) in surfaces {
        servers.spawn(axum::serve(listener, router).into_future());
    }
    // Open connections end with the runtime: a scraper must not hold up a drain.
    let _ = stopped.await;
}

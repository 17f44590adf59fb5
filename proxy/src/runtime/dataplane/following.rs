//! Where the dataplane measures, while interfaces and routes change.

use std::io;
use std::net::SocketAddr;
use std::sync::{MutexGuard, PoisonError};
use std::time::Duration;

use super::Dataplane;
use super::attach::{Attachment, Hook};
use super::interfaces::{Interface, existing_names, towards};
use super::kernel::Kernel;
use super::link_news::LinkNews;
use super::watched::{InterfaceStatus, NotAttached, Watched};

/// How long changes of interfaces and routes are let settle: they come in bursts, and looking costs a question for each
/// endpoint.
const SETTLING: Duration = Duration::from_millis(100);

impl Dataplane {
    /// The interfaces asked for or found, and how the programs hang on them now. Empty where nothing is measured.
    pub fn status(&self) -> Vec<InterfaceStatus> {
        match self.measuring() {
            Ok(()) => self.watched().status(),
            Err(_) => Vec::new(),
        }
    }

    /// Where no interfaces were given, measures on those that lead to these addresses, and no longer looks for ways to
    /// the addresses given before.
    pub fn follow_destinations(&self, destinations: &[SocketAddr]) {
        if let Ok(kernel) = &self.kernel
            && kernel.measuring.is_ok()
        {
            self.watched().follow(destinations, &mut kernel.programs());
            self.say_what_is_missing(destinations);
        }
    }

    /// Where no interfaces were given, measures on those that lead to these addresses, too.
    pub fn reach(&self, more: &[SocketAddr]) {
        if let Ok(kernel) = &self.kernel
            && kernel.measuring.is_ok()
        {
            self.watched().reach(more, &mut kernel.programs());
        }
    }

    /// Attaches again to interfaces that return, and to those that routes begin to lead to the endpoints by. Never
    /// returns.
    pub async fn stay_attached(&self) {
        if !self.has_kernel() {
            return std::future::pending().await;
        }
        if let Err(error) = self.mend_on_news().await {
            tracing::warn!(%error, "the kernel does not tell of its interfaces: one that is made anew goes unmeasured");
        }
        std::future::pending().await
    }

    /// Takes the programs off every interface, for good.
    pub fn detach(&self) {
        self.watched().detach();
        self.end_xdp();
        if let Ok(Kernel { vips: Ok(vips), .. }) = &self.kernel {
            vips.detach();
        }
    }

    /// Leaves what is pinned, and attached by what is pinned, to another process. What is not pinned is of no use to it,
    /// and goes.
    pub fn leave(&self) {
        self.watched().leave();
        self.xdp().leave();
        if let Ok(Kernel { vips: Ok(vips), .. }) = &self.kernel {
            vips.leave();
        }
    }

    /// Takes the programs off until it returns: the other process has no use for them. They stay where standing
    /// connections of L4 services come in by them.
    pub fn withdraw(&self) {
        let is_standing = self.standing() > 0;
        self.watched().withdraw();
        self.xdp().withdraw(is_standing);
        if let Ok(Kernel { vips: Ok(vips), .. }) = &self.kernel {
            vips.detach();
        }
    }

    /// The opposite of [`leave`](Self::leave) and [`withdraw`](Self::withdraw): the other process has failed. The services in the kernel are what it left
    /// of them, until others are told.
    pub fn come_back(&self) {
        if let Ok(kernel) = &self.kernel {
            if let Err(error) = kernel.programs().pin_again() {
                tracing::warn!(%error, "tables cannot be pinned again: a restart will start with what it knows of endpoints at zero");
            }
            if let Err(error) = self.adopt_services(true) {
                tracing::warn!(%error, "the L4 services another process left cannot be taken over");
            }
            self.watched().come_back(&mut kernel.programs());
            self.xdp().come_back(&mut kernel.programs());
        }
    }

    /// Attaches to one more interface, by this hook and no other.
    ///
    /// # Errors
    /// `Unsupported` without BPF, and what the kernel says.
    pub fn attach_by(&self, interface: &Interface, hook: Hook) -> io::Result<()> {
        let kernel = self.kernel.as_ref();
        let kernel = kernel.map_err(|_| io::ErrorKind::Unsupported)?;
        let attachment = Attachment::make_by(&mut kernel.programs(), interface, hook)
            .map_err(io::Error::other)?;
        self.watched().add(attachment);
        Ok(())
    }

    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn attach_what_is_there(&self) {
        if let Ok(kernel) = &self.kernel {
            if kernel.measuring.is_ok() {
                self.watched().attach_what_is_there(&mut kernel.programs());
            }
            self.xdp().attach_where_wanted(&mut kernel.programs());
        }
    }

    /// Links an earlier process left on interfaces that are none of ours.
    pub(super) fn remove_links_of_the_past(&self) {
        let Ok(kernel) = &self.kernel else { return };
        let (measured, with_xdp) = (self.watched().indexes(), self.xdp().indexes());
        if let Some(pins) = &kernel.programs().pins
            && let Err(error) = pins.remove_other_links(&measured, &with_xdp)
        {
            tracing::warn!(%error, "cannot remove links an earlier process left");
        }
    }

    async fn mend_on_news(&self) -> io::Result<()> {
        let news = LinkNews::subscribe()?;
        // What changed between the start and the subscription.
        self.attach_what_is_there();
        loop {
            news.changed().await?;
            self.attach_what_is_there();
            tokio::time::sleep(SETTLING).await;
        }
    }

    pub(super) fn say_what_is_missing(&self, destinations: &[SocketAddr]) {
        if self.measuring().is_err() {
            return;
        }
        let status = self.status();
        let is_missing = |status: &&InterfaceStatus| status.attached == Err(NotAttached::Missing);
        for missing in status.iter().filter(is_missing) {
            tracing::warn!(
                interface = missing.name,
                existing = existing_names().join(" "),
                "there is no such interface yet: measuring on it begins when there is"
            );
        }
        if self.watched().is_by_route() {
            let (_, unreachable) = towards(destinations);
            for (endpoint, error) in unreachable {
                tracing::warn!(%endpoint, %error, "no route to the endpoint: its interface is unknown");
            }
        } else {
            for interface in leading_nowhere(&status, destinations) {
                tracing::warn!(
                    interface,
                    "no endpoint is reached by this interface: nothing is measured on it"
                );
            }
        }
    }
}

/// The interfaces among these that exist and that no way to any of the addresses takes.
fn leading_nowhere<'a>(
    status: &'a [InterfaceStatus],
    destinations: &[SocketAddr],
) -> impl Iterator<Item = &'a str> {
    let (leading, _) = towards(destinations);
    status
        .iter()
        .filter(|status| status.attached != Err(NotAttached::Missing))
        .map(|status| status.name.as_str())
        .filter(move |name| !leading.iter().any(|interface| interface.name == *name))
}

//! The addresses the proxy listens on, each by one socket for every worker.

use std::collections::HashMap;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread;
use std::time::Duration;

use super::ServerError;
use crate::runtime::dataplane::{Covered, Dataplane, Steered, vip_table};
use crate::runtime::mailbox::Newcomers;
use crate::runtime::ring::{Listener, ListenerWatch};
use crate::runtime::takeover::{OfferedListener, Taken};
use crate::snapshot::{self, ListenerId, Plan, Reach, Snapshot};

/// One listener, for each worker.
pub struct ByWorker {
    pub id: ListenerId,
    /// Where clients find it, in words.
    pub place: String,
    pub sockets: Vec<Listener>,
}

/// Sockets handed to workers, those included that are about to be closed.
pub struct Addresses {
    workers: usize,
    ours: Vec<Ours>,
    /// Sockets of the process whose place we take.
    offered: Vec<OfferedListener>,
    /// What was offered to the process that is to take our place, in this order.
    shown: Vec<ListenerId>,
    /// Once is enough to say that connections are not steered.
    has_complained: bool,
}

/// What clients connect to: an address, or all that is within reach of it.
type Place = (SocketAddr, Option<Reach>);

/// The sockets of one listener, wherever they are.
struct Ours {
    id: ListenerId,
    place: Place,
    address: SocketAddr,
    sockets: Vec<ListenerWatch>,
    /// None where the kernel's own hash spreads connections.
    steered: Option<Steered>,
    covered: Covered,
    is_closing: bool,
}

impl Addresses {
    pub fn new(workers: usize) -> Self {
        Self {
            workers,
            ours: Vec::new(),
            offered: Vec::new(),
            shown: Vec::new(),
            has_complained: false,
        }
    }

    /// Goes on with these where they are what is to be bound.
    pub fn inherit(&mut self, offered: Vec<OfferedListener>) {
        self.offered = offered;
    }

    /// Says of addresses whether they could be bound, as far as that can be said without doing it.
    pub fn check_free(&self, plan: &Plan) -> Result<(), ServerError> {
        for address in plan.sockets().filter(|address| !self.is_ours(*address)) {
            let free = Listener::check_free(address);
            free.map_err(|source| ServerError::Listen { address, source })?;
        }
        Ok(())
    }

    /// What is ours of each listener that was offered; the rest is closed.
    pub fn taken(&mut self) -> Vec<Taken> {
        let offered = std::mem::take(&mut self.offered);
        offered.iter().map(OfferedListener::taken).collect()
    }

    /// All that is listened on, for another process.
    pub fn offer(&mut self) -> Vec<(SocketAddr, Option<Reach>, Vec<OwnedFd>)> {
        let staying = self.ours.iter().filter(|ours| !ours.is_closing);
        self.shown = staying.clone().map(|ours| ours.id).collect();
        staying
            .map(|ours| {
                let (address, reach) = ours.place;
                let sockets = ours.sockets.iter();
                let sockets = sockets.filter_map(ListenerWatch::duplicate);
                (address, reach, sockets.collect())
            })
            .collect()
    }

    /// The opposite of [`stop_steering`](Self::stop_steering).
    pub fn steer_again(&mut self, dataplane: &Dataplane) {
        for ours in &mut self.ours {
            let sockets: Vec<OwnedFd> = ours
                .sockets
                .iter()
                .filter_map(ListenerWatch::duplicate)
                .collect();
            let sockets: Vec<BorrowedFd<'_>> = sockets.iter().map(AsFd::as_fd).collect();
            ours.steered = match ours.place {
                (_, None) => dataplane.steer(&sockets).and_then(Result::ok),
                (_, Some(_)) => dataplane.steer_vip(&sockets).ok(),
            };
        }
        self.publish(dataplane);
    }

    /// Leaves the choice among the sockets to another process's program.
    pub fn stop_steering(&mut self) {
        for ours in &mut self.ours {
            if let Some(steered) = ours.steered.take() {
                steered.leave();
            }
        }
    }

    /// As if another process had taken every socket that was offered.
    pub fn all_taken(&self) -> Vec<Taken> {
        let all = Taken {
            sockets: self.workers,
            are_others_left_alone: false,
        };
        vec![all; self.shown.len()]
    }

    /// What becomes of who comes now, by listener and worker, where another process has taken this of each listener that
    /// was offered.
    pub fn leave(&mut self, taken: &[Taken]) -> Vec<(ListenerId, Vec<Newcomers>)> {
        let taken: HashMap<_, _> = self.shown.drain(..).zip(taken).collect();
        let staying = self.ours.iter_mut().filter(|ours| !ours.is_closing);
        staying
            .map(|ours| {
                ours.is_closing = true;
                // A listener that came meanwhile is nobody's.
                let taken = taken.get(&ours.id).copied().copied().unwrap_or_default();
                let newcomers = (0..ours.sockets.len()).map(|worker| {
                    if worker < taken.sockets {
                        Newcomers::Elsewhere
                    } else if taken.are_others_left_alone {
                        Newcomers::Refused
                    } else {
                        Newcomers::Dropped
                    }
                });
                (ours.id, newcomers.collect())
            })
            .collect()
    }

    /// Binds what `next` listens on and `before` does not: all of it, or nothing.
    pub fn bind(
        &mut self,
        dataplane: &Dataplane,
        next: &Snapshot,
        before: Option<&Snapshot>,
    ) -> Result<Vec<ByWorker>, ServerError> {
        self.ours.retain(Ours::is_open);
        let is_new = |id: &ListenerId| before.is_none_or(|before| !before.has_socket(*id));
        let (mut bound, mut new) = (Vec::new(), Vec::new());
        for (id, address) in next.sockets().filter(|(id, _)| is_new(id)) {
            let failed = |source| ServerError::Listen { address, source };
            // A proxy that is just starting may be in the place of one that was just killed.
            let patience = match before {
                None => Patience::WithTheDead,
                Some(_) => Patience::None,
            };
            let wide = next.listener(id).filter(|it| it.reach.is_some());
            if let Some(listener) = wide
                && let Some(reach) = virtual_reach(dataplane, listener)?
            {
                // Nobody is to connect here: the kernel gives these sockets the connections of others' addresses.
                let place = (address, Some(reach));
                let listeners = self.bind_one(place, loopback_of(address)).map_err(failed)?;
                let steered = dataplane.steer_vip(&descriptors(&listeners));
                let steered = steered.map_err(|reason| virtual_error(listener, reason))?;
                let steered = self.lead_away(steered, place);
                let covered = Covered {
                    listener: steered.vip_row(),
                    ..covered(address, reach)
                };
                new.extend(Ours::of(id, place, &listeners, Some(steered), covered));
                bound.push(ByWorker {
                    id,
                    place: listener.place(),
                    sockets: listeners,
                });
                continue;
            }
            if !self.is_ours(address) {
                patience.wait_until_free(address).map_err(failed)?;
            }
            let listeners = self.bind_one((address, None), address).map_err(failed)?;
            let place = (address_of(&listeners, address), None);
            let steered = self.steer(dataplane, &listeners);
            let steered = steered.map(|steered| self.lead_away(steered, place));
            let covered = Covered::ordinary(address_of(&listeners, address));
            new.extend(Ours::of(id, place, &listeners, steered, covered));
            bound.push(ByWorker {
                id,
                place: address_of(&listeners, address).to_string(),
                sockets: listeners,
            });
        }
        let staying = self.ours.iter().filter(|ours| next.has_socket(ours.id));
        let all: Vec<Covered> = staying.chain(&new).map(|ours| ours.covered).collect();
        vip_table(&all).map_err(ServerError::TooManyVirtual)?;
        self.ours.extend(new);
        Ok(bound)
    }

    /// Has the kernel give connections to whoever listens now. To be called when workers accept from new listeners, and
    /// when others were turned away.
    pub fn publish(&self, dataplane: &Dataplane) {
        let staying = self.ours.iter().filter(|ours| !ours.is_closing);
        dataplane.publish_vips(&staying.map(|ours| ours.covered).collect::<Vec<_>>());
    }

    /// To be called when these are about to be closed: who tries to connect from now on is refused, unless another
    /// listener of ours will serve them.
    pub fn turn_away(&mut self, leaving: &[ListenerId]) -> Vec<(ListenerId, Newcomers)> {
        for ours in &mut self.ours {
            ours.is_closing |= leaving.contains(&ours.id);
        }
        leaving
            .iter()
            .map(|id| (*id, self.newcomers(*id)))
            .collect()
    }

    fn newcomers(&self, id: ListenerId) -> Newcomers {
        let Some(leaving) = self.ours.iter().find(|ours| ours.id == id) else {
            return Newcomers::Dropped;
        };
        let mut staying = self.ours.iter().filter(|ours| !ours.is_closing);
        if staying.any(|ours| ours.meets(leaving.address)) {
            return Newcomers::Dropped;
        }
        match &leaving.steered {
            // Nobody comes once it is not published any more; who is on the way comes in.
            Some(steered) if steered.vip_row().is_some() => Newcomers::Refused,
            Some(steered) if steered.turn_away() => Newcomers::Refused,
            _ => Newcomers::Dropped,
        }
    }

    /// A socket for each worker: those that were offered for this place first.
    fn bind_one(&mut self, place: Place, address: SocketAddr) -> io::Result<Vec<Listener>> {
        let mut offered = self.offered.iter_mut();
        let mut offered = offered.find(|it| (it.address, it.reach) == place);
        let mut next = |address| match offered.as_mut().and_then(|it| it.take()) {
            Some(socket) => Listener::inherited(socket),
            None => Listener::bind(address),
        };
        // With port 0 the first socket finds a port, and the others must join it there.
        let first = next(address)?;
        let actual = first.address();
        let others = (1..self.workers).map(|_| next(actual));
        std::iter::once(Ok(first)).chain(others).collect()
    }

    fn steer(&mut self, dataplane: &Dataplane, listeners: &[Listener]) -> Option<Steered> {
        let steered = dataplane.steer(&descriptors(listeners))?;
        if let Err(cause) = &steered
            && !std::mem::replace(&mut self.has_complained, true)
        {
            let address = listeners.first().map(Listener::address);
            tracing::warn!(
                ?address,
                "connections are spread over workers by the kernel's hash: {cause}"
            );
        }
        steered.ok()
    }

    /// Steers who would connect to sockets of this place that were offered, and not taken, to those that were.
    fn lead_away(&mut self, mut steered: Steered, place: Place) -> Steered {
        let mut offered = self.offered.iter_mut();
        if let Some(offered) = offered.find(|it| (it.address, it.reach) == place)
            && offered.left().all(|socket| steered.lead_from(socket))
        {
            offered.lead_away();
        }
        steered
    }

    /// Whether a socket of ours is what keeps an address from being free.
    fn is_ours(&self, address: SocketAddr) -> bool {
        let mut offered = self.offered.iter().filter(|it| it.reach.is_none());
        self.ours.iter().any(|ours| ours.meets(address))
            || offered.any(|offered| meet(offered.address, address))
    }
}

impl Ours {
    fn of(
        id: ListenerId,
        place: Place,
        listeners: &[Listener],
        steered: Option<Steered>,
        covered: Covered,
    ) -> Option<Self> {
        Some(Self {
            id,
            place,
            address: listeners.first()?.address(),
            sockets: listeners.iter().map(Listener::watch).collect(),
            steered,
            covered,
            is_closing: false,
        })
    }

    fn is_open(&self) -> bool {
        self.sockets.iter().any(ListenerWatch::is_open)
    }

    /// Whether connections to one of the two addresses may be the other's.
    fn meets(&self, address: SocketAddr) -> bool {
        meet(self.address, address)
    }
}

fn meet(one: SocketAddr, other: SocketAddr) -> bool {
    let meets = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    meets && one.port() == other.port() && one.is_ipv4() == other.is_ipv4()
}

/// The port is the real one when 0 was asked for.
fn address_of(listeners: &[Listener], asked_for: SocketAddr) -> SocketAddr {
    listeners.first().map_or(asked_for, Listener::address)
}

fn descriptors(listeners: &[Listener]) -> Vec<BorrowedFd<'_>> {
    listeners.iter().map(Listener::as_fd).collect()
}

/// A port of nobody's, on the loopback of the same family.
fn loopback_of(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
        SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
    }
}

fn covered(first: SocketAddr, reach: Reach) -> Covered {
    Covered {
        first,
        prefix_len: reach.prefix_len,
        last_port: reach.last_port,
        listener: None,
    }
}

/// What a listener is for beyond one address, if it takes the kernel to serve it. Without the program, an address
/// and a port can still be bound.
fn virtual_reach(
    dataplane: &Dataplane,
    listener: &snapshot::Listener,
) -> Result<Option<Reach>, ServerError> {
    let Some(reach) = listener.reach else {
        return Ok(None);
    };
    let Err(reason) = dataplane.vips() else {
        return Ok(Some(reach));
    };
    let address = listener.address;
    let is_one = reach.last_port == address.port()
        && (address.ip().is_unspecified() && reach.prefix_len == 0
            || reach.prefix_len == covered_by_one(address));
    if !is_one {
        return Err(virtual_error(listener, reason));
    }
    tracing::warn!(%address, "listening by an ordinary socket, which takes the address on this host: {reason}");
    Ok(None)
}

fn covered_by_one(address: SocketAddr) -> u8 {
    Covered::ordinary(address).prefix_len
}

fn virtual_error(listener: &snapshot::Listener, reason: String) -> ServerError {
    ServerError::Virtual {
        listener: listener.place(),
        reason,
    }
}

enum Patience {
    None,
    /// A proxy that was killed leaves its sockets to the kernel, which closes them with its ring a few moments later.
    WithTheDead,
}

impl Patience {
    fn wait_until_free(self, address: SocketAddr) -> io::Result<()> {
        const PAUSE: Duration = Duration::from_millis(50);
        let tries = match self {
            Self::None => 0,
            Self::WithTheDead => 30,
        };
        for _ in 0..tries {
            match Listener::check_free(address) {
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => thread::sleep(PAUSE),
                other => return other,
            }
        }
        Listener::check_free(address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::EndpointRows;
    use crate::balance::shared::{SharedTables, Sizes};
    use crate::runtime::dataplane::{DataplaneOptions, EbpfMode};
    use crate::snapshot::Lineage;

    const SIZES: Sizes = Sizes {
        capacity: 1,
        workers: 1,
        cpus: 1,
        flows: 1,
    };

    fn rows() -> EndpointRows {
        EndpointRows::new(SharedTables::anonymous(SIZES))
    }

    fn dataplane() -> Dataplane {
        let options = DataplaneOptions {
            mode: EbpfMode::Off,
            interfaces: Vec::new(),
            destinations: Vec::new(),
            sizes: SIZES,
            instance: "test".to_owned(),
            xdp: crate::runtime::dataplane::XdpOptions::default(),
            bpffs: None,
            lock: None,
        };
        Dataplane::open(options).expect("nothing can fail")
    }

    fn free_address() -> SocketAddr {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        socket.local_addr().expect("an address")
    }

    #[test]
    fn only_what_is_new_is_bound_and_an_address_of_ours_may_be_bound_again() {
        let (one, two) = (free_address(), free_address());
        let mut lineage = Lineage::begin(Plan::quick(&[one], &[]), rows()).expect("no endpoint");
        let mut addresses = Addresses::new(2);
        let first = addresses
            .bind(&dataplane(), lineage.current(), None)
            .expect("free");
        assert_eq!(first.len(), 1);
        assert_eq!(first[0].sockets.len(), 2, "one for each worker");

        // The same port on all addresses: only a socket of ours stands in the way.
        let everywhere = SocketAddr::from(([0, 0, 0, 0], one.port()));
        let plan = Plan::quick(&[one, two, everywhere], &[]);
        let draft = lineage.draft(plan).expect("no endpoint");
        let added = addresses
            .bind(&dataplane(), &draft, Some(lineage.current()))
            .expect("free");
        let added: Vec<SocketAddr> = added.iter().map(|one| one.sockets[0].address()).collect();
        assert_eq!(added, [two, everywhere]);
    }

    #[test]
    fn an_address_of_another_process_binds_nothing_at_all() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback");
        let taken = taken.local_addr().map(|address| (address, taken));
        let (taken, _socket) = taken.expect("an address");
        let free = free_address();
        let mut lineage = Lineage::begin(Plan::default(), rows()).expect("no endpoint");
        let draft = lineage
            .draft(Plan::quick(&[free, taken], &[]))
            .expect("no endpoint");
        let mut addresses = Addresses::new(1);
        let refused = addresses.bind(&dataplane(), &draft, Some(lineage.current()));
        let message = refused.err().expect("in use").to_string();
        assert!(message.contains(&taken.to_string()), "{message}");
        assert!(Listener::check_free(free).is_ok(), "it is free again");
    }
}

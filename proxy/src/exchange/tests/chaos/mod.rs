//! Thousands of random steps: clients, endpoints, sockets and time do as they please, in any order. Whatever happens,
//! nothing panics, the contract of the seam and the books hold, answers come in order and to whom they belong, and at
//! the end nothing is left.

mod client;
mod origin;

use crate::seam::ConnectFault;
use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::thread;

use rand::rngs::Xoshiro256PlusPlus as Random;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use super::setup::{Connects, Setup};
use super::wire::{News, Side, Stage};
use super::world::World;
use super::*;
use crate::balance::LeaseCounts;
use crate::metrics::{LocalCause, ResponseClass};
use crate::route::{Filters, Fraction, Handling, Mirror, Rules, Split};
use crate::seam::{ConnId, End};
use client::{Client, Tag};
use origin::Origin;

const SEEDS: std::ops::Range<u64> = 0..24;
const STEPS: usize = 2_000;
const MAX_CLIENTS: usize = 12;
/// Bytes reported although the core had paused: the kernel had them already.
const MAX_LATE: usize = 6;

struct Chaos {
    seed: u64,
    random: Random,
    world: World,
    /// Those that still have something to say.
    clients: Vec<Client>,
    /// The numbers of all there ever were.
    numbers: BTreeMap<ConnId, usize>,
    origins: BTreeMap<ConnId, Origin>,
    /// How often each request that must not be repeated has arrived.
    delivered_posts: BTreeMap<Tag, usize>,
    late: usize,
}

/// Endpoints that get copies of requests.
const MIRRORS: u8 = 2;

/// Every other seed has half of its requests mirrored.
fn mirrored(seed: u64) -> Rules {
    let half = Fraction::new(1, NonZeroU32::MIN.saturating_add(1)).expect("not more than all");
    let mirror = Mirror {
        backend: 1,
        fraction: half,
        filters: None,
    };
    let filters = Filters {
        mirrors: vec![mirror],
        ..Filters::default()
    };
    Rules::always(Handling {
        filters: (seed % 4 < 2).then(|| Arc::new(filters)),
        ..Split::one(0).into()
    })
}

/// Prints the seed of a run that fails.
impl Drop for Chaos {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("seed {}", self.seed);
        }
    }
}

impl Chaos {
    fn new(seed: u64) -> Self {
        let mut world = World::of(Setup {
            weights: vec![1, 2, 1],
            is_measured: seed.is_multiple_of(2),
            mirrors: MIRRORS,
            rules: mirrored(seed),
            seed,
            ..Setup::default()
        });
        world.is_manual = true;
        Self {
            seed,
            random: Random::seed_from_u64(seed),
            world,
            clients: Vec::new(),
            numbers: BTreeMap::new(),
            origins: BTreeMap::new(),
            delivered_posts: BTreeMap::new(),
            late: 0,
        }
    }

    fn step(&mut self) {
        match self.random.random_range(0..1000) {
            0..40 => self.come(),
            40..200 => self.say(),
            200..202 => self.leave(),
            202..500 => self.act(),
            500..502 => self.die(),
            502..512 => self.stall_or_not(),
            512..540 => self.wait(),
            540..541 => self.refuse_bytes(),
            541..548 => self.deliver_late(),
            548..552 => self.change_luck(),
            _ => self.report(),
        }
    }

    /// A client comes.
    fn come(&mut self) {
        if self.clients.len() >= MAX_CLIENTS {
            return;
        }
        if let Some(conn) = self.world.try_client() {
            let number = self.numbers.len();
            self.numbers.insert(conn, number);
            self.clients
                .push(Client::new(conn, number, &mut self.random));
        }
    }

    /// A client says a piece, or goes when all is said.
    fn say(&mut self) {
        let world = &mut self.world;
        self.clients
            .retain(|client| world.wire(client.conn).can_peer_send());
        if self.clients.is_empty() {
            return;
        }
        let place = self.random.random_range(0..self.clients.len());
        let client = &mut self.clients[place];
        let conn = client.conn;
        match client.say(&mut self.random) {
            Some(piece) => self.world.send(conn, piece),
            None if self.random.random_ratio(1, 40) => self.world.finish(conn),
            None => {}
        }
    }

    /// A client leaves, whatever it still had to say or hear.
    fn leave(&mut self) {
        if let Some(client) = self.clients.choose(&mut self.random) {
            let conn = client.conn;
            let end = self.an_end();
            self.world.wire(conn).peer_ends(end);
        }
    }

    /// An endpoint looks at what has come, and says a piece.
    fn act(&mut self) {
        let Some(conn) = self.an_upstream() else {
            return;
        };
        let is_copy = self.world.place_of(conn) >= 3;
        let origin = self.origins.entry(conn).or_default();
        let wire = self.world.wires.get_mut(&conn).expect("an upstream");
        if let Some(seen) = origin.look(wire.unread(), &mut self.random)
            && seen.method == "POST"
            && !is_copy
        {
            *self.delivered_posts.entry(seen.tag).or_default() += 1;
        }
        let most = origin.outbox.len().min(16 * 1024);
        if most > 0 {
            let length = self.random.random_range(1..=most);
            let piece: Vec<u8> = origin.outbox.drain(..length).collect();
            wire.peer_sends(&piece);
        } else if origin.closes {
            wire.peer_ends(End::Finished);
        }
    }

    /// An endpoint closes or resets a connection.
    fn die(&mut self) {
        if let Some(conn) = self.an_upstream() {
            let end = self.an_end();
            self.world.wire(conn).peer_ends(end);
        }
    }

    fn change_luck(&mut self) {
        let kinds = [
            Connects::Succeed,
            Connects::Succeed,
            Connects::Fail(ConnectFault::Endpoint),
            Connects::Hang,
        ];
        self.world.connects = *kinds.choose(&mut self.random).expect("some");
    }

    fn stall_or_not(&mut self) {
        if let Some(conn) = self.a_connection() {
            let wire = self.world.wire(conn);
            wire.is_stalled = !wire.is_stalled;
        }
    }

    fn wait(&mut self) {
        let length = match self.random.random_range(0..40) {
            0 => seconds(self.random.random_range(1..80)),
            1..10 => millis(self.random.random_range(1..3000)),
            _ => millis(self.random.random_range(0..50)),
        };
        self.world.advance(length);
    }

    /// A socket takes no more.
    fn refuse_bytes(&mut self) {
        if let Some(conn) = self.a_connection() {
            let wire = &self.world.wires[&conn];
            if wire.stage == Stage::Open && wire.queued() > 0 {
                self.world.tell(conn, News::SendFailed);
            }
        }
    }

    /// Bytes that were on their way when the core paused or closed.
    fn deliver_late(&mut self) {
        let Some(conn) = self.a_connection() else {
            return;
        };
        let wire = &self.world.wires[&conn];
        if wire.stage == Stage::Open
            && self.late < MAX_LATE
            && let Some(news) = wire.next_inbound()
        {
            self.late += 1;
            self.world.tell(conn, news);
        }
    }

    /// The driver reports something, or a part of it.
    fn report(&mut self) {
        let all = self.world.all_news();
        let Some((conn, news)) = all.choose(&mut self.random).cloned() else {
            return;
        };
        let news = match news {
            News::Sent(bytes) => News::Sent(self.random.random_range(1..=bytes)),
            News::Received(mut bytes) => {
                if self.random.random_ratio(1, 3) {
                    bytes.truncate(self.random.random_range(1..=bytes.len()));
                }
                News::Received(bytes)
            }
            news => news,
        };
        let is_kernel_awake = self.random.random_ratio(1, 2);
        if matches!(news, News::Received(_)) && is_kernel_awake {
            let first_byte = millis(self.random.random_range(0..100));
            self.world.kernel_measures(conn, first_byte);
        }
        self.world.tell(conn, news);
    }

    fn an_end(&mut self) -> End {
        if self.random.random_ratio(1, 2) {
            End::Finished
        } else {
            End::Broken
        }
    }

    fn a_connection(&mut self) -> Option<ConnId> {
        let living = self.world.wires.iter().filter(|(_, wire)| !wire.is_gone());
        let living: Vec<ConnId> = living.map(|(conn, _)| *conn).collect();
        living.choose(&mut self.random).copied()
    }

    /// One on which the endpoint can still say something.
    fn an_upstream(&mut self) -> Option<ConnId> {
        let conns = self.world.wires.iter().filter(|(_, wire)| {
            wire.side != Side::Client && wire.stage == Stage::Open && wire.can_peer_send()
        });
        let conns: Vec<ConnId> = conns.map(|(conn, _)| *conn).collect();
        conns.choose(&mut self.random).copied()
    }

    /// Nobody got what was another's, answers came in the order of the requests, and nothing was ordered twice.
    fn check_deliveries(&self) {
        for (conn, number) in &self.numbers {
            let tags = Tag::all_in(self.world.wires[conn].unread());
            assert!(tags.is_sorted(), "answers out of order: {tags:?}");
            let is_own = |tag: &Tag| tag.client == *number;
            assert!(
                tags.iter().all(is_own),
                "another's answer for {number}: {tags:?}"
            );
        }
        for (tag, times) in &self.delivered_posts {
            assert_eq!(*times, 1, "{tag:?} was delivered more than once");
        }
    }
}

/// What all runs together came to: chaos in which nothing succeeds, or nothing fails, proves little.
#[derive(Debug, Default)]
struct Sum {
    leases: LeaseCounts,
    good: u64,
    reused: u64,
    retried: u64,
    refused: u64,
    ejections: u64,
    copies: LeaseCounts,
}

#[test]
fn whatever_happens_nothing_is_lost_mixed_up_or_left() {
    let mut sum = Sum::default();
    for seed in SEEDS {
        let mut chaos = Chaos::new(seed);
        for step in 0..STEPS {
            if step == STEPS * 9 / 10 && seed.is_multiple_of(3) {
                chaos.world.drain();
            }
            chaos.step();
        }
        chaos.world.end();
        chaos.check_deliveries();
        sum.add(&chaos.world);
    }
    let leases = sum.leases;
    assert!(
        leases.succeeded > 200 && leases.failed > 200 && leases.neutral > 40,
        "{sum:?}"
    );
    assert!(
        sum.good > 100 && sum.reused > 100 && sum.retried > 10,
        "{sum:?}"
    );
    assert!(sum.refused > 10 && sum.ejections > 10, "{sum:?}");
    assert!(
        sum.copies.succeeded > 20 && sum.copies.failed > 20,
        "{sum:?}"
    );
}

impl Sum {
    fn add(&mut self, world: &World) {
        for place in 0..3 {
            let figures = world.figures(place);
            self.leases.succeeded += figures.leases.succeeded;
            self.leases.failed += figures.leases.failed;
            self.leases.neutral += figures.leases.neutral;
            self.ejections += figures.ejections;
        }
        for place in 3..3 + usize::from(MIRRORS) {
            let leases = world.figures(place).leases;
            self.copies.succeeded += leases.succeeded;
            self.copies.failed += leases.failed;
        }
        let counters = &world.counters;
        self.good += counters.responses.of(ResponseClass::Success).value();
        self.reused += counters.upstream_reused.value();
        self.retried += counters.stale_retries.value();
        self.refused += counters.local_replies.of(LocalCause::BadRequest).value();
    }
}
